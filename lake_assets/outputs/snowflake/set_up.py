"""Setting up Snowflake: a script for an administrator, or its execution.

Here: which statements, in which order. Not here: the statements (`statements.py`).
"""

from lake_assets.config.secrets import hidden_in
from lake_assets.errors import LakeError
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
    """The statements as a script, without secrets."""
    config = lake.config.warehouses.snowflake
    assert config is not None
    every = statements.setup(lake.config, namespaces(lake))
    text = "\n".join(f"{statement};" for statement in every) + "\n"
    if config.catalog == "open_catalog":
        return text
    shown = [
        f"DESCRIBE CATALOG INTEGRATION {statements.quoted(config.integration)};",
        f"DESCRIBE EXTERNAL VOLUME {statements.quoted(config.volume)};",
    ]
    return text + TRUST + "\n".join(shown) + "\n"


def apply_setup(lake: Lake, connect: Connect | None = None) -> str:
    """Executes the statements, and has the tables that are there refreshed as lake.yaml says; returns a sentence. It
    may be repeated. Raises LakeError with the statement that Snowflake refuses."""
    config = lake.config.warehouses.snowflake
    assert config is not None
    if not config.connect:
        raise LakeError("warehouses.snowflake.connect is missing: --apply needs a connection")
    secret = ""
    if config.open_catalog is not None:
        secret = lake.runtime.aws.secrets.filled(config.open_catalog.client_secret.get_secret_value())
    connection = SnowflakeConnection(config, lake.runtime.aws.secrets, connect)
    done = 0
    try:
        for statement in statements.setup(lake.config, namespaces(lake), secret):
            _execute(lake, connection, statement)
            done += 1
        if not config.linked_database:
            there = {
                (row["schema_name"], row["name"]) for row in connection.records(statements.existing(config))
            }
            for name in lake.tables:
                if statements.names(config, name) in there:
                    _execute(lake, connection, statements.refreshed_as_configured(config, name))
                    done += 1
    finally:
        connection.close()
    return (
        f"{many(done, 'statement', 'were')} executed in Snowflake. sync and the sensor create the tables.\n"
    )


def _execute(lake: Lake, connection: SnowflakeConnection, statement: str) -> None:
    try:
        connection.rows(statement)
    except Exception as error:  # noqa: BLE001  (of the driver, or of the network)
        reason = hidden_in(lake.config, root_cause(error))
        refused = statement.partition("\n")[0]
        raise LakeError(f"Snowflake refuses {refused}: {reason}") from None
