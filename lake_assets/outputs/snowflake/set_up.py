"""Setting up Snowflake: a script for an administrator, or its execution.

Here: which statements, in which order. Not here: the statements (`statements.py`).
"""

from collections.abc import Sequence

from lake_assets.config.secrets import hidden_in
from lake_assets.errors import LakeError
from lake_assets.iceberg.catalog import is_there
from lake_assets.iceberg.table_io import current_snapshot, load_table
from lake_assets.lake import Lake
from lake_assets.outputs.reader_statements import namespaces
from lake_assets.outputs.snowflake import statements
from lake_assets.outputs.snowflake.snowflake_connection import Connect, SnowflakeConnection
from lake_assets.spark.causes import root_cause
from lake_assets.words import many

TRUST = """\
-- Afterwards, allow Snowflake to assume the role: put the user and the external id that these statements show into
-- its trust policy.
"""


def script(lake: Lake) -> str:
    """The statements as a script, without secrets. Tables without a commit are left out: Snowflake refuses them."""
    config = lake.config.warehouses.snowflake
    assert config is not None
    every = [*statements.setup(lake.config, namespaces(lake)), *_tables(lake)]
    text = "\n".join(f"{statement};" for statement in every) + "\n"
    if config.catalog == "open_catalog":
        return text
    shown = [
        f"DESCRIBE CATALOG INTEGRATION {statements.quoted(config.integration)};",
        f"DESCRIBE EXTERNAL VOLUME {statements.quoted(config.volume)};",
    ]
    return text + TRUST + "\n".join(shown) + "\n"


def apply_setup(lake: Lake, connect: Connect | None = None) -> str:
    """Executes the statements, which may be repeated; returns a sentence. Raises LakeError with the statement that
    Snowflake refuses."""
    config = lake.config.warehouses.snowflake
    assert config is not None
    if not config.connect:
        raise LakeError("warehouses.snowflake.connect is missing: --apply needs a connection")
    secret = ""
    if config.open_catalog is not None:
        secret = lake.runtime.aws.secrets.filled(config.open_catalog.client_secret.get_secret_value())
    connection = SnowflakeConnection(config, lake.runtime.aws.secrets, connect)
    tables = _tables(lake)
    every = [*statements.setup(lake.config, namespaces(lake), secret), *tables]
    try:
        for statement in every:
            try:
                connection.rows(statement)
            except Exception as error:  # noqa: BLE001  (of the driver, or of the network)
                refused = statement.partition("\n")[0]
                reason = hidden_in(lake.config, root_cause(error))
                raise LakeError(f"Snowflake refuses {refused}: {reason}") from None
    finally:
        connection.close()
    return f"{many(len(every), 'statement', 'were')} executed in Snowflake.\n"


def _tables(lake: Lake) -> Sequence[str]:
    if not is_there(lake.config.catalog):
        return []
    catalog = lake.runtime.catalog
    names = [target.identifier for target in lake.targets] + [mart.identifier for mart in lake.marts]
    found = [
        statement
        for name in names
        if current_snapshot(load_table(catalog, name)) is not None
        for statement in statements.table(lake.config, name)
    ]
    return list(dict.fromkeys(found))
