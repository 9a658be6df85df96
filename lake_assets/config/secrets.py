"""Hides the secrets of a lake.yaml in error messages of drivers and Spark.

Here: which values are secret, and replacing them in a text or an error. Not here: the repr of the configuration (in
each model).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import quote, quote_plus, unquote, urlsplit

from pydantic import SecretStr

from lake_assets.config.aws.access import AwsAccess
from lake_assets.config.lake_config import CatalogConfig, LakeConfig
from lake_assets.config.outputs.warehouses import SnowflakeConfig
from lake_assets.config.source import SourceConfig
from lake_assets.errors import LakeError

_SECRET_KEY = re.compile(r"secret|passw|token|credential|access[._-]?key", re.IGNORECASE)
_IN_ADDRESS = re.compile(r"(?:passw[a-z]*|token|secret)=([^&;]+)", re.IGNORECASE)
_PUBLIC = frozenset(
    {
        "account",
        "user",
        "role",
        "warehouse",
        "database",
        "schema",
        "host",
        "region",
        "authenticator",
        "private_key_file",
    }
)
"""Parameters of Snowflake's connector that are no secrets."""
SHORTEST = 4
"""Shorter secrets are not hidden: replacing so few letters everywhere would make any text unreadable."""
_read: set[str] = set()
"""The secrets that are not in lake.yaml itself, also those from before a rotation: an old connection may have them."""


def keep_hidden(secret: str) -> None:
    """Hides the secret, which is not in lake.yaml itself, in every text from now on."""
    _read.update((secret, quote(secret, safe=""), quote_plus(secret)))


def keep_webhook_hidden(address: str) -> None:
    """Hides the address of a webhook, and each part of it that may be a token, in every text from now on."""
    for secret in _of_webhook(address):
        keep_hidden(secret)


def hidden_in(lake: LakeConfig, text: str) -> str:
    """The text with `<catalog.uri>` instead of the catalog's address, and `***` instead of each secret of the lake."""
    return _without(_secrets(lake), lake.catalog, text)


def catalog_hidden_in(catalog: CatalogConfig, text: str) -> str:
    """As `hidden_in`, with the secrets of the catalog alone."""
    return _without(_of_catalog(catalog), catalog, text)


def shown(settings: Mapping[str, object]) -> dict[str, object]:
    """The settings, with `***` instead of values whose names say that they are secret."""
    return {key: "***" if _SECRET_KEY.search(key) else value for key, value in settings.items()}


def _without(secrets: Iterable[str], catalog: CatalogConfig, text: str) -> str:
    if catalog.uri is not None and catalog.type != "sqlite":
        text = text.replace(catalog.uri.get_secret_value(), "<catalog.uri>")
    for secret in _long_enough((*secrets, *_read)):
        text = text.replace(secret, "***")
    return text


def hidden_error(lake: LakeConfig, error: Exception) -> Exception:
    """The error, if neither it nor its causes contain a secret; else an error with the secrets hidden in its message.
    Raise it `from None`."""
    chain = list(_chain(error))
    if not any(hidden_in(lake, str(one)) != str(one) for one in chain):
        return error
    redacted = hidden_in(lake, str(error))
    if not isinstance(error, LakeError):
        return LakeError(redacted)
    error.args = (redacted,)
    error.__cause__ = error.__context__ = None
    return error


@contextmanager
def secrets_hidden(lake: LakeConfig) -> Iterator[None]:
    """Hides the lake's secrets in errors of the block, which appear in logs and in Dagster's UI."""
    try:
        yield
    except Exception as error:
        redacted = hidden_error(lake, error)
        if redacted is error:
            raise
        raise redacted from None


def _secrets(lake: LakeConfig) -> set[str]:
    found = set(_of_catalog(lake.catalog))
    for access in filter(None, (lake.secrets, lake.spark.aws, lake.jobs)):
        found |= set(_of_access(access))
    for source in lake.sources.values():
        found |= {secret for access in _accesses(source) for secret in _of_access(access)}
        if source.database is not None:
            found |= set(_of_address(source.database.get_secret_value()))
    if lake.alarms.webhook is not None:
        found |= set(_of_webhook(lake.alarms.webhook.get_secret_value()))
    if (snowflake := lake.warehouses.snowflake) is not None:
        found |= set(_of_snowflake(snowflake))
    if lake.masking.salt is not None:
        found.add(lake.masking.salt.get_secret_value())
    found |= {str(value) for key, value in lake.spark.conf.items() if _SECRET_KEY.search(key)}
    found |= set(_IN_ADDRESS.findall(lake.spark.remote))
    return found


def _of_snowflake(snowflake: SnowflakeConfig) -> Iterator[str]:
    if snowflake.open_catalog is not None:
        yield snowflake.open_catalog.client_secret.get_secret_value()
    for name, value in snowflake.connect.items():
        if isinstance(value, SecretStr) and name not in _PUBLIC:
            yield value.get_secret_value()


def _accesses(source: SourceConfig) -> Iterator[AwsAccess]:
    yield source.s3
    yield from filter(None, (source.notifications, source.dms_task))
    yield from filter(None, (table.dms_task for table in source.tables.values()))


def _of_access(access: AwsAccess) -> Iterator[str]:
    for secret in (access.secret_access_key, access.session_token):
        if secret is not None:
            yield secret.get_secret_value()


def _long_enough(found: Iterable[str]) -> list[str]:
    """The secrets that are long enough, the longest first: one may be a part of another."""
    return sorted({secret for secret in found if len(secret) >= SHORTEST}, key=len, reverse=True)


def _of_catalog(catalog: CatalogConfig) -> Iterator[str]:
    yield from (value for key, value in catalog.properties.items() if _SECRET_KEY.search(key))
    if catalog.uri is None or catalog.type == "sqlite":
        return
    yield from _of_address(catalog.uri.get_secret_value())


def _of_webhook(address: str) -> Iterator[str]:
    parts = urlsplit(address)
    yield address
    # The path and the query are where a webhook's token is, and drivers repeat them without the host.
    yield f"{parts.path}?{parts.query}" if parts.query else parts.path
    yield from _of_address(address)


def _of_address(address: str) -> Iterator[str]:
    # A driver may repeat a part of the address, as written or decoded.
    credentials = urlsplit(address.removeprefix("jdbc:")).netloc.rpartition("@")[0].partition(":")[2]
    for secret in (credentials, *_IN_ADDRESS.findall(address)):
        yield from (secret, unquote(secret))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
