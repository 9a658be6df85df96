"""SQL Server's types through DMS.

By the DMS user guide, "Source data types for SQL Server" and "Target data types for S3 Parquet". Pure.
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
    "int": "INT, INTEGER, SMALLINT, TINYINT",
    "long": "BIGINT",
    "boolean": "BIT",
    "decimal(19, 4)": "MONEY",
    "decimal(10, 4)": "SMALLMONEY",
    "float": "REAL",
    "date": "DATE",
    "timestamp": "DATETIME, SMALLDATETIME",
    "string": "CHAR, VARCHAR, NCHAR, NVARCHAR, TEXT, NTEXT, XML, HIERARCHYID, GEOMETRY, GEOGRAPHY",
    "uuid": "UNIQUEIDENTIFIER",
    # TIMESTAMP is a row version, not a time.
    "binary": "BINARY, VARBINARY, IMAGE, TIMESTAMP, ROWVERSION",
}


def declared_type(kind: TypeName) -> Declared:
    """What a column of this type is declared as."""
    match kind.name:
        case "DECIMAL" | "NUMERIC":
            digits = kind if kind.arguments else TypeName(kind.name, (18, 0))
            return decimal(digits, undecided(f"{kind.text} is not a type of SQL Server"))
        case "FLOAT" | "DOUBLE PRECISION":
            return Declared("float" if kind.arguments and kind.arguments[0] <= 24 else "double")
        case "DATETIME2":
            return fractional_seconds(kind, "timestamp", most=7, default=7)
        case "TIME":
            return fractional_seconds(kind, "time", most=7, default=7)
        case "DATETIMEOFFSET":
            return Declared("string", "datetimeoffset: DMS writes text with the offset")
        case "SQL_VARIANT":
            return undecided("DMS writes no table that has a sql_variant: remove the column at the source")
    return by_name(kind, _NAMES, "SQL Server")
