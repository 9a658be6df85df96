"""Files of a stream's location that no record of the log names: those that killed readers left behind, and those whose
rows are in a merged file.

Here: which, and removing them. Not here: when (`commands/run/maintain.py`).
"""

import gzip
import json
import re
import secrets
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

from lake_assets.bronze.stream.landed_objects import CARRIER
from lake_assets.storage.object_store import ObjectStore

KEPT_FOR = timedelta(days=7)
"""A reader logs its files within seconds, and a batch reads for hours at most. After the catalog was restored from a
backup, they show what had landed."""
_OWN = re.compile(r"-[0-9a-f]{12}\.(csv\.gz|json\.gz|parquet)$")
"""The end of each key that a landing makes."""
_REPLACED = f"{CARRIER}/replaced-"


def is_own_object(key: str) -> bool:
    """Whether a landing has made the key."""
    return _OWN.search(key) is not None


def replaced_keys(store: ObjectStore, keys: Sequence[str], now: datetime) -> None:
    """Notes that the log will not name these files any more from `now` on, UTC. Raises StoreError."""
    key = f"{_REPLACED}{now:%Y%m%d-%H%M%S}-{secrets.token_hex(6)}.json.gz"
    store.write(key, gzip.compress(json.dumps([*keys]).encode()))


def remove_orphans(store: ObjectStore, logged: Collection[str], now: datetime) -> int:
    """Removes the objects that a landing has written and that are not among the `logged` keys; returns how many. Those
    of the last days stay, and those that were replaced then. `now`: UTC. Raises StoreError."""
    if not logged:
        return 0  # perhaps they are of another catalog
    objects = [obj for obj in store.list() if obj.key not in logged and is_own_object(obj.key)]
    old = [obj.key for obj in objects if now - obj.last_modified > KEPT_FOR]
    kept = set[str]()
    for obj in objects if old else ():
        if obj.key.startswith(_REPLACED) and now - obj.last_modified <= KEPT_FOR:
            with store.open(obj.key) as opened:
                kept |= {*json.loads(gzip.decompress(opened.read()))}
    orphans = [key for key in old if key not in kept]
    for key in orphans:
        store.remove(key)
    return len(orphans)
