"""A catalog that is down, refuses its password or has no credentials: one sentence for the errors of all clients.

Here: recognising such an error and advising what to do. Not here: opening a catalog (`catalog.py`).
"""

from urllib.parse import urlsplit

from lake_assets.config import CatalogConfig
from lake_assets.config.secrets import catalog_hidden_in
from lake_assets.errors import CatalogUnavailable, LakeError, with_causes
from lake_assets.spark.causes import root_cause
from lake_assets.storage.aws_faults import refusal_in

ADVICE = {
    "sqlite": "Correct catalog.uri in lake.yaml, or the permissions of that file and its folder.",
    "jdbc": "Start the database, install its Python driver, or correct catalog.uri in lake.yaml.",
    "glue": "Check the AWS credentials, their permissions and the region.",
    "rest": "Start the service, or correct catalog.uri and its credentials in lake.yaml.",
}
_UNREACHED = {
    "sqlalchemy": ("OperationalError", "InterfaceError", "DatabaseError", "NoSuchModuleError"),
    "requests": ("RequestException",),
    "botocore": ("BotoCoreError", "ClientError"),
    "pyiceberg": ("RESTError",),
}
"""By client, the errors that it raises when the catalog does not answer or refuses. By name, because a lake imports
only its own client."""
_ANSWERED = ("IntegrityError", "ProgrammingError", "DataError", "CommitFailedException", "NoSuchTableError")
"""Those of the errors that a working catalog may raise."""


def explained(config: CatalogConfig, error: Exception) -> CatalogUnavailable:
    """The error to raise when the catalog of that configuration cannot be opened."""
    cause = catalog_hidden_in(config, _cause(error)).rstrip(".")
    return CatalogUnavailable(
        f"The catalog, {_address(config)}, cannot be used: {cause}. {ADVICE[config.type]}"
    )


def fault_of(error: BaseException) -> CatalogUnavailable | None:
    """The same for an error that any step of a command raised; None for an error that is not the catalog's, or of the
    files of a table."""
    if isinstance(error, OSError) and (refusal := refusal_in(str(error))) is not None:
        return CatalogUnavailable(f"{refusal}.")
    if isinstance(error, LakeError) or not any(_is_unreached(cause) for cause in with_causes(error)):
        return None
    cause = _cause(error).rstrip(".")
    return CatalogUnavailable(
        f"The catalog of lake.yaml cannot be used: {cause}. Check its section `catalog`."
    )


def _cause(error: BaseException) -> str:
    # A REST catalog's answer is in PyIceberg's error, not in the HTTP error that caused it.
    answers = [cause for cause in with_causes(error) if type(cause).__module__.startswith("pyiceberg.")]
    return str(answers[0]) if answers and str(answers[0]) else root_cause(error)


def _is_unreached(error: BaseException) -> bool:
    names = [kind.__name__ for kind in type(error).__mro__]
    if any(name in _ANSWERED for name in names):
        return False
    client = type(error).__module__.partition(".")[0]
    return any(name in _UNREACHED.get(client, ()) for name in names)


def _address(config: CatalogConfig) -> str:
    """The address without a password, which may be before the host or among the parameters."""
    uri = config.uri.get_secret_value() if config.uri is not None else ""
    if config.type in ("sqlite", "glue"):
        return f"{config.type} at {uri}" if uri else config.type
    parts = urlsplit(uri.removeprefix("jdbc:"))
    return f"{config.type} at {parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
