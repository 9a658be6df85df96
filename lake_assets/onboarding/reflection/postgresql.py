"""PostgreSQL's types through DMS.

By the DMS user guide, "Source data types for PostgreSQL" and "Target data types for S3 Parquet". Pure.
"""

from lake_assets.onboarding.reflection.declared import Declared, TypeName, by_name, decimal, undecided

_NAMES = {
    "SMALLINT": "int",
    "INTEGER": "int",
    "BIGINT": "long",
    "REAL": "float",
    "DOUBLE PRECISION": "double",
    "FLOAT": "double",
    "CHAR": "string",
    "VARCHAR": "string",
    "TEXT": "string",
    "BYTEA": "binary",
    "DATE": "date",
    "TIME": "time",
    "TIME WITHOUT TIME ZONE": "time",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP WITHOUT TIME ZONE": "timestamp",
    "TIMESTAMP WITH TIME ZONE": "timestamptz",
    "BOOLEAN": "boolean",  # CHAR(5), true or false; BOOLEAN with MapBooleanAsBoolean
    "UUID": "uuid",
    "JSON": "json",
    "JSONB": "json",
    "ENUM": "string",
    "CIDR": "string",
    "INET": "string",
    "MACADDR": "string",
    "BIT": "string",
    "BIT VARYING": "string",
    "TSVECTOR": "string",
    "TSQUERY": "string",
    "XML": "string",
    "POINT": "string",
    "LINE": "string",
    "LSEG": "string",
    "BOX": "string",
    "PATH": "string",
    "POLYGON": "string",
    "CIRCLE": "string",
    "HSTORE": "string",
    "INT4RANGE": "string",
    "INT8RANGE": "string",
    "NUMRANGE": "string",
}


def declared_type(kind: TypeName) -> Declared:
    """What a column of this type is declared as."""
    if kind.name.endswith("[]") or kind.name == "ARRAY":
        return Declared(
            "string", f"{kind.text}: DMS writes arrays as text, of tables with a primary key only"
        )
    if kind.name.startswith("INTERVAL"):
        return Declared("string", "interval: DMS writes text, 1 YEAR, 2 MONTHS, …")
    match kind.name:
        case "NUMERIC" | "DECIMAL" if kind.arguments:
            return decimal(kind, Declared("string", f"{kind.text}: DMS writes more than 38 digits as text"))
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
    return by_name(kind, _NAMES, "PostgreSQL")
