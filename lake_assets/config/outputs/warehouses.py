"""The warehouses that show the lake's tables to their users.

Not here: the statements, and who executes them (`outputs/snowflake/`).
"""

from datetime import timedelta
from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, model_validator

from lake_assets.config.aws.access import RoleArn
from lake_assets.config.base import Duration, Model, matching, refuse

SHORTEST_INTERVAL, LONGEST_INTERVAL = timedelta(seconds=30), timedelta(days=1)
"""How often Snowflake can look."""


class OpenCatalogConfig(Model):
    """How Snowflake reaches the catalog of the lake if that is Snowflake Open Catalog."""

    uri: str
    name: str
    """The catalog's name there."""
    client_id: str
    client_secret: SecretStr
    scope: str = "PRINCIPAL_ROLE:ALL"


class SnowflakeConfig(Model):
    """Snowflake reads the tables of silver and gold where they are, by their catalog."""

    database: Annotated[
        str, matching(r"[A-Z_][A-Z0-9_]*", "is no name of a database: use upper case letters, digits and _")
    ] = "LAKE"
    """The database with the tables. The catalog integration is called after it, with `_CATALOG`, and the external
    volume, with `_FILES`."""
    catalog: Literal["glue_rest", "glue", "open_catalog"] = "glue_rest"
    """How Snowflake reads the catalog: by Glue's REST endpoint, which Snowflake recommends, by Glue's own interface, or
    as Open Catalog."""
    role_arn: RoleArn | None = None
    """The role that Snowflake assumes to read Glue and the bucket."""
    region: str | None = None
    """Glue's region; by default `glue.region` or `client.region` of the catalog."""
    open_catalog: OpenCatalogConfig | None = None
    linked_database: bool = False
    """Whether Snowflake finds the tables itself, in a database that is linked to the catalog."""
    refresh: Literal["auto", "each_commit"] = "auto"
    """Whether Snowflake looks for new commits by itself, or the lake refreshes a table after each of its commits."""
    refresh_interval: Duration = SHORTEST_INTERVAL
    """How often Snowflake looks."""
    max_lag: Duration = timedelta(minutes=5)
    """The check of a table fails if Snowflake has lacked a commit for longer."""
    grant_to: tuple[str, ...] = ()
    """Roles of Snowflake that may read the tables."""
    connect: dict[str, bool | int | SecretStr] = Field(default_factory=dict)
    """Parameters of `connect` of Snowflake's connector for Python, such as `account`, `user`, `private_key_file`,
    `role` and `warehouse`. Without them, statements are only printed, and nothing is refreshed."""

    @property
    def integration(self) -> str:
        """The name of the catalog integration."""
        return f"{self.database}_CATALOG"

    @property
    def volume(self) -> str:
        """The name of the external volume."""
        return f"{self.database}_FILES"

    @model_validator(mode="after")
    def _complete(self) -> Self:
        mistakes = []
        if self.catalog == "open_catalog" and self.open_catalog is None:
            mistakes.append((("open_catalog",), "is missing: Snowflake needs its address and its client"))
        if self.catalog != "open_catalog" and self.open_catalog is not None:
            mistakes.append((("open_catalog",), "has no meaning without catalog: open_catalog"))
        if self.catalog != "open_catalog" and self.role_arn is None:
            mistakes.append((("role_arn",), "is missing: Snowflake assumes it to read Glue and the bucket"))
        if self.linked_database and self.catalog == "glue":
            mistakes.append((("linked_database",), "needs a REST catalog: use catalog: glue_rest"))
        if self.linked_database and self.refresh == "each_commit":
            mistakes.append((("refresh",), "must be auto: Snowflake refreshes a linked database itself"))
        if self.refresh == "each_commit" and not self.connect:
            mistakes.append((("connect",), "is missing: the lake refreshes by a connection"))
        if not SHORTEST_INTERVAL <= self.refresh_interval <= LONGEST_INTERVAL:
            mistakes.append((("refresh_interval",), "must be from 30s to 1d, as in Snowflake"))
        refuse(mistakes)
        return self


class WarehousesConfig(Model):
    snowflake: SnowflakeConfig | None = None
