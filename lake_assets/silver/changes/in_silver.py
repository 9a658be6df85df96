"""Decoded changes in silver's columns, with masked values.

A file is decoded by the contract of its time. Then its columns get the names and types that silver has today, and
columns with `mask` a hash, `***` or NULL. Both happen before Spark gets a row, or a row is staged, so that nothing that
is computed or written has the plain value. Here: that. Not here: decoding (`bronze/decode/`), which columns have masks
(`config/columns.py`), a change of masks (`silver/table/masks.py`). Pure.
"""

import hmac
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import SecretStr

from lake_assets.bronze.decode.changes import BEFORE, IMAGE, default_text, matched_columns
from lake_assets.bronze.values.exact_conversions import converted
from lake_assets.config import REDACTED, Column, Mask
from lake_assets.local_times import LocalClock
from lake_assets.schema.contract import Contracts
from lake_assets.silver.changes.file_groups import FileGroup, is_current, names_today
from lake_assets.silver.table.targets import Target


def in_silver(changes: pa.Table, group: FileGroup, contracts: Contracts, target: Target) -> pa.Table:
    """Changes of the group (`bronze/decode/changes.py`), with images of silver's columns, and before images of those by
    which a change finds its row. A column that their contract lacks has its default, else NULL."""
    if not is_current(group.version, contracts, target):
        changes = _by_names(changes, group, names_today(group.version, contracts, target), target)
    return _masked(changes, target)


def _by_names(changes: pa.Table, group: FileGroup, names: Mapping[str, str], target: Target) -> pa.Table:
    """`names`: the present names of the group's columns; a column that is not among them is left out."""
    had, types = group.table(target.config), {column.name: column for column in target.image_columns}
    images = _found(changes, IMAGE, had.columns, names)
    before = _found(changes, BEFORE, matched_columns(had), names)
    found: dict[str, Any] = {name: changes[name] for name in changes.column_names if name.startswith("_")}
    unsupplied = found.pop("_unsupplied", None)
    for place, column in enumerate(target.image_columns):
        found[IMAGE.format(place=place)] = _value(images, column, target, changes.num_rows)
    for place, name in enumerate(target.matched_by):
        found[BEFORE.format(place=place)] = _value(before, types[name], target, changes.num_rows)
    if unsupplied is not None:
        known = [[names[name] for name in each if name in names] for each in unsupplied.to_pylist()]
        found["_unsupplied"] = pa.array(known, pa.list_(pa.string()))
    return pa.table(found)


def _found(
    changes: pa.Table, column: str, had: Sequence[Column], names: Mapping[str, str]
) -> dict[str, pa.ChunkedArray]:
    """The values by the present name of their column."""
    places = enumerate(had)
    return {names[each.name]: changes[column.format(place=at)] for at, each in places if each.name in names}


def _value(
    found: Mapping[str, pa.ChunkedArray], column: Column, target: Target, rows: int
) -> pa.ChunkedArray:
    if column.name in found:
        return converted(found[column.name], column.type, LocalClock())
    default = pa.array([default_text(target.config.defaults.get(column.name)).as_py()], pa.string())
    values = converted(pa.chunked_array([default]), column.type, LocalClock())
    return pa.chunked_array([pa.repeat(values[0], rows)])


def _masked(changes: pa.Table, target: Target) -> pa.Table:
    """With masked values, and without any in a row that cannot be used: there, a masked value may be in the place of
    another."""
    masks = target.config.mask
    if not masks:
        return changes
    usable = pc.is_null(changes["_bad"])
    names = [column.name for column in target.image_columns]
    for columns, column in ((names, IMAGE), (target.matched_by, BEFORE)):
        for place, name in enumerate(columns):
            at = changes.schema.get_field_index(column.format(place=place))
            values = pc.if_else(usable, changes[at], None)
            if (mask := masks.get(name)) is not None:
                values = masked_values(values, mask, target.salt)
            changes = changes.set_column(at, changes.field(at), values)
    is_known = pc.is_in(changes["_op"], pa.array(["I", "U", "D"]))
    for name, kept in (("_op", pc.or_(usable, is_known)), ("_commit_ts", usable), ("_sequence", usable)):
        at = changes.schema.get_field_index(name)
        changes = changes.set_column(at, changes.field(at), pc.if_else(kept, changes[at], None))
    return changes


def masked_values(plain: pa.ChunkedArray, mask: Mask, salt: SecretStr | None) -> pa.Array | pa.ChunkedArray:
    """The values of a column with the mask; `salt`: of the lake, for hashes."""
    match mask:
        case Mask.HASH:
            assert salt is not None, "lake.yaml with mask: hash has a salt"
            key = salt.get_secret_value().encode()
            different = plain.combine_chunks().dictionary_encode()
            texts = different.dictionary.to_pylist()
            hashed = [hmac.digest(key, text.encode(), "sha256").hex() for text in texts]
            return pa.array(hashed, pa.string()).take(different.indices)
        case Mask.REDACT:
            return pc.if_else(plain.is_valid(), REDACTED, None)
    return pa.nulls(len(plain), plain.type)
