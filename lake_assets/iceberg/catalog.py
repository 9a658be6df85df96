"""One catalog, two clients: how `catalog:` of lake.yaml reaches PyIceberg and Spark.

Here: opening the PyIceberg catalog, the Spark settings of the same catalog, namespaces. Not here: tables' contents,
what a failing catalog means (`catalog_faults.py`).
"""

import contextlib
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError
from sqlalchemy.exc import IntegrityError, OperationalError
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_fixed

from lake_assets.config import CatalogConfig
from lake_assets.iceberg.catalog_faults import explained
from lake_assets.iceberg.metadata_cache import keep_parsed_metadata

SQLITE_BUSY_SECONDS = 30
"""Apply threads, marts and the sensor share one SQLite file; a writer waits this long for its turn."""


def open_catalog(config: CatalogConfig) -> Catalog:
    """A PyIceberg catalog. Creates the folder of a SQLite catalog. Raises CatalogUnavailable; a catalog that is first
    asked when it is used raises what its client raises then (`catalog_faults.fault_of`)."""
    try:
        return _opened(config)
    except Exception as error:
        raise explained(config, error) from error


def _opened(config: CatalogConfig) -> Catalog:
    keep_parsed_metadata()
    properties = {"warehouse": warehouse_uri(config), **config.properties}
    if config.type == "sqlite":
        path = Path(_uri(config))
        path.parent.mkdir(parents=True, exist_ok=True)
        properties |= {
            "type": "sql",
            "uri": f"sqlite:///{path}?timeout={SQLITE_BUSY_SECONDS}",
        }
    elif config.type == "jdbc":
        properties |= {"type": "sql", "uri": _sqlalchemy_address(_uri(config).removeprefix("jdbc:"))}
    else:
        properties |= {"type": config.type} | ({"uri": _uri(config)} if config.uri else {})
    # Two processes that open a new catalog at once both find it without tables; one of them loses.
    for opening in Retrying(
        retry=retry_if_exception_type(OperationalError),
        stop=stop_after_attempt(3),
        wait=wait_fixed(0.2),
        reraise=True,
    ):
        with opening:
            return load_catalog(config.name, **properties)
    raise AssertionError("tenacity re-raises")


def spark_catalog_conf(config: CatalogConfig) -> dict[str, str]:
    """The `spark.sql.catalog.<name>.*` settings under which Spark sees the tables that PyIceberg sees."""
    prefix = f"spark.sql.catalog.{config.name}"
    conf = {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.warehouse": warehouse_uri(config),
        # A cached table would hide the commits of the other client and of other processes.
        f"{prefix}.cache-enabled": "false",
        **{f"{prefix}.{key}": value for key, value in config.properties.items()},
    }
    if config.type == "sqlite":
        conf |= {
            f"{prefix}.type": "jdbc",
            f"{prefix}.uri": f"jdbc:sqlite:{_uri(config)}?busy_timeout={SQLITE_BUSY_SECONDS * 1000}",
            f"{prefix}.jdbc.schema-version": "V1",
        }
    else:
        conf |= {f"{prefix}.type": config.type} | ({f"{prefix}.uri": _uri(config)} if config.uri else {})
    return conf


def warehouse_uri(config: CatalogConfig) -> str:
    """The warehouse as an address that both clients read alike: a local folder becomes `file:///…`."""
    if "://" in config.warehouse:
        return config.warehouse
    return "file://" + quote(str(Path(config.warehouse).absolute()))


def ensure_namespace(catalog: Catalog, namespace: str) -> None:
    """Creates the namespace unless it exists; two processes doing so at once is normal."""
    with contextlib.suppress(NamespaceAlreadyExistsError, IntegrityError):
        catalog.create_namespace_if_not_exists(namespace)


def _sqlalchemy_address(address: str) -> str:
    """With the driver that `lake-assets[init]` brings, where SQLAlchemy's own choice is not installed."""
    if address.startswith("postgresql:") and find_spec("psycopg2") is None:
        return address.replace("postgresql:", "postgresql+psycopg:", 1)
    return address


def _uri(config: CatalogConfig) -> str:
    assert config.uri is not None, "the config model demands a uri for every catalog but glue"
    return config.uri.get_secret_value()
