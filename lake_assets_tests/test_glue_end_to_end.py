"""The main job with files in S3 and tables in Glue: on the installed Spark, and on that of Amazon EMR.

The server is moto's, with a Glue that refuses stale commits; Snowflake, an account of the tests, follows. Not here:
what the rows amount to in every case (`silver/`), jars (`spark/test_settings.py`), Snowflake's cases (`outputs/`).
"""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from lake_assets.config.config_file import load_lake
from lake_assets.demo.history import generate_history
from lake_assets.lake import open_lake
from lake_assets_tests.helpers.lakes.small_lakes import TINY
from lake_assets_tests.helpers.oracles.demo_history import unequal_tables
from lake_assets_tests.helpers.processes.child import PATIENCE, ROOT, environment, output_of, run_python
from lake_assets_tests.helpers.servers.glue import demonstration_in_glue, glue_server
from lake_assets_tests.helpers.servers.s3 import client, credentials
from lake_assets_tests.helpers.warehouses.snowflake_account import SnowflakeAccount, connector
from lake_assets_tests.helpers.warehouses.snowflake_lake import ROLE

pytestmark = pytest.mark.slow

END = datetime(2026, 11, 8, tzinfo=UTC)
OLDER_SPARK = ROOT / ".venv" / "older_spark"
"""Where `make test` installs the PySpark of Amazon EMR's release emr-spark-8.0.0."""
OF_EMR = ",".join(
    f"org.apache.iceberg:{name}:1.10.1" for name in ("iceberg-spark-runtime-4.0_2.13", "iceberg-aws-bundle")
)
VERSION = "import pyspark; print(pyspark.__version__)"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with glue_server() as address:
        yield address


def lake_file(folder: Path, endpoint: str, bucket: str, conf: dict[str, Any]) -> Path:
    """The demonstration's lake.yaml for the server."""
    text = demonstration_in_glue(endpoint, bucket)
    text["spark"]["conf"] |= conf
    text["warehouses"] = {"snowflake": {"role_arn": ROLE, "connect": {"account": "xy12345"}}}
    path = folder / "lake.yaml"
    path.write_text(yaml.safe_dump(text, sort_keys=False), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("bucket", "python_path", "conf", "version", "days"),
    [
        pytest.param("installed", [], {}, "4.1.", 2, id="installed", marks=pytest.mark.long),
        pytest.param(
            "of-emr",
            [str(OLDER_SPARK)],
            TINY | {"spark.jars.packages": OF_EMR},
            "4.0.2",
            1,
            id="of Amazon EMR",
            marks=pytest.mark.skipif(not OLDER_SPARK.exists(), reason="`make test` installs this PySpark"),
        ),
    ],
)
def test_silver_equals_the_source(
    tmp_path: Path,
    endpoint: str,
    monkeypatch: pytest.MonkeyPatch,
    bucket: str,
    python_path: list[str],
    conf: dict[str, Any],
    version: str,
    days: int,
) -> None:
    for name, value in credentials(endpoint).items():
        monkeypatch.setenv(name, value)
    client("s3", endpoint).create_bucket(Bucket=bucket)
    path = lake_file(tmp_path, endpoint, bucket, conf)
    config, database = load_lake(path), tmp_path / "source.db"
    generate_history(
        f"s3://{bucket}/bronze/",
        database,
        seed=12,
        changes=750 * days,
        days=days,
        stations=12,
        bikes=60,
        members=150,
        past_trips=10,
        end=END,
    )
    account = SnowflakeAccount(tmp_path / "account.json", path)
    # Python looks for PySpark there first.
    python_path = [*python_path, str(connector(tmp_path / "connector"))]
    env = environment(
        PYTHONPATH=os.pathsep.join([*python_path, str(ROOT)]),
        SNOWFLAKE_ACCOUNT=str(account.state),
        LAKE_CONFIG=str(path),
    )
    assert output_of(run_python("-c", VERSION, timeout=PATIENCE, env=env)).startswith(version)
    sync = ("-m", "lake_assets.cli", "--config", path, "sync")
    output_of(run_python(*sync, timeout=PATIENCE, env=env))
    assert unequal_tables(config, database) == []
    shown = account.shows()
    assert {name for name in shown if name.startswith("SILVER")} == {
        target.identifier.upper() for target in open_lake(config).targets
    }
    assert [name for name, read in shown.items() if read != account.newest(name)] == []
