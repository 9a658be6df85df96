"""What an engine needs to read silver and gold: its statements or settings, and the least rights in AWS.

Here: the engines that read the lake's catalog by themselves, so that nothing has to follow a commit. Not here:
Snowflake (`snowflake/`).
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from urllib.parse import urlsplit, urlunsplit

from lake_assets.config.lake_config import READERS_OF_VERSION_2
from lake_assets.errors import LakeError
from lake_assets.iceberg.catalog import is_there
from lake_assets.iceberg.table_io import load_table
from lake_assets.lake import Lake

GLUE_RIGHTS = (
    "glue:GetDatabase",
    "glue:GetDatabases",
    "glue:GetTable",
    "glue:GetTables",
    "glue:GetPartitions",
)
REGION, ACCOUNT, ROLE = "<region>", "<account>", "<arn of a role>"
"""In place of what lake.yaml does not say."""


def format_versions(lake: Lake) -> dict[str, tuple[int, bool]]:
    """By Iceberg table of silver and gold, its format version, and whether the table is there already: others are
    created in that version."""
    config = lake.config
    wanted = {target.identifier: config.silver_version(target.config) for target in lake.targets}
    wanted |= {mart.identifier: config.gold_version for mart in lake.marts}
    catalog = lake.runtime.catalog if is_there(config.catalog) else None
    found = {name: load_table(catalog, name) if catalog is not None else None for name in wanted}
    return {
        name: (version if (table := found[name]) is None else table.format_version, found[name] is not None)
        for name, version in wanted.items()
    }


def statements_of(lake: Lake, reader: str) -> str:
    """The text for this engine. Raises LakeError if it cannot read the lake's catalog."""
    made = _OF_READER.get(reader)
    if made is None:
        known = ", ".join(sorted([*_OF_READER, "snowflake"]))
        raise LakeError(f"there is nothing to set up for {reader}; known are {known}")
    lines = [*made(lake)]
    versions = format_versions(lake)
    if reader in READERS_OF_VERSION_2 and (newer := [name for name, (v, _) in versions.items() if v > 2]):
        mark = "#" if reader == "trino" else "--"  # its text is a properties file
        said = f"{reader} cannot read these tables, whose format version is 3; see format_version:"
        lines += ["", f"{mark} {said}", *(f"{mark}   {name}" for name in newer)]
    return "\n".join(lines) + "\n"


def namespaces(lake: Lake) -> Sequence[str]:
    """The namespaces of silver and gold."""
    return sorted({identifier.split(".")[0] for identifier in lake.tables})


def _athena(lake: Lake) -> Iterator[str]:
    _refuse_other_catalog(lake, "athena")
    yield "-- Athena reads the tables of Glue as they are."
    for identifier in format_versions(lake):
        namespace, name = identifier.split(".")
        yield f'SELECT * FROM "awsdatacatalog"."{namespace}"."{name}" LIMIT 10;'
    yield from _rights(lake, "who queries")


def _redshift(lake: Lake) -> Iterator[str]:
    _refuse_other_catalog(lake, "redshift")
    yield "-- Version 3 needs RG nodes or Redshift Serverless."
    for namespace in namespaces(lake):
        yield (
            f'CREATE EXTERNAL SCHEMA IF NOT EXISTS "{namespace}" FROM DATA CATALOG '
            f"DATABASE '{namespace}' IAM_ROLE '{ROLE}';"
        )
    yield from _rights(lake, "that role")


def _databricks(lake: Lake) -> Iterator[str]:
    _refuse_other_catalog(lake, "databricks")
    path = _warehouse(lake)
    yield "-- `lake` is a storage credential and a service credential of a role that may assume itself."
    yield f"CREATE EXTERNAL LOCATION IF NOT EXISTS `lake` URL '{path}' WITH (STORAGE CREDENTIAL `lake`);"
    yield (
        f"CREATE CONNECTION IF NOT EXISTS `lake` TYPE glue OPTIONS (aws_region '{_region(lake)}', "
        f"aws_account_id '{_account(lake)}', credential 'lake');"
    )
    yield (
        "CREATE FOREIGN CATALOG IF NOT EXISTS `lake` USING CONNECTION `lake` "
        f"OPTIONS (authorized_paths '{path}');"
    )
    yield from _rights(lake, "that role")


def _trino(lake: Lake) -> Iterator[str]:
    catalog = lake.config.catalog
    yield "# etc/catalog/lake.properties"
    yield "connector.name=iceberg"
    if catalog.type == "glue":
        yield "iceberg.catalog.type=glue"
        yield f"hive.metastore.glue.region={_region(lake)}"
    elif catalog.type == "rest" and catalog.uri is not None:
        yield "iceberg.catalog.type=rest"
        yield f"iceberg.rest-catalog.uri={_without_password(catalog.uri.get_secret_value())}"
        yield f"iceberg.rest-catalog.warehouse={catalog.warehouse}"
    else:
        yield "iceberg.catalog.type=jdbc"
        yield f"iceberg.jdbc-catalog.catalog-name={catalog.name}"
        yield f"iceberg.jdbc-catalog.default-warehouse-dir={catalog.warehouse}"
        yield "# iceberg.jdbc-catalog.driver-class, connection-url, connection-user, connection-password"
    if _warehouse(lake).startswith("s3://"):
        yield "fs.native-s3.enabled=true"
        yield f"s3.region={_region(lake)}"
        yield from _rights(lake, "Trino's nodes", comment="#")


def _duckdb(lake: Lake) -> Iterator[str]:
    catalog = lake.config.catalog
    yield "INSTALL iceberg; LOAD iceberg;"
    if catalog.type == "glue":
        yield "CREATE SECRET (TYPE s3, PROVIDER credential_chain);"
        yield f"ATTACH '{_account(lake)}' AS lake (TYPE iceberg, ENDPOINT_TYPE 'glue');"
        for identifier in format_versions(lake):
            namespace, name = identifier.split(".")
            yield f'SELECT * FROM lake."{namespace}"."{name}" LIMIT 10;'
        yield from _rights(lake, "who queries")
        return
    yield "-- A metadata file is one state of a table; the catalog names the newest one."
    found = lake.runtime.catalog if is_there(catalog) else None
    for identifier in format_versions(lake):
        table = load_table(found, identifier) if found is not None else None
        if table is not None:
            yield f"SELECT * FROM iceberg_scan('{table.metadata_location}') LIMIT 10;  -- {identifier}"


_OF_READER: Mapping[str, Callable[[Lake], Iterator[str]]] = {
    "athena": _athena,
    "databricks": _databricks,
    "duckdb": _duckdb,
    "redshift": _redshift,
    "trino": _trino,
}


def _refuse_other_catalog(lake: Lake, reader: str) -> None:
    if (found := lake.config.catalog.type) != "glue":
        raise LakeError(f"{reader} reads a catalog of type glue, and that of this lake is {found}")


def _rights(lake: Lake, who: str, comment: str = "--") -> Iterator[str]:
    """The least policy for reading, as comments."""
    bucket, _, prefix = _warehouse(lake).removeprefix("s3://").partition("/")
    glue = f"arn:aws:glue:{_region(lake)}:{_account(lake)}"
    tables = [f"{glue}:database/{name}" for name in namespaces(lake)]
    tables += [f"{glue}:table/{name}/*" for name in namespaces(lake)]
    statements = [
        {"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": [f"arn:aws:s3:::{bucket}/{prefix}*"]},
        {
            "Effect": "Allow",
            "Action": ["s3:ListBucket", "s3:GetBucketLocation"],
            "Resource": [f"arn:aws:s3:::{bucket}"],
        },
    ]
    if lake.config.catalog.type == "glue":
        statements.insert(
            0, {"Effect": "Allow", "Action": [*GLUE_RIGHTS], "Resource": [f"{glue}:catalog", *tables]}
        )
    yield f"{comment} The least rights of {who}, and kms:Decrypt on the bucket's key if it has one:"
    policy = json.dumps({"Version": "2012-10-17", "Statement": statements}, indent=2)
    yield from (f"{comment} {line}" for line in policy.splitlines())


def _without_password(address: str) -> str:
    found = urlsplit(address)
    return urlunsplit(found._replace(netloc=found.netloc.rpartition("@")[2], query=""))


def _warehouse(lake: Lake) -> str:
    return f"{(lake.config.catalog.folder or '').rstrip('/')}/"


def _region(lake: Lake) -> str:
    return lake.config.glue_region or REGION


def _account(lake: Lake) -> str:
    return lake.config.glue_account or ACCOUNT
