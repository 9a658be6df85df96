"""Names of Dagster, PySpark and PyIceberg that are not public: where they are used, and what happens without them.

Here: imports that fail, as with another release. Not here: what the names do (the tests of their users).
"""

import builtins
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from dagster import DefaultRunLauncher
from pyspark.sql import SparkSession

from lake_assets.iceberg.file_io import pyiceberg_private
from lake_assets.orchestration import dagster_private
from lake_assets.orchestration.checks.check_history import check_executions, latest_evaluation
from lake_assets.orchestration.launcher.run_process import process_tag
from lake_assets.orchestration.launcher.warm_launcher import WarmRunLauncher
from lake_assets.spark.internals import pyspark_private
from lake_assets_tests.helpers.processes.child import environment

PACKAGE = Path(__file__).parent.parent / "lake_assets"
PRIVATE = {
    r"dagster(_\w+)?\._": "orchestration/dagster_private.py",
    r"pyspark[\w.]*\._[a-z]|pyspark\.sql\.connect\.client|SparkContext\._": "spark/internals/pyspark_private.py",
    r"pyiceberg[\w.]*\._[a-z]|\.table_metadata = |\._initialize_s3_fs\(": "iceberg/file_io/pyiceberg_private.py",
}


@pytest.mark.parametrize("pattern", PRIVATE)
def test_one_module_for_each_library(pattern: str) -> None:
    found = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        for line in path.read_text().splitlines()
        if re.search(pattern, line) and not line.lstrip().startswith(("#", '"""'))
    }
    assert found == {PRIVATE[pattern]}


@pytest.fixture
def another_dagster(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lake's imports of private names fail; Dagster's own do not."""
    real = builtins.__import__

    def importing(name: str, within: Any = None, *more: Any, **named: Any) -> Any:
        if (within or {}).get("__name__") == dagster_private.__name__ and name.startswith("dagster._"):
            raise ImportError(f"No module named {name!r}")
        return real(name, within, *more, **named)

    monkeypatch.setattr(builtins, "__import__", importing)
    monkeypatch.setattr(dagster_private, "_missed", set())


def test_what_works_with_this_dagster() -> None:
    """Otherwise the tests below would pass for the wrong reason."""
    assert dagster_private.health(True, "gone") is not None
    assert len(dagster_private.check_statuses("SUCCEEDED", "FAILED") or ()) == 2
    with dg.DagsterInstance.ephemeral() as instance:
        assert dagster_private.evaluated_checks(instance, [dg.AssetKey("table")]) == []
        evaluation = dg.AssetCheckEvaluation(dg.AssetKey("table"), "right", True, {"why": "so"})
        assert dagster_private.of_newest_materialization(instance, evaluation) is None, "there is none"
        instance.report_runless_asset_event(dg.AssetMaterialization("table"))
        found = dagster_private.of_newest_materialization(instance, evaluation)
        assert found is not None
        assert found.target_materialization_data is not None
        assert (found.asset_check_key, found.metadata) == (evaluation.asset_check_key, evaluation.metadata)


@pytest.mark.usefixtures("another_dagster")
def test_a_run_starts_by_dagsters_launcher(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    launched: list[Any] = []
    monkeypatch.setattr(DefaultRunLauncher, "launch_run", lambda self, context: launched.append(context))
    with dg.DagsterInstance.ephemeral() as instance:
        launcher = WarmRunLauncher()
        launcher.register_instance(instance)
        context = SimpleNamespace(dagster_run=dg.DagsterRun("job", run_id="a" * 8), job_code_origin=None)
        launcher.launch_run(context)
        launcher.launch_run(context)
        assert not launcher.supports_check_run_worker_health
    assert launched == [context, context]
    assert caplog.text.count("lacks what forkable uses") == 1
    assert process_tag("a" * 8, 1)


@pytest.mark.usefixtures("another_dagster")
def test_the_history_of_a_check_is_read() -> None:
    @dg.asset_check(asset="table")
    def right(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=context.run.tags["right"] == "yes", metadata={"error": "why"})

    @dg.asset
    def table() -> None: ...

    with dg.DagsterInstance.ephemeral() as instance:
        for answer in ("no", "yes"):
            done = dg.materialize([table, right], instance=instance, tags={"right": answer})
            assert done.success
        key = dg.AssetCheckKey(dg.AssetKey("table"), "right")
        assert [one.passed for one in check_executions(instance, key)] == [True, False]
        newest = latest_evaluation(instance, key)
        assert newest is not None
        assert newest.passed
        assert dagster_private.evaluated_checks(instance, [key.asset_key]) is None


@pytest.mark.spark
def test_another_pyspark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = spark.range(1)
    for name in ("pyspark.sql.connect.session", "pyspark.sql.connect.client.retries"):
        monkeypatch.setitem(sys.modules, name, None)
    with pyspark_private.active(spark):
        assert frame.count() == 1
    bare = SimpleNamespace(client=SimpleNamespace())
    pyspark_private.settle(bare)
    builder = pyspark_private.public_builder("sc://localhost:15002", "a/token")
    assert builder._options["spark.remote"] == "sc://localhost:15002/;token=a%2Ftoken"


def test_a_jvm_without_private_names(tmp_path: Path) -> None:
    """Spark starts by the public way, with its settings in the file that the arguments name."""
    settings = tmp_path / "spark.properties"
    settings.write_text("spark.master=local[1]\nspark.ui.enabled=false\nspark.lake.own=kept\n")
    program = (
        "from pyspark import SparkContext\n"
        "from pyspark.sql import SparkSession\n"
        "from lake_assets.spark.internals import pyspark_private as own\n"
        "import pyspark\n"
        "class Hidden(type):\n"
        "    def __getattribute__(cls, name):\n"
        "        if name in ('_gateway', '_ensure_initialized'): raise AttributeError(name)\n"
        "        return super().__getattribute__(name)\n"
        "class Context(pyspark.SparkContext, metaclass=Hidden): pass\n"
        "real = pyspark.SparkContext; pyspark.SparkContext = Context\n"
        "assert not own.has_jvm()\n"
        "own.start_jvm()\n"
        "pyspark.SparkContext = real\n"
        "print(SparkSession.getActiveSession().conf.get('spark.lake.own'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(PYSPARK_SUBMIT_ARGS=f"--properties-file {settings} pyspark-shell"),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.stdout.split()[-1:] == ["kept"], done.stderr[-2000:]


def test_files_of_another_pyiceberg() -> None:
    assert pyiceberg_private.parts_of(SimpleNamespace(location="x")) is None
