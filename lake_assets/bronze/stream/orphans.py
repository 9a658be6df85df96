"""Files that killed readers of a stream left behind: no record of the log names them.

Here: which, and removing them. Not here: when (`commands/run/maintain.py`).
"""

import re
from collections.abc import Collection
from datetime import datetime, timedelta

from lake_assets.storage.object_store import ObjectStore

KEPT_FOR = timedelta(days=7)
"""A reader logs its files within seconds. After the catalog was restored from a backup, they show what had landed."""
_OWN = re.compile(r"-[0-9a-f]{12}\.(csv\.gz|json\.gz|parquet)$")
"""The end of each key that a landing makes."""


def remove_orphans(store: ObjectStore, logged: Collection[str], now: datetime) -> int:
    """Removes the objects that a landing has written and that are not among the `logged` keys; returns how many. `now`:
    UTC. Raises StoreError."""
    orphans = [
        obj.key
        for obj in store.list()
        if obj.key not in logged and _OWN.search(obj.key) and now - obj.last_modified > KEPT_FOR
    ]
    for key in orphans:
        store.remove(key)
    return len(orphans)
