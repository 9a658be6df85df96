"""SQL Server's types through DMS.

By the DMS user guide, "Source data types for SQL Server" and "Target data types for S3 Parquet". Pure.
"""

import re

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
SYSTEM_SCHEMAS = re.compile(
    r"information_schema|sys|guest|cdc|db_(owner|accessadmin|securityadmin|ddladmin|backupoperator|datareader|"
    r"datawriter|denydatareader|denydatawriter)",
    re.IGNORECASE,
)
"""`cdc` has the tables of change data capture, which SQL Server makes."""
_LOBS = frozenset(("TEXT", "NTEXT", "IMAGE", "XML", "GEOMETRY", "GEOGRAPHY"))
_LOBS_WITHOUT_LENGTH = frozenset(("VARCHAR", "NVARCHAR", "VARBINARY"))


def is_lob(kind: TypeName) -> bool:
    """Whether DMS migrates a column of this type as a LOB: VARCHAR(MAX) and its kind, too."""
    return kind.name in _LOBS or (kind.name in _LOBS_WITHOUT_LENGTH and not kind.arguments)


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
