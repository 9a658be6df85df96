"""MySQL's and MariaDB's types through DMS.

By the DMS user guide, "Source data types for MySQL" and "Target data types for S3 Parquet". Pure.
"""

import re

from lake_assets.storage.reflection.declared import Declared, TypeName, by_name, decimal, undecided

_NAMES = {
    "int": "TINYINT, SMALLINT, MEDIUMINT, INT, INTEGER, YEAR",
    "long": "BIGINT",
    "double": "FLOAT, DOUBLE, DOUBLE PRECISION, REAL",  # REAL(DOUBLE)
    "date": "DATE",
    "timestamp": "DATETIME",
    "timestamptz": "TIMESTAMP",  # converted to UTC
    "string": "CHAR, VARCHAR, NCHAR, NVARCHAR, TINYTEXT, TEXT, MEDIUMTEXT, LONGTEXT, ENUM, SET",
    "json": "JSON",
    "binary": (
        "BINARY, VARBINARY, TINYBLOB, BLOB, MEDIUMBLOB, LONGBLOB, GEOMETRY, POINT, LINESTRING, POLYGON, "
        "MULTIPOINT, MULTILINESTRING, MULTIPOLYGON, GEOMETRYCOLLECTION"
    ),
}
SYSTEM_SCHEMAS = re.compile(r"information_schema|performance_schema|mysql|sys", re.IGNORECASE)
_LOBS = frozenset(
    (
        *(
            "MEDIUMTEXT",
            "LONGTEXT",
            "MEDIUMBLOB",
            "LONGBLOB",
            "JSON",
            "GEOMETRY",
            "POINT",
            "LINESTRING",
            "POLYGON",
        ),
        *("MULTIPOINT", "MULTILINESTRING", "MULTIPOLYGON", "GEOMETRYCOLLECTION"),
    )
)
_UNSIGNED = {"INT": "long", "INTEGER": "long", "BIGINT": "decimal(20, 0)"}


def is_lob(kind: TypeName) -> bool:
    """Whether DMS migrates a column of this type as a LOB."""
    return kind.name in _LOBS


def declared_type(kind: TypeName) -> Declared:
    """What a column of this type is declared as."""
    match kind.name:
        case "DECIMAL" | "NUMERIC":
            digits = kind if kind.arguments else TypeName(kind.name, (10, 0))
            return decimal(
                digits, undecided(f"{kind.text} has more than 38 digits; have DMS write it as a string")
            )
        case "TINYINT" if kind.arguments == (1,) and not kind.unsigned:
            return Declared("int", "tinyint(1): DMS writes a number; boolean where it is only ever 0 or 1")
        case "INT" | "INTEGER" | "BIGINT" if kind.unsigned:
            return Declared(_UNSIGNED[kind.name])
        case "BIT" if kind.arguments in ((), (1,)):
            return Declared("boolean")
        case "BIT" if kind.arguments == (64,):
            return Declared("binary")
        case "TIME":
            return Declared("string", "time: DMS writes text; MySQL's times go beyond a day")
    return by_name(kind, _NAMES, "MySQL")
