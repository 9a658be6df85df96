"""Masking: silver's columns with `mask` get a hash, `***` or NULL instead of their values.

Values are masked right after a row is read, before any shape of the table sees it. So nothing that is computed or
written has the plain value. Here: that replacement. Not here: which columns (`config/columns.py`), a change of masks
(`silver/table/masks.py`).
"""

import hashlib
import hmac
from collections.abc import Collection, Mapping

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import SecretStr
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lake_assets.bronze.decode.changes import BEFORE, IMAGE, matched_columns
from lake_assets.config import REDACTED, Mask, TableConfig
from lake_assets.spark.sql import quoted

_BLOCK = 64
"""Bytes of a block of SHA-256, by which RFC 2104 pads the key."""


def masked(
    changes: DataFrame, masks: Mapping[str, Mask], matched_by: Collection[str], salt: SecretStr | None
) -> DataFrame:
    """`changes` as `changes_by_spark` returns them, with masked values in `_image` and `_before`. `matched_by`: the
    columns of `_before`."""
    if not masks:
        return changes
    hashed = Mask.HASH in masks.values()
    pads = _pads(changes.sparkSession, salt) if hashed else F.lit(None)
    structs = {"_image": tuple(masks)}
    if "_before" in changes.columns:
        structs["_before"] = tuple(name for name in masks if name in matched_by)
    return changes.withColumns({name: _struct(name, found, masks, pads) for name, found in structs.items()})


def masked_changes(
    changes: pa.Table, table: TableConfig, masks: Mapping[str, Mask], salt: SecretStr | None
) -> pa.Table:
    """Decoded changes of the table (`bronze/decode/changes.py`), in silver's columns, with masked values, and without
    any in a row that cannot be used: there, a masked value may be in the place of another."""
    if not masks:
        return changes
    usable = pc.is_null(changes["_bad"])
    for columns, name in ((table.columns, IMAGE), (matched_columns(table), BEFORE)):
        for place, column in enumerate(columns):
            at = changes.schema.get_field_index(name.format(place=place))
            values = pc.if_else(usable, changes[at], None)
            if (mask := masks.get(column.name)) is not None:
                values = _masked_values(values, mask, salt)
            changes = changes.set_column(at, changes.field(at), values)
    return changes


def _masked_values(plain: pa.ChunkedArray, mask: Mask, salt: SecretStr | None) -> pa.Array | pa.ChunkedArray:
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


def _struct(name: str, columns: Collection[str], masks: Mapping[str, Mask], pads: Column) -> Column:
    struct = F.col(name)
    for column in columns:
        struct = struct.withField(quoted(column), _value(F.col(name)[column], masks[column], pads))
    return struct


def _value(plain: Column, mask: Mask, pads: Column) -> Column:
    match mask:
        case Mask.HASH:
            return _hmac(plain, pads)
        case Mask.REDACT:
            return F.when(plain.isNotNull(), F.lit(REDACTED))
    # NULL of the column's own type.
    return F.when(F.lit(False), plain)


def _hmac(text: Column, pads: Column) -> Column:
    """HMAC-SHA256 in hexadecimal digits, as Python's `hmac.new(salt, text, "sha256").hexdigest()`."""
    inner = F.unhex(F.sha2(F.concat(pads["inner"], text.cast("binary")), 256))
    return F.sha2(F.concat(pads["outer"], inner), 256)


def _pads(spark: SparkSession, salt: SecretStr | None) -> Column:
    """The salt as HMAC's two pads, in a row of a local table. In plans, in its UI and in its event log, Spark shows
    literals, but only the column names of a local table."""
    assert salt is not None, "lake.yaml with mask: hash has a salt"
    key = salt.get_secret_value().encode()
    key = (hashlib.sha256(key).digest() if len(key) > _BLOCK else key).ljust(_BLOCK, b"\0")
    values = {"inner": [bytes(byte ^ 0x36 for byte in key)], "outer": [bytes(byte ^ 0x5C for byte in key)]}
    row = spark.createDataFrame(pa.table(values, pa.schema([("inner", pa.binary()), ("outer", pa.binary())])))
    return row.select(F.struct("inner", "outer")).scalar()
