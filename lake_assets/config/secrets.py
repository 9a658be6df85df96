"""Hides the secrets of a lake.yaml in error messages of drivers and Spark.

Here: which values are secret, and replacing them in a text or an error. Not here: the repr of the configuration (in
each model).
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from urllib.parse import unquote, urlsplit

from lake_assets.config.lake_config import CatalogConfig, LakeConfig
from lake_assets.errors import LakeError

_SECRET_KEY = re.compile(r"secret|passw|token|credential|access[._-]?key", re.IGNORECASE)
_IN_ADDRESS = re.compile(r"(?:passw[a-z]*|token|secret)=([^&;]+)", re.IGNORECASE)
SHORTEST = 4
"""Shorter secrets are not hidden: replacing so few letters everywhere would make any text unreadable."""


def hidden_in(lake: LakeConfig, text: str) -> str:
    """The text with `<catalog.uri>` instead of that address and `***` instead of each secret of the lake."""
    return _without(_secrets(lake), lake.catalog, text)


def catalog_hidden_in(catalog: CatalogConfig, text: str) -> str:
    """As `hidden_in`, with the secrets of the catalog alone."""
    return _without(_long_enough(_of_catalog(catalog)), catalog, text)


def _without(secrets: Iterable[str], catalog: CatalogConfig, text: str) -> str:
    if catalog.uri is not None and catalog.type != "sqlite":
        text = text.replace(catalog.uri.get_secret_value(), "<catalog.uri>")
    for secret in secrets:
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


def _secrets(lake: LakeConfig) -> list[str]:
    found = set(_of_catalog(lake.catalog))
    for source in lake.sources.values():
        if source.s3.secret_access_key is not None:
            found.add(source.s3.secret_access_key.get_secret_value())
        if source.database is not None:
            found |= set(_of_address(source.database.get_secret_value()))
    if lake.masking.salt is not None:
        found.add(lake.masking.salt.get_secret_value())
    found |= {str(value) for key, value in lake.spark.conf.items() if _SECRET_KEY.search(key)}
    found |= set(_IN_ADDRESS.findall(lake.spark.remote))
    return _long_enough(found)


def _long_enough(found: Iterable[str]) -> list[str]:
    """The secrets that are long enough, the longest first: one may be a part of another."""
    return sorted({secret for secret in found if len(secret) >= SHORTEST}, key=len, reverse=True)


def _of_catalog(catalog: CatalogConfig) -> Iterator[str]:
    yield from (value for key, value in catalog.properties.items() if _SECRET_KEY.search(key))
    if catalog.uri is None or catalog.type == "sqlite":
        return
    yield from _of_address(catalog.uri.get_secret_value())


def _of_address(address: str) -> Iterator[str]:
    # A driver may repeat a part of the address, as written or decoded.
    credentials = urlsplit(address.removeprefix("jdbc:")).netloc.rpartition("@")[0].partition(":")[2]
    for secret in (credentials, *_IN_ADDRESS.findall(address)):
        yield from (secret, unquote(secret))


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
