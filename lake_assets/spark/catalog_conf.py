"""The catalog of lake.yaml in Spark, and the addresses that Spark and PyIceberg read alike.

Here: settings and addresses. Not here: opening the catalog in PyIceberg (`iceberg/catalog.py`).
"""

from pathlib import Path
from urllib.parse import quote

from lake_assets.config import CatalogConfig

SQLITE_BUSY_SECONDS = 30
"""Apply threads, marts and the sensor share one SQLite file; a writer waits this long for the lock."""


def spark_catalog_conf(config: CatalogConfig) -> dict[str, str]:
    """The `spark.sql.catalog.<name>.*` settings under which Spark sees the tables that PyIceberg sees."""
    prefix = f"spark.sql.catalog.{config.name}"
    conf = {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.warehouse": warehouse_uri(config),
        # A cached table would hide the commits of the other client and of other processes.
        f"{prefix}.cache-enabled": "false",
        # A manifest never changes. By default, each statement reads all manifests of its table again.
        f"{prefix}.io.manifest.cache-enabled": "true",
        f"{prefix}.io.manifest.cache.expiration-interval-ms": str(10 * 60 * 1000),
        # For each session that is in use; Iceberg has caches for at most eight sessions.
        f"{prefix}.io.manifest.cache.max-total-bytes": str(32 * 2**20),
        **{f"{prefix}.{key}": value for key, value in config.properties.items()},
    }
    if config.type == "sqlite":
        conf |= {
            f"{prefix}.type": "jdbc",
            f"{prefix}.uri": f"jdbc:sqlite:{uri(config)}?busy_timeout={SQLITE_BUSY_SECONDS * 1000}",
            f"{prefix}.jdbc.schema-version": "V1",
        }
    elif config.type == "jdbc":
        conf |= {f"{prefix}.{key}": value for key, value in _jdbc(uri(config)).items()}
    else:
        conf |= {f"{prefix}.type": config.type} | ({f"{prefix}.uri": uri(config)} if config.uri else {})
    return conf


def _jdbc(address: str) -> dict[str, str]:
    """The settings for a database at a SQLAlchemy URL, with or without `jdbc:` before it: a JDBC driver takes user and
    password separately from the address."""
    from sqlalchemy.engine import URL, make_url

    url = make_url(address.removeprefix("jdbc:"))
    place = URL.create(
        url.get_backend_name(), host=url.host, port=url.port, database=url.database, query=url.query
    )
    given = {"user": url.username, "password": url.password}
    login = {f"jdbc.{key}": str(value) for key, value in given.items() if value is not None}
    return {
        "type": "jdbc",
        "uri": f"jdbc:{place.render_as_string(hide_password=False)}",
        "jdbc.schema-version": "V1",
        **login,
    }


def warehouse_uri(config: CatalogConfig) -> str:
    """The warehouse as an address that both clients read alike: a local folder becomes `file:///…`."""
    if "://" in config.warehouse:
        return config.warehouse
    return "file://" + quote(str(Path(config.warehouse).absolute()))


def uri(config: CatalogConfig) -> str:
    """The catalog's address, with its password."""
    assert config.uri is not None, "the config model demands a uri for every catalog but glue"
    return config.uri.get_secret_value()
