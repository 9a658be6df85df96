"""The statements with which Snowflake shows the lake's tables. Pure.

Every name is quoted. Names of the lake are in upper case in Snowflake, where a name without quotes is read in upper
case: users need no quotes. Here: the statements. Not here: executing them (`snowflake_output.py`).
"""

import re
from collections.abc import Sequence

from pydantic import SecretStr

from lake_assets.config import LakeConfig, SnowflakeConfig

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*")
HIDDEN = "***"
"""In place of a secret in a statement that is printed."""


def setup(lake: LakeConfig, namespaces: Sequence[str], client_secret: str = HIDDEN) -> list[str]:
    """What an administrator of the account executes, and may repeat after a change of lake.yaml: integration, volume,
    database, rights. `namespaces`: those of the catalog whose tables are shown."""
    config = _config(lake)
    integration, database = quoted(config.integration), quoted(config.database)
    seconds = int(config.refresh_interval.total_seconds())
    found = [
        _integration(lake, client_secret),
        f"ALTER CATALOG INTEGRATION {integration} SET REFRESH_INTERVAL_SECONDS = {seconds}",
    ]
    if config.catalog != "open_catalog":
        found.append(_volume(lake))
    found.append(_database(config, namespaces))
    if isinstance(role := config.connect.get("role"), SecretStr):
        # The lake's own role: it owns the tables, because only their owner may refresh them.
        to = f"TO ROLE {quoted(upper(role.get_secret_value()))}"
        found.append(f"GRANT USAGE ON INTEGRATION {integration} {to}")
        if config.catalog != "open_catalog":
            found.append(f"GRANT USAGE ON EXTERNAL VOLUME {quoted(config.volume)} {to}")
        found.append(f"GRANT USAGE, CREATE SCHEMA ON DATABASE {database} {to}")
    for name in config.grant_to:
        to = f"TO ROLE {quoted(upper(name))}"
        found.append(f"GRANT USAGE ON DATABASE {database} {to}")
        for right, kind in (("USAGE", "SCHEMAS"), ("SELECT", "ICEBERG TABLES")):
            found += [
                f"GRANT {right} ON {which} {kind} IN DATABASE {database} {to}" for which in ("ALL", "FUTURE")
            ]
    return found


def table(lake: LakeConfig, identifier: str) -> list[str]:
    """What creates one table; nothing in a linked database, whose tables Snowflake finds itself."""
    config = _config(lake)
    if config.linked_database:
        return []
    namespace, name = identifier.split(".")
    schema = f"{quoted(config.database)}.{quoted(names(config, identifier)[0])}"
    create = [
        f"CREATE ICEBERG TABLE IF NOT EXISTS {address(config, identifier)}",
        f"CATALOG = {literal(config.integration)}",
        f"CATALOG_NAMESPACE = {literal(namespace)}",
        f"CATALOG_TABLE_NAME = {literal(name)}",
        f"AUTO_REFRESH = {_refreshes_itself(config)}",
    ]
    if config.catalog != "open_catalog":
        create.insert(1, f"EXTERNAL_VOLUME = {literal(config.volume)}")
    return [f"CREATE SCHEMA IF NOT EXISTS {schema}", "\n  ".join(create)]


def refreshed_as_configured(config: SnowflakeConfig, identifier: str) -> str:
    """For a table from before a change of `refresh`."""
    return f"ALTER ICEBERG TABLE {address(config, identifier)} SET AUTO_REFRESH = {_refreshes_itself(config)}"


def refresh(config: SnowflakeConfig, identifier: str) -> str:
    """Makes Snowflake read the table's newest metadata."""
    return f"ALTER ICEBERG TABLE {address(config, identifier)} REFRESH"


def information(config: SnowflakeConfig, identifier: str) -> str:
    """One row with one value, JSON: `metadataLocation` is the metadata file that Snowflake has read last."""
    return f"SELECT SYSTEM$GET_ICEBERG_TABLE_INFORMATION({literal(address(config, identifier))})"


def existing(config: SnowflakeConfig) -> str:
    """The tables that Snowflake has: a row for each, with the columns `schema_name` and `name`."""
    return f"SHOW ICEBERG TABLES IN DATABASE {quoted(config.database)}"


def address(config: SnowflakeConfig, identifier: str) -> str:
    """The table's quoted name in Snowflake."""
    return ".".join(map(quoted, (config.database, *names(config, identifier))))


def names(config: SnowflakeConfig, identifier: str) -> tuple[str, str]:
    """The names of the table's schema and of the table in Snowflake."""
    namespace, name = identifier.split(".")
    # Open Catalog heeds upper and lower case, so a database that is linked to it has the catalog's own names.
    if config.linked_database and config.catalog == "open_catalog":
        return namespace, name
    return upper(namespace), upper(name)


def upper(name: str) -> str:
    """The name in upper case if Snowflake can read it without quotes."""
    return name.upper() if _PLAIN.fullmatch(name) else name


def quoted(name: str) -> str:
    """A name as an identifier."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text as a literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _config(lake: LakeConfig) -> SnowflakeConfig:
    assert lake.warehouses.snowflake is not None
    return lake.warehouses.snowflake


def _integration(lake: LakeConfig, client_secret: str) -> str:
    config = _config(lake)
    seconds = int(config.refresh_interval.total_seconds())
    lines = [f"CREATE CATALOG INTEGRATION IF NOT EXISTS {quoted(config.integration)}"]
    if config.open_catalog is not None:
        lines += [
            "CATALOG_SOURCE = POLARIS",
            "TABLE_FORMAT = ICEBERG",
            f"REST_CONFIG = (CATALOG_URI = {literal(config.open_catalog.uri)} "
            f"CATALOG_NAME = {literal(config.open_catalog.name)} ACCESS_DELEGATION_MODE = VENDED_CREDENTIALS)",
            f"REST_AUTHENTICATION = (TYPE = OAUTH OAUTH_CLIENT_ID = {literal(config.open_catalog.client_id)} "
            f"OAUTH_CLIENT_SECRET = {literal(client_secret)} "
            f"OAUTH_ALLOWED_SCOPES = ({literal(config.open_catalog.scope)}))",
        ]
    elif config.catalog == "glue_rest":
        region = lake.glue_region or ""
        lines += [
            "CATALOG_SOURCE = ICEBERG_REST",
            "TABLE_FORMAT = ICEBERG",
            f"REST_CONFIG = (CATALOG_URI = {literal(f'https://glue.{region}.amazonaws.com/iceberg')} "
            f"CATALOG_API_TYPE = AWS_GLUE CATALOG_NAME = {literal(lake.glue_account or '')})",
            f"REST_AUTHENTICATION = (TYPE = SIGV4 SIGV4_IAM_ROLE = {literal(config.role_arn or '')} "
            f"SIGV4_SIGNING_REGION = {literal(region)})",
        ]
    else:
        lines += [
            "CATALOG_SOURCE = GLUE",
            "TABLE_FORMAT = ICEBERG",
            f"GLUE_AWS_ROLE_ARN = {literal(config.role_arn or '')}",
            f"GLUE_CATALOG_ID = {literal(lake.glue_account or '')}",
            f"GLUE_REGION = {literal(lake.glue_region or '')}",
        ]
    return "\n  ".join([*lines, f"REFRESH_INTERVAL_SECONDS = {seconds}", "ENABLED = TRUE"])


def _volume(lake: LakeConfig) -> str:
    config = _config(lake)
    bucket = f"{(lake.catalog.folder or '').rstrip('/')}/"
    return (
        f"CREATE EXTERNAL VOLUME IF NOT EXISTS {quoted(config.volume)}\n"
        f"  STORAGE_LOCATIONS = ((NAME = {literal(config.volume)} STORAGE_PROVIDER = 'S3' "
        f"STORAGE_BASE_URL = {literal(bucket)} STORAGE_AWS_ROLE_ARN = {literal(config.role_arn or '')}))\n"
        "  ALLOW_WRITES = FALSE"
    )


def _database(config: SnowflakeConfig, namespaces: Sequence[str]) -> str:
    create = f"CREATE DATABASE IF NOT EXISTS {quoted(config.database)}"
    if not config.linked_database:
        return create
    listed = ", ".join(map(literal, namespaces))
    seconds = int(config.refresh_interval.total_seconds())
    lines = [
        create,
        f"LINKED_CATALOG = (CATALOG = {literal(config.integration)}, ALLOWED_NAMESPACES = ({listed}), "
        f"ALLOWED_WRITE_OPERATIONS = NONE, SYNC_INTERVAL_SECONDS = {seconds})",
    ]
    if config.catalog != "open_catalog":
        # Glue knows lower case only.
        lines += [
            f"EXTERNAL_VOLUME = {literal(config.volume)}",
            "CATALOG_CASE_SENSITIVITY = CASE_INSENSITIVE",
        ]
    return "\n  ".join(lines)


def _refreshes_itself(config: SnowflakeConfig) -> str:
    return "TRUE" if config.refresh == "auto" else "FALSE"
