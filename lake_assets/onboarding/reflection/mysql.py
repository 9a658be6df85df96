"""MySQL's and MariaDB's types through DMS.

By the DMS user guide, "Source data types for MySQL" and "Target data types for S3 Parquet". Pure.
"""

from lake_assets.onboarding.reflection.declared import Declared, TypeName, by_name, decimal, undecided

_NAMES = {
    "TINYINT": "int",
    "SMALLINT": "int",
    "MEDIUMINT": "int",
    "INT": "int",
    "INTEGER": "int",
    "BIGINT": "long",
    "FLOAT": "double",  # REAL(DOUBLE)
    "DOUBLE": "double",
    "DOUBLE PRECISION": "double",
    "REAL": "double",
    "YEAR": "int",
    "DATE": "date",
    "DATETIME": "timestamp",
    "TIMESTAMP": "timestamptz",  # converted to UTC
    "CHAR": "string",
    "VARCHAR": "string",
    "NCHAR": "string",
    "NVARCHAR": "string",
    "TINYTEXT": "string",
    "TEXT": "string",
    "MEDIUMTEXT": "string",
    "LONGTEXT": "string",
    "ENUM": "string",
    "SET": "string",
    "JSON": "json",
    "BINARY": "binary",
    "VARBINARY": "binary",
    "TINYBLOB": "binary",
    "BLOB": "binary",
    "MEDIUMBLOB": "binary",
    "LONGBLOB": "binary",
    "GEOMETRY": "binary",
    "POINT": "binary",
    "LINESTRING": "binary",
    "POLYGON": "binary",
    "MULTIPOINT": "binary",
    "MULTILINESTRING": "binary",
    "MULTIPOLYGON": "binary",
    "GEOMETRYCOLLECTION": "binary",
}
_UNSIGNED = {"INT": "long", "INTEGER": "long", "BIGINT": "decimal(20, 0)"}


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
