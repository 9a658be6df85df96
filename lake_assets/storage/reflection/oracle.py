"""Oracle's types through DMS.

By the DMS user guide, "Source data types for Oracle" and "Target data types for S3 Parquet". Pure.
"""

import re
from collections.abc import Mapping

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
SYSTEM_SCHEMAS = re.compile(
    # Oracle calls them maintained by itself; ORACLE_MAINTAINED of ALL_USERS is not in every version.
    r"sys|system|sys\$umf|sysbackup|sysdg|syskm|sysrac|audsys|outln|xdb|dbsnmp|appqossys|ctxsys|mdsys|ordsys|orddata|"
    r"ordplugins|olapsys|lbacsys|dvsys|dvf|wmsys|gsmadmin_internal|gsmcatuser|gsmuser|gsmrootuser|ggsys|ojvmsys|"
    r"anonymous|dbsfwuser|dip|dgpdb_int|mddata|oracle_ocm|remote_scheduler_agent|si_informtn_schema|xs\$null|rdsadmin|"
    r"vecsys|bat|pyqsys|gguser|ggshcap|graph\$metadata|graph\$proxy_user",
    re.IGNORECASE,
)
_LOBS = frozenset(("CLOB", "NCLOB", "BLOB", "LONG", "LONG RAW", "XMLTYPE"))


def is_lob(kind: TypeName) -> bool:
    """Whether DMS migrates a column of this type as a LOB."""
    return kind.name in _LOBS


def declared_type(kind: TypeName, settings: Mapping[str, str]) -> Declared:
    """What a column of this type is declared as. `settings`: the source endpoint's, by name in lower case."""
    if kind.name.startswith("INTERVAL"):
        return Declared("string", "interval: DMS writes text")
    match kind.name:
        case "NUMBER" | "DECIMAL" | "NUMERIC" if kind.arguments:
            return _number(kind)
        case "NUMBER" if (scale := settings.get("numberdatatypescale")) is not None:
            return _unbounded(scale)
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


def _unbounded(scale: str) -> Declared:
    """NUMBER without digits, by the endpoint's NumberDataTypeScale."""
    said = f"number without digits: NumberDataTypeScale is {scale}"
    if scale in ("-1", "-2"):
        return Declared("double" if scale == "-1" else "string", said)
    if scale.isdecimal() and int(scale) <= 38:
        return Declared(f"decimal(38, {int(scale) or 10})", said)  # 0 is DMS's default, which is 10
    return undecided(f"{said}, which is not known: check what DMS writes, and declare that")


def _number(kind: TypeName) -> Declared:
    precision, scale = (*kind.arguments, 0)[:2]
    if scale == 0 and precision <= 9:
        return Declared("int")  # INT1, INT2, INT4
    return decimal(kind, undecided(f"{kind.text} has more than 38 digits; set NumberDataTypeScale to -2"))
