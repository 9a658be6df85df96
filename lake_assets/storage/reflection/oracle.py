"""Oracle's types through DMS.

By the DMS user guide, "Source data types for Oracle" and "Target data types for S3 Parquet". Pure.
"""

from lake_assets.storage.reflection.declared import (
    Declared,
    TypeName,
    by_name,
    decimal,
    fractional_seconds,
    undecided,
)

_NAMES = {
    "float": "BINARY_FLOAT",
    "double": "BINARY_DOUBLE, REAL",
    "timestamp": "DATE",  # an Oracle DATE has a time
    "string": "CHAR, VARCHAR, VARCHAR2, NCHAR, NVARCHAR2, CLOB, NCLOB, LONG, XMLTYPE",
    "binary": "RAW, LONG RAW, BLOB",
}


def declared_type(kind: TypeName) -> Declared:
    """What a column of this type is declared as."""
    if kind.name.startswith("INTERVAL"):
        return Declared("string", "interval: DMS writes text")
    match kind.name:
        case "NUMBER" | "DECIMAL" | "NUMERIC" if kind.arguments:
            return _number(kind)
        case "NUMBER":
            return undecided(
                "number without digits: the endpoint's NumberDataTypeScale decides; declare decimal(38, 10) for its "
                "default, double for -1, string for -2"
            )
        case "INTEGER" | "INT" | "SMALLINT":
            return Declared("decimal(38, 0)")
        case "FLOAT" | "DOUBLE PRECISION":
            digits = kind.arguments[0] if kind.arguments else 126
            lossy = f"{kind.text}: DMS writes a binary double, which has 15 digits"
            return Declared("float") if digits <= 24 else Declared("double", lossy if digits > 53 else None)
        case "TIMESTAMP":
            return fractional_seconds(kind, "timestamp", most=9, default=6)
        case "TIMESTAMP WITH TIME ZONE" | "TIMESTAMP WITH LOCAL TIME ZONE":
            return Declared("string", f"{kind.text}: DMS writes text")
    return by_name(kind, _NAMES, "Oracle")


def _number(kind: TypeName) -> Declared:
    precision, scale = (*kind.arguments, 0)[:2]
    if scale == 0 and precision <= 9:
        return Declared("int")  # INT1, INT2, INT4
    return decimal(kind, undecided(f"{kind.text} has more than 38 digits; set NumberDataTypeScale to -2"))
