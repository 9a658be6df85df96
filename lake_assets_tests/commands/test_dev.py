"""What `lake-assets dev` lets Dagster print. Not here: its processes (`spark/test_connect.py`)."""

from pathlib import Path
from typing import Any

import pytest

from lake_assets.commands.run import dev
from lake_assets_tests.helpers.lakes.command_lake import call, command_lake


class Ended:
    """A process that has ended at once."""

    pid, returncode = 0, 0

    def poll(self) -> int:
        return 0

    def wait(self, seconds: float) -> int:
        return 0


@pytest.mark.parametrize(
    ("options", "level", "of_runs"), [([], "warning", "WARNING"), (["--verbose"], "info", None)]
)
def test_the_daemon_prints_its_ticks_and_runs_their_events_only_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], level: str, of_runs: str | None
) -> None:
    begun: list[tuple[list[str], dict[str, str]]] = []

    def process(command: list[str], *, env: dict[str, str], **more: Any) -> Ended:
        begun.append((command, env))
        return Ended()

    monkeypatch.setattr("subprocess.Popen", process)
    monkeypatch.setattr(dev, "check_java", lambda: None)
    monkeypatch.setattr(dev, "check_port", lambda port, what: None)
    monkeypatch.setattr(dev, "warm_spark", lambda config: (None, {}))
    monkeypatch.setattr(dev, "stop", lambda children: None)
    monkeypatch.setattr("signal.signal", lambda number, handler: None)
    monkeypatch.setenv("PYTHONWARNINGS", "default")
    assert call(command_lake(tmp_path), "dev", *options) == 0
    ((command, environment),) = begun
    assert command[command.index("--log-level") + 1] == level
    assert environment.get("LAKE_RUN_LOG_LEVEL") == of_runs
    assert environment["PYTHONWARNINGS"] == f"default,{dev.SUPERSEDED}"
