"""The catalog of lake.yaml in PyIceberg.

Here: opening it, namespaces. Not here: the same catalog in Spark (`spark/catalog_conf.py`), tables' contents, what a
failing catalog means (`catalog_faults.py`).
"""

import contextlib
from importlib.util import find_spec
from pathlib import Path

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError
from pyiceberg.io import PY_IO_IMPL
from sqlalchemy.engine import Engine, make_url
from sqlalchemy.exc import IntegrityError, OperationalError, ProgrammingError
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_fixed

from lake_assets.config import CatalogConfig
from lake_assets.config.aws.secret_references import refers, with_values
from lake_assets.errors import LakeError
from lake_assets.iceberg.catalog_faults import explained
from lake_assets.iceberg.file_io.local_io import local_path
from lake_assets.iceberg.file_io.metadata_cache import keep_parsed_metadata
from lake_assets.spark.catalog_conf import SQLITE_BUSY_SECONDS, uri, warehouse_uri
from lake_assets.storage.database_connection import follow_rotation
from lake_assets.storage.secret_values import Secrets

LOCAL_IO = "lake_assets.iceberg.file_io.local_io.LocalFirstIO"
S3_IO = "lake_assets.iceberg.file_io.s3_io.S3Files"
"""Names and not classes, because importing the second class imports pandas."""


def open_catalog(config: CatalogConfig, secrets: Secrets | None = None) -> Catalog:
    """A PyIceberg catalog. Creates the folder of a SQLite catalog. `secrets`: for the references in its configuration.
    Raises CatalogUnavailable. A client that connects only on first use raises its own error then
    (`catalog_faults.fault_of` recognises it)."""
    try:
        if secrets is None or not refers(config):
            return _opened(config)
        catalog = secrets.use(lambda: with_values(config, secrets.value), _opened, Exception)
        if isinstance(engine := getattr(catalog, "engine", None), Engine):
            follow_rotation(engine, lambda: make_url(_database(with_values(config, secrets.value))), secrets)
        return catalog
    except LakeError:
        raise
    except Exception as error:
        raise explained(config, error) from error


def loading_threads(config: CatalogConfig) -> int:
    """How many tables to load at once. A remote catalog answers in tens of milliseconds, and a sensor's tick has 60 s
    for a thousand tables. A file on this machine answers in one millisecond, and threads would only contend for it (200
    tables: 0.28 s, with threads 0.48 s)."""
    return 1 if config.type == "sqlite" else 8


def is_there(config: CatalogConfig) -> bool:
    """Whether the catalog exists. False for a SQLite catalog without its file, which opening would create."""
    return config.type != "sqlite" or Path(uri(config)).exists()


def _opened(config: CatalogConfig) -> Catalog:
    keep_parsed_metadata()
    warehouse = warehouse_uri(config)
    properties = {"warehouse": warehouse} | _file_io(warehouse) | config.properties
    if config.type == "sqlite":
        path = Path(uri(config))
        path.parent.mkdir(parents=True, exist_ok=True)
        properties |= {
            "type": "sql",
            "uri": f"sqlite:///{path}?timeout={SQLITE_BUSY_SECONDS}",
        }
    elif config.type == "jdbc":
        # A database closes connections that are idle, and all when it restarts.
        properties = {"pool_pre_ping": "true"} | properties | {"type": "sql", "uri": _database(config)}
    else:
        properties |= {"type": config.type} | ({"uri": uri(config)} if config.uri else {})
    # When two processes open a new catalog at once, both try to create its tables, and one of them fails.
    policy = Retrying(
        retry=retry_if_exception_type((OperationalError, ProgrammingError, IntegrityError)),
        stop=stop_after_attempt(3),
        wait=wait_fixed(0.2),
        reraise=True,
    )
    return policy(load_catalog, config.name, **properties)


def _file_io(warehouse: str) -> dict[str, str]:
    """The class by which PyIceberg reads and writes files, unless lake.yaml names another one."""
    if warehouse.startswith("s3://"):
        return {PY_IO_IMPL: S3_IO}
    return {PY_IO_IMPL: LOCAL_IO} if local_path(warehouse) else {}


def ensure_namespace(catalog: Catalog, namespace: str) -> None:
    """Creates the namespace unless it exists; safe when two processes do so at once."""
    with contextlib.suppress(NamespaceAlreadyExistsError, IntegrityError):
        catalog.create_namespace_if_not_exists(namespace)


def _database(config: CatalogConfig) -> str:
    """The address of a JDBC catalog for SQLAlchemy. It names psycopg, which `lake-assets[init]` installs, where
    SQLAlchemy's default driver is not installed."""
    address = uri(config).removeprefix("jdbc:")
    if address.startswith("postgresql:") and find_spec("psycopg2") is None:
        return address.replace("postgresql:", "postgresql+psycopg:", 1)
    return address
