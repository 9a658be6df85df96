"""The rows of the erased keys in a table's files.

Here: which files a table has in the bucket, and which of their rows are of the keys. Not here: the keys
(`erased_keys.py`), writing a file without the rows (`rewritten_files.py`).
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lake_assets.bronze.decode.changes import IMAGE
from lake_assets.bronze.decode.files import changes_in_pieces
from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.copies import originals
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.bronze.quarantine.raw_rows import raw_records
from lake_assets.config import KEYED_MODES, TableConfig
from lake_assets.runtime import LakeRuntime
from lake_assets.schema.contract import Contracts
from lake_assets.silver.changes.file_groups import names_today
from lake_assets.silver.erase.erased_keys import ErasedKeys, Key
from lake_assets.silver.plan.members import newest_versions
from lake_assets.silver.table.targets import Target
from lake_assets.storage.object_store import ObjectStore, StoredObject

SHORTEST = 4
"""Characters of a text by which a row is recognised wherever it is: shorter ones are everywhere."""
BOUND = 15
"""Iceberg cuts the bounds of a column in a manifest after 16 characters, and raises the last one."""
LEAST_NUMBER = 10**6
"""The same of a whole number: telephone numbers are longer."""
_TEXTS, _NUMBERS = frozenset({"string", "json", "uuid"}), frozenset({"int", "long"})


@dataclass(slots=True)
class FoundRows:
    """What a file has of the keys."""

    file: LoggedFile
    version: str
    """Of the object that was read."""
    total: int = 0
    """The rows of the file."""
    rows: set[int] = field(default_factory=set)
    """The places of the rows, from 0."""
    others: set[Key] = field(default_factory=set)
    """As of `RowsOfKeys`."""
    undecided: list[int] = field(default_factory=list)
    """The places of bad rows that show no key, and whose text has one of the keys."""
    values: set[str] = field(default_factory=set)
    """The texts by which a copy of the rows would be recognised."""
    shared: set[str] = field(default_factory=set)
    """Those of the `sought` texts that other rows of the file have, and those beginnings of BOUND characters of
    them."""


def files_of(runtime: LakeRuntime, target: Target) -> list[tuple[LoggedFile, StoredObject]]:
    """The table's files whose content the bucket has, each as it was logged first, with the object that has it."""
    logged = runtime.file_log.files(target.source, target.table)
    files = newest_versions(file for file in originals(logged) if file.kind is not FileKind.VANISHED)
    listed = {obj.key: obj for obj in runtime.store(target.source).list()}
    return [(file, listed[file.path]) for file in files if file.path in listed]


def found_rows(
    runtime: LakeRuntime,
    target: Target,
    contracts: Contracts,
    keys: ErasedKeys,
    file: LoggedFile,
    obj: StoredObject,
    sought: Collection[str] = (),
) -> FoundRows:
    """What the file has of the keys. `sought`: texts to look for in its other rows. Raises StoreError for a file that
    is gone, and UnreadableFile or what Arrow raises for one that is damaged."""
    store = runtime.store(target.source)
    found = FoundRows(file, store.version(obj))
    version, table = contracts.at(file.offset), table_of(target, contracts, file)
    dms, names = version.contract.dms, names_today(version, contracts, target)
    keyless: list[int] = []
    for changes in decoded(store, target, contracts, file):
        rows = keys.rows_of(changes, table, names, table.clock(dms))
        own = changes.filter(rows.found)
        found.total += changes.num_rows
        found.rows |= {*own["_row"].to_pylist()}
        found.others |= rows.others
        found.values |= {text for texts in _recognisable(own, table) for text in texts.unique().to_pylist()}
        if sought:
            others = _recognisable(changes.filter(pc.invert(rows.found)), table)
            found.shared |= {text for texts in others for text in _those_in(texts, sought)}
        keyless += changes.filter(pc.and_(rows.keyless, pc.invert(rows.found)))["_row"].to_pylist()
    if keyless:
        names_key = re.compile("|".join(rf"(?<!\w){re.escape(key[0])}(?!\w)" for key in keys.keys))
        raw = raw_records(store, file, dms, keyless)
        found.undecided = [place for place, one in raw.items() if names_key.search(one.text)]
    return found


def table_of(target: Target, contracts: Contracts, file: LoggedFile) -> TableConfig:
    """The table as of the contract of the file."""
    contract = contracts.at(file.offset).contract
    return contract.table(target.config, contract.gone_at(file.written_at))


def decoded(store: ObjectStore, target: Target, contracts: Contracts, file: LoggedFile) -> Iterator[pa.Table]:
    """The changes of the file (`bronze/decode/changes.py`), in pieces."""
    return changes_in_pieces(
        store,
        file,
        name=target.table,
        table=table_of(target, contracts, file),
        dms=contracts.at(file.offset).contract.dms,
        partial=target.mode in KEYED_MODES,
    )


def _recognisable(changes: pa.Table, table: TableConfig) -> Iterator[pa.ChunkedArray]:
    """The texts of each column by which rows are recognised."""
    for place, column in enumerate(table.columns):
        values = changes[IMAGE.format(place=place)]
        if column.type in _TEXTS:
            texts = values.cast(pa.string())
            yield texts.filter(pc.fill_null(pc.greater_equal(pc.utf8_length(texts), SHORTEST), False))
        elif column.type in _NUMBERS:
            numbers = values.cast(pa.int64())
            yield numbers.filter(pc.fill_null(pc.greater_equal(numbers, LEAST_NUMBER), False)).cast(
                pa.string()
            )


def _those_in(texts: pa.ChunkedArray, sought: Collection[str]) -> set[str]:
    found: set[str] = set()
    starts = {text[:BOUND] for text in sought if len(text) > BOUND}
    for values, wanted in ((texts, sought), (pc.utf8_slice_codeunits(texts, 0, BOUND), starts)):
        found |= {*values.filter(pc.is_in(values, pa.array([*wanted], pa.string()))).unique().to_pylist()}
    return found
