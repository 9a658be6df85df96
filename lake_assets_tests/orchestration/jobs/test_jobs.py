"""Silver and marts of Dagster's runs as jobs of EMR Serverless and Glue: the same tables and events as without jobs.

The services are moto's, and each job is a process of `spark-submit`. Not here: what needs no service
(`test_job_messages.py`).
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from shutil import copytree, ignore_patterns, make_archive, unpack_archive
from typing import Any

import dagster as dg
import pytest
import yaml

from lake_assets.commands.package.package import PROGRAM
from lake_assets.orchestration.lake_definitions import lake_definitions
from lake_assets.orchestration.shared.asset_metadata import figures_of
from lake_assets.orchestration.sync import failure_of
from lake_assets.spark.jars import SQLITE_JDBC, iceberg_jar
from lake_assets_tests.helpers.lakes.small_lakes import DMS, ITEMS, ITEMS_HEADER, TINY, sequence, write_file
from lake_assets_tests.helpers.orchestration.dagster_shop import QUIET, open_instance
from lake_assets_tests.helpers.orchestration.job_services import (
    BUCKET,
    JobServices,
    job_services,
    python_of_tests,
)
from lake_assets_tests.helpers.processes.child import ROOT, run_python
from lake_assets_tests.helpers.servers.s3 import client

pytestmark = [pytest.mark.spark, pytest.mark.long]

ITEM, MART = dg.AssetKey(["silver", "shop", "items"]), dg.AssetKey(["gold", "items_daily"])
BATCH = dg.AssetKey(["lake_ops", "shop_batch"])
SQL = """/*
description: Items by day.
follow:
  silver_shop.items: {day: at}
columns:
  day: date not null
  items: long not null
*/
SELECT to_date(at) AS day, count(*) AS items FROM silver_shop.items WHERE at >= :start AND at < :end GROUP BY 1
"""
CONF = {name: str(value) for name, value in TINY.items()} | {
    "spark.jars.packages": f"{iceberg_jar()},{SQLITE_JDBC}"
}


CLI = "from lake_assets.cli import main; main()"
VARYING = {"snapshot_id", "seconds", "lag_seconds", "consumed", "failed_tables"}
TIMES = ("seconds_", "latency_")


class Project:
    """A lake in a folder, with Dagster's own storage beside it."""

    def __init__(self, folder: Path, jobs: dict[str, Any] | None = None) -> None:
        self.folder, self.files = folder, 0
        self.events: list[Any] = []
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "items_daily.sql").write_text(SQL)
        source = {
            "location": str(folder / "bronze"),
            "dms": DMS,
            "tables": {"public.items": ITEMS, "public.orders": ITEMS},
        }
        lake: dict[str, Any] = {
            "catalog": {"uri": str(folder / "catalog.db"), "warehouse": str(folder / "warehouse")},
            "sources": {"shop": source},
            "gold": {"start_date": "2026-03-01", "marts": ["items_daily.sql"]},
            "spark": {"conf": TINY},
        }
        (folder / "lake.yaml").write_text(yaml.safe_dump(lake | ({"jobs": jobs} if jobs else {})))
        self.instance = open_instance(folder / "dagster")

    def load(self, table: str, *ids: int) -> None:
        rows = [f"I,2026-03-01 10:00:00.000000,{i},n{i},1.00,2026-03-01 09:00:00,," for i in ids]
        write_file(self.folder, f"public/{table}/LOAD00000001.csv", [ITEMS_HEADER, *rows])

    def change(self, table: str, key: int, at: str = "2026-03-02 09:00:00") -> None:
        self.files += 1
        row = f"I,2026-03-02 10:00:00.000000,{key},n{key},1.00,{at},{sequence(self.files, 2)},"
        write_file(
            self.folder, f"public/{table}/20260302-{100_000_000 + self.files}.csv", [ITEMS_HEADER, row]
        )

    def scan(self, definitions: dg.Definitions) -> None:
        """A look of the file sensor, which logs the files."""
        repository = definitions.get_repository_def()
        context = dg.build_sensor_context(instance=self.instance, repository_def=repository)
        repository.get_sensor_def("shop_files").evaluate_tick(context)

    def run(
        self, keys: Sequence[dg.AssetKey], partitions: tuple[str, str] | None = None
    ) -> dg.ExecuteInProcessResult:
        """A run of these assets, as the daemon would launch it."""
        definitions = lake_definitions(self.folder / "lake.yaml")
        self.scan(definitions)
        tags = {}
        if partitions is not None:
            names = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")
            tags = dict(zip(names, partitions, strict=True))
        run = definitions.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=self.instance,
            asset_selection=list(keys),
            tags=tags,
            run_config=QUIET,
            raise_on_error=False,
        )
        self.events += self.instance.all_logs(run.run_id)
        return run


def events(run: dg.ExecuteInProcessResult) -> dict[str, Any]:
    """All that Dagster got, without what differs between any two runs."""
    found: dict[str, Any] = {}
    for event in run.get_asset_materialization_events():
        materialization = event.materialization
        figures = figures_of(materialization.metadata)
        found[f"{event.asset_key} {materialization.partition}"] = {
            name: type(value).__name__ if name in VARYING or name.startswith(TIMES) else value
            for name, value in figures.items()
        }
    for evaluation in run.get_asset_check_evaluations():
        found[f"{evaluation.asset_key} {evaluation.check_name}"] = (
            evaluation.passed,
            sorted(evaluation.metadata),
        )
    return found


@pytest.fixture
def services(tmp_path: Path) -> Iterator[JobServices]:
    def prepare(folder: Path) -> None:
        python_of_tests(folder)
        copytree(tmp_path / "lake", folder / "environment/project", ignore=lambda *_: KEPT_OUT)

    with job_services(prepare) as found:
        put_program(found)
        yield found


def put_program(services: JobServices) -> None:
    client("s3", services.endpoint).put_object(
        Bucket=BUCKET, Key="programs/job.py", Body=PROGRAM.read_bytes()
    )


KEPT_OUT = ["bronze", "warehouse", "dagster", "catalog.db"]


def test_jobs_of_emr_serverless_give_the_tables_and_events_of_a_run(
    services: JobServices, tmp_path: Path
) -> None:
    sizes = {"full_load": {"spark.executor.memory": "2g"}, "mart": {"spark.executor.cores": 2}}
    jobs = services.section(emr_serverless=services.emr_serverless(CONF, **sizes))
    days = ("2026-03-01", "2026-03-02")
    lakes = Project(tmp_path / "here"), Project(tmp_path / "lake", jobs)
    shown = []
    for project in lakes:
        project.load("items", 1, 2)
        project.change("items", 3)
        project.change("orders", 1, at="no time at all")
        silver = project.run([ITEM, dg.AssetKey(["silver", "shop", "orders"]), BATCH])
        mart = project.run([MART], days)
        assert failure_of(mart) is None
        shown.append((silver.success, events(silver), events(mart)))
    here, there = shown
    assert there == here
    assert there[0] is False, "a table failed, and the run says so"
    assert [job["name"] for job in services.jobs] == [
        "full_load: silver_shop.items, silver_shop.orders",
        "mart: items_daily",
    ]
    load, mart_job = (job["sparkSubmitParameters"] for job in services.jobs)
    assert "spark.executor.memory=2g" in load
    assert "spark.executor.cores=2" in mart_job
    assert "spark.executor.memory=2g" not in mart_job


def test_a_mart_waits_and_a_job_fails_as_runs_do(services: JobServices, tmp_path: Path) -> None:
    jobs = services.section(emr_serverless=services.emr_serverless(CONF))
    project = Project(tmp_path / "lake", jobs)
    days = ("2026-03-01", "2026-03-02")
    early = project.run([MART], days)
    assert failure_of(early) == "gold.items_daily: an input has no rows yet; apply its files first."

    project.load("items", 1)
    project.change("items", 2)
    whole = services.prepare
    services.prepare = lambda folder: None  # no environment
    failed = project.run([ITEM, BATCH])
    assert "EMR Serverless job failed. The run's log names the job" in (failure_of(failed) or "")
    services.prepare = whole
    assert failure_of(project.run([ITEM, BATCH])) is None
    assert failure_of(project.run([MART], days)) is None
    jobs_so_far = len(services.jobs)
    assert failure_of(project.run([ITEM, BATCH])) is None
    assert len(services.jobs) == jobs_so_far, "nothing was pending"

    # The job's project is older than Dagster's.
    project.change("items", 3)
    old = tmp_path / "old"
    copytree(project.folder, old, ignore=lambda *_: KEPT_OUT)
    text = yaml.safe_load((old / "lake.yaml").read_text())
    del text["sources"]["shop"]["tables"]["public.items"]
    text["gold"]["marts"] = []
    (old / "lake.yaml").write_text(yaml.safe_dump(text))

    def older(folder: Path) -> None:
        python_of_tests(folder)
        copytree(old, folder / "environment/project")

    services.prepare = older
    said = failure_of(project.run([ITEM, BATCH])) or ""
    assert "The project of the job lacks silver_shop.items: package it again." in said
    said = failure_of(project.run([MART], days)) or ""
    assert "The project of the job lacks gold.items_daily: package it again." in said
    assert "dashboard.example" not in "".join(str(event) for event in project.events)


def test_jobs_of_glue(tmp_path: Path) -> None:
    """The project comes as a file beside the job's script, and the request as an argument."""

    def prepare(folder: Path) -> None:
        files = copytree(tmp_path / "lake", tmp_path / f"copy-{folder.name}", ignore=lambda *_: KEPT_OUT)
        # As `lake-assets package` does, because Glue installs packages of an index only.
        copytree(ROOT / "lake_assets", files / "lake_assets", ignore=ignore_patterns("__pycache__"))
        make_archive(str(folder / "project"), "zip", files)

    with job_services(prepare) as services:
        put_program(services)
        glue = client("glue", services.endpoint)
        script = {"Name": "glueetl", "ScriptLocation": f"s3://{BUCKET}/programs/job.py"}
        arguments = {"--conf": f"spark.jars.packages={CONF['spark.jars.packages']}"}
        glue.create_job(Name="lake", Role="lake", Command=script, DefaultArguments=arguments)
        sizes = {"full_load": {"worker_type": "G.2X", "number": 10}}
        project = Project(tmp_path / "lake", services.section(glue={"job": "lake", **sizes}))
        project.load("items", 1, 2)
        project.change("items", 3)
        assert failure_of(project.run([ITEM, BATCH])) is None
        project.change("items", 4)
        assert failure_of(project.run([ITEM, BATCH])) is None
        assert failure_of(project.run([MART], ("2026-03-01", "2026-03-02"))) is None
        asked = [(job.get("WorkerType"), job.get("NumberOfWorkers")) for job in services.jobs]
        assert asked[0] == ("G.2X", 10)
        assert asked[0] not in asked[1:]


@pytest.mark.timeout(1800)  # four minutes on an idle machine, most of them of pip
def test_a_packaged_environment_runs_the_jobs(tmp_path: Path) -> None:
    """`lake-assets package` needs an index of packages for it."""
    project = Project(tmp_path / "lake")
    made = tmp_path / "package"
    done = run_python(
        "-c", CLI, "--config", project.folder / "lake.yaml", "package", "--output", made, timeout=1500
    )
    if "Could not find a version" in done.stderr or "NewConnectionError" in done.stderr:
        pytest.skip("no index of packages answers")
    assert done.returncode == 0, done.stderr

    def prepare(folder: Path) -> None:
        unpack_archive(made / "environment.tar.gz", folder / "environment")

    with job_services(prepare) as services:
        put_program(services)
        jobs = services.section(emr_serverless=services.emr_serverless(CONF))
        project = Project(tmp_path / "lake", jobs)
        project.load("items", 1, 2)
        project.change("items", 3)
        assert failure_of(project.run([ITEM, BATCH])) is None
        (log,) = services.logs
        assert list((log.parent / "environment").glob("lib/python3*/site-packages/lake_assets"))
        assert not list((log.parent / "environment").glob("lib/python3*/site-packages/pyspark"))
