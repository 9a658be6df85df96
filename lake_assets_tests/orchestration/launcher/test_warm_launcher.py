"""Runs that are forked from a warm process, by Dagster's own daemon.

Here: launching, terminating, a code location that was changed, a process that died. Not here: how much sooner a run
begins (docs/performance.md).
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import dagster as dg
import psutil
import pytest
import yaml

from lake_assets.orchestration.launcher import fork_server
from lake_assets.orchestration.launcher.run_process import PROCESS, SERVER, is_known, process_of, process_tag
from lake_assets.orchestration.launcher.warm_launcher import ForkServer
from lake_assets.orchestration.runs.in_flight import unfinished_runs
from lake_assets_tests.helpers.processes import sleeping
from lake_assets_tests.helpers.processes.child import ROOT, environment

pytestmark = pytest.mark.slow


@dataclass
class Running:
    """A daemon in a folder with a code location of its own."""

    folder: Path
    instance: dg.DagsterInstance

    def launch(self) -> str:
        """The id of a new run, once its op has begun."""
        former = self.instance.get_runs(limit=1)
        run_id = self._again(former[0]) if former else self._by_command()
        wait("the run's op", lambda: self.told(run_id))
        return run_id

    def _by_command(self) -> str:
        done = subprocess.run(
            [*_dagster("dagster"), "job", "launch", "-w", "workspace.yaml", "-j", "sleeping"],
            cwd=self.folder,
            env=own_environment(self.folder),
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        (run,) = self.instance.get_runs()
        return run.run_id

    def _again(self, former: dg.DagsterRun) -> str:
        """Queues a run of the same job, as the command does, which takes seconds to import Dagster."""
        run = dg.DagsterRun(
            former.job_name,
            run_id=str(uuid4()),
            remote_job_origin=former.remote_job_origin,
            job_code_origin=former.job_code_origin,
            job_snapshot_id=former.job_snapshot_id,
            execution_plan_snapshot_id=former.execution_plan_snapshot_id,
        )
        self.instance.add_run(run)
        self.instance.submit_run(run.run_id, workspace=cast(Any, None))
        return run.run_id

    def told(self, run_id: str) -> str:
        path = self.folder / f"{run_id}.told"
        return path.read_text() if path.exists() else ""

    def run(self, run_id: str) -> dg.DagsterRun:
        found = self.instance.get_run_by_id(run_id)
        assert found is not None
        return found

    def ends(self, run_id: str, status: dg.DagsterRunStatus) -> None:
        wait(f"end of the run as {status.value}", lambda: self.run(run_id).status is status)


def own_environment(folder: Path) -> dict[str, str]:
    """Of a process that finds the code location in the folder."""
    path = f"{ROOT}{os.pathsep}{folder}"
    return environment(DAGSTER_HOME=str(folder), PYTHONPATH=path, LAKE_RUN_LOG_LEVEL="WARNING")


def _dagster(name: str) -> list[str]:
    return [str(Path(sys.executable).parent / name)]


def wait(what: str, condition: Callable[[], object], seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"no {what} after {seconds:.0f} s"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("warm")
    shutil.copy(sleeping.__file__, folder / "slept.py")
    (folder / "workspace.yaml").write_text("load_from:\n  - python_module: slept\n")
    shipped = yaml.safe_load((ROOT / "dagster.yaml").read_text())
    kept = {name: shipped[name] for name in ("run_launcher", "run_queue", "telemetry")}
    (folder / "dagster.yaml").write_text(yaml.safe_dump(kept))
    # Before the daemon: two processes that make a storage's tables at once are in each other's way.
    instance = dg.DagsterInstance.from_config(str(folder))
    with (folder / "daemon.log").open("wb") as log:
        daemon = subprocess.Popen(
            [*_dagster("dagster-daemon"), "run", "-w", "workspace.yaml"],
            cwd=folder,
            env=own_environment(folder),
            stdout=log,
            stderr=log,
        )
    try:
        with instance:
            yield Running(folder, instance)
    finally:
        for child in psutil.Process(daemon.pid).children(recursive=True):
            child.kill()
        daemon.kill()
        daemon.wait()


def parent_of(running: Running, run_id: str) -> psutil.Process:
    return psutil.Process(int(running.told(run_id).split()[0]))


def test_a_run_is_forked_from_a_process_that_has_imported_the_code(running: Running) -> None:
    first = running.launch()
    server = parent_of(running, first)
    assert SERVER in server.cmdline()
    process = process_of(running.run(first))
    assert process is not None
    assert process.ppid() == server.pid
    (running.folder / "go").touch()
    running.ends(first, dg.DagsterRunStatus.SUCCESS)
    second = running.launch()
    assert parent_of(running, second) == server
    running.ends(second, dg.DagsterRunStatus.SUCCESS)
    (running.folder / "go").unlink()
    wait("end of the process", lambda: process_of(running.run(first)) is None)


def test_a_run_prints_from_the_given_level_and_stores_everything(running: Running) -> None:
    (running.folder / "go").touch()
    run_id = running.launch()
    running.ends(run_id, dg.DagsterRunStatus.SUCCESS)
    (running.folder / "go").unlink()
    stored = [entry.user_message for entry in running.instance.all_logs(run_id)]
    assert {"an info", "a warning"} <= {*stored}
    printed = (running.folder / "daemon.log").read_text()
    of_run = [line for line in printed.splitlines() if run_id in line and " - sleeping - " in line]
    assert [line.rpartition(" - ")[2] for line in of_run] == ["a warning"]


def test_a_run_is_terminated_from_another_process(running: Running) -> None:
    run_id = running.launch()
    assert running.instance.run_launcher.terminate(run_id)
    running.ends(run_id, dg.DagsterRunStatus.CANCELED)
    assert not running.instance.run_launcher.terminate(run_id), "it has ended"


def test_a_run_of_which_the_process_is_gone_cannot_be_terminated(running: Running) -> None:
    run_id = running.launch()
    process = process_of(running.run(run_id))
    assert process is not None
    process.kill()
    wait("end of the process", lambda: process_of(running.run(run_id)) is None)
    assert not running.instance.run_launcher.terminate(run_id)
    assert unfinished_runs(running.instance, "sleeping") == {}
    running.ends(run_id, dg.DagsterRunStatus.FAILURE)


def test_whose_process_it_is() -> None:
    own = os.getpid()
    tagged = dg.DagsterRun("job", run_id="a" * 8, tags=process_tag("a" * 8, own))
    assert is_known(tagged)
    assert process_of(tagged) is None, "that number is another program's"
    assert not is_known(dg.DagsterRun("job", run_id="b" * 8, tags=tagged.tags)), "the tags are copied"
    assert not is_known(tagged.with_tags({PROCESS: f"{'a' * 8} another-machine {own} 1"}))
    assert not is_known(tagged.with_tags({}))


def test_code_that_was_changed_is_imported_anew(running: Running) -> None:
    (running.folder / "go").touch()
    before = parent_of(running, running.launch())
    code = running.folder / "slept.py"
    code.write_text(code.read_text().replace('f"{os.getppid()} ', 'f"{os.getppid()} changed '))
    run_id = running.launch()
    assert running.told(run_id).split()[1] == "changed"
    assert parent_of(running, run_id) != before


def test_code_that_cannot_be_imported_is_left_to_dagster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken.py").write_text("raise RuntimeError\n")
    server = ForkServer("broken", str(tmp_path))
    with pytest.raises(ValueError, match="stale"):
        server.fork(["api"])
    (tmp_path / "broken.py").write_text("")
    assert server.fork(["--version"])
    server.stop()


def test_what_is_not_installed_keeps_nothing_cold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark Connect's client is an extra."""
    monkeypatch.setattr(fork_server, "EXTRA_MODULES", ("no_such_module", "wave"))
    monkeypatch.delitem(sys.modules, "wave", raising=False)
    assert fork_server._imported("json")
    assert "wave" in sys.modules, "the others are imported"
    assert not fork_server._imported("no_such_module")


@pytest.mark.parametrize(("told", "code"), [(b"", 1), (b"k", 0)])
def test_a_process_that_nobody_was_told_of_ends(told: bytes, code: int) -> None:
    """Its launcher has started another for the run."""
    assert fork_server.REGISTERED == b"k"
    waits = "from lake_assets.orchestration.launcher.fork_server import _wait; _wait(0)"
    done = subprocess.run([sys.executable, "-c", waits], input=told, cwd=ROOT, timeout=60, check=False)
    assert done.returncode == code
