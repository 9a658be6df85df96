"""PostgreSQL's types through DMS.

By the DMS user guide, "Source data types for PostgreSQL" and "Target data types for S3 Parquet". Pure.
"""

import re
from collections.abc import Mapping

from lake_assets.storage.reflection.declared import Declared, TypeName, by_name, decimal, undecided

SYSTEM_SCHEMAS = re.compile(r"information_schema|pg_.*", re.DOTALL)
_LOBS = frozenset(
    (
        "TEXT",
        "BYTEA",
        "JSON",
        "JSONB",
        "XML",
        "HSTORE",
        "TSVECTOR",
        "TSQUERY",
        "PATH",
        "POLYGON",
        "ARRAY",
        "COMPOSITE",
    )
)

_NAMES = {
    "int": "SMALLINT, INTEGER",
    "long": "BIGINT",
    "float": "REAL",
    "double": "DOUBLE PRECISION, FLOAT",
    "binary": "BYTEA",
    "date": "DATE",
    "time": "TIME, TIME WITHOUT TIME ZONE",
    "timestamp": "TIMESTAMP, TIMESTAMP WITHOUT TIME ZONE",
    "timestamptz": "TIMESTAMP WITH TIME ZONE",
    "boolean": "BOOLEAN",  # CHAR(5), true or false; BOOLEAN with MapBooleanAsBoolean: read alike
    "uuid": "UUID",
    "json": "JSON, JSONB",
    "string": (
        "CHAR, VARCHAR, TEXT, ENUM, CIDR, INET, MACADDR, BIT, BIT VARYING, TSVECTOR, TSQUERY, XML, POINT, LINE, "
        "LSEG, BOX, PATH, POLYGON, CIRCLE, HSTORE, INT4RANGE, INT8RANGE, NUMRANGE"
    ),
}


def is_left_out(kind: TypeName) -> bool:
    """Whether PostgreSQL does not log a large value of this type that an update leaves as it is: it keeps values of
    more than 2,000 bytes outside of their rows (TOAST)."""
    is_long = kind.name == "VARCHAR" and (not kind.arguments or kind.arguments[0] > 2000)
    return is_long or kind.name in ("TEXT", "JSON", "JSONB", "BYTEA")


def is_lob(kind: TypeName) -> bool:
    """Whether DMS migrates a column of this type as a LOB."""
    return kind.name in _LOBS or kind.name.endswith("[]") or (kind.name == "VARCHAR" and not kind.arguments)


def declared_type(kind: TypeName, settings: Mapping[str, str]) -> Declared:
    """What a column of this type is declared as. `settings`: the source endpoint's, by name in lower case."""
    if kind.name.endswith("[]") or kind.name == "ARRAY":
        return Declared(
            "string", f"{kind.text}: DMS writes arrays as text, of tables with a primary key only"
        )
    if kind.name.startswith("INTERVAL"):
        return Declared("string", "interval: DMS writes text, 1 YEAR, 2 MONTHS, …")
    match kind.name:
        case "NUMERIC" | "DECIMAL" if kind.arguments:
            return decimal(kind, Declared("string", f"{kind.text}: DMS writes more than 38 digits as text"))
        case "NUMERIC" | "DECIMAL" if settings.get("mapunboundednumericasstring") == "true":
            return Declared(
                "string", "numeric without digits: DMS writes text, by MapUnboundedNumericAsString"
            )
        case "NUMERIC" | "DECIMAL":
            return undecided(
                "numeric without digits: DMS writes numeric(28, 6) and drops further decimals; declare "
                "decimal(28, 6) if none has more, else give the source's column its digits"
            )
        case "MONEY":
            return Declared("decimal(38, 4)")
        case "TIME WITH TIME ZONE":
            return undecided(
                "time with time zone: DMS writes a time without its offset; declare time if all offsets are one"
            )
        case "COMPOSITE":
            return Declared("string", "composite type: DMS writes text")
        case "OID":
            return undecided(
                "oid: DMS does not migrate a large object; declare long if its numbers are of use, else remove the "
                "column from the task's mapping and from here"
            )
    found = by_name(kind, _NAMES, "PostgreSQL")
    if found.is_decided:
        return found
    return Declared(
        "string", f"{kind.text}: DMS streams types that its user guide does not have as text; compare a file"
    )
