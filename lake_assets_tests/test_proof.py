"""`make proof` runs each proof at the newest commit once, whatever fails or interrupts it, and says what it ran.

With a repository whose targets of make are done at once. Not here: the proofs themselves.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lake_assets_tests.helpers.processes.child import environment, run_python

STEPS = 14
MAKEFILE = """\
demo test test-connect test-long soak outside drills chaos mixture:
\t@echo $@ $(N) $(SEED) $(MINUTES) $(TESTS) $(OPTIONS) >> $(DONE)
\t@test ! -e $(BROKEN)/$@ || (echo "3 failed, 4 passed"; exit 2)
\t@while test -e $(SLOW)/$@; do sleep 0.1; done
\t@echo "failed     0"
\t@echo "===== 5 passed | $@ ====="
\t@echo "└───┘"
"""


class Repository:
    """A repository with a commit, and what its proofs have run and recorded."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.record = folder / "repository", folder / "record.md"
        self.done, self.broken, self.slow = (folder / name for name in ("done", "broken", "slow"))
        for made in (self.folder, self.broken, self.slow):
            made.mkdir()
        places = f"DONE := {self.done}\nBROKEN := {self.broken}\nSLOW := {self.slow}\n"
        (self.folder / "Makefile").write_text(places + MAKEFILE)
        (self.folder / ".gitignore").write_text(".proof/\n")
        self.git("init", "--quiet")
        self.commit()

    def git(self, *arguments: str) -> str:
        author = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
        command = ["git", *author, *arguments]
        return subprocess.run(
            command, cwd=self.folder, check=True, capture_output=True, text=True
        ).stdout.strip()

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "One")

    @property
    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    def command(self, *options: str) -> list[str]:
        own = ("--repository", str(self.folder), "--record", str(self.record), "--seed", "7")
        return ["-m", "lake_assets_tests.proof", *own, *options]

    def prove(self, *options: str) -> "subprocess.CompletedProcess[str]":
        self.done.unlink(missing_ok=True)
        return run_python(*self.command(*options), timeout=60)

    def ran(self) -> list[str]:
        return [line.strip() for line in self.done.read_text().splitlines()] if self.done.exists() else []

    def recorded(self) -> list[list[str]]:
        """The record's lines below its header: the cells of each."""
        lines = self.record.read_text().splitlines()[2:]
        return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_all_proofs_run_one_after_the_other_and_are_recorded(repository: Repository) -> None:
    done = repository.prove()
    assert done.returncode == 0, done.stdout + done.stderr
    kept = repository.folder / ".proof"
    assert repository.ran() == [
        "demo",
        "test",
        "test-connect",
        "test-long lake_assets_tests/silver/write",
        "test-long lake_assets_tests/silver --ignore lake_assets_tests/silver/write",
        "test-long lake_assets_tests/soak",
        "test-long lake_assets_tests --ignore lake_assets_tests/silver --ignore lake_assets_tests/soak",
        f"soak 2000 7 --record {kept / 'soak-7.jsonl'}",
        f"soak 1000 7 --stream --record {kept / 'streams-7.jsonl'}",
        "outside 300 7",
        "drills",
        "chaos 7 10",
        "chaos 7 10 --continuous",
        "mixture 7 10",
    ]
    lines = repository.recorded()
    assert [line[:4] + line[6:] for line in lines] == [
        ["demo", "all", repository.head, "none", "passed: 5 passed / demo"],
        ["tests", "all", repository.head, "none", "passed: 5 passed / test"],
        ["tests on Spark Connect", "all", repository.head, "none", "passed: 5 passed / test-connect"],
        ["long tests of silver's writes", "all", repository.head, "none", "passed: 5 passed / test-long"],
        ["long tests of the rest of silver", "all", repository.head, "none", "passed: 5 passed / test-long"],
        ["long tests of histories", "all", repository.head, "none", "passed: 5 passed / test-long"],
        ["long tests of everything else", "all", repository.head, "none", "passed: 5 passed / test-long"],
        ["histories", "2000 histories", repository.head, "7", "passed: 5 passed / soak"],
        ["histories of streams", "1000 histories", repository.head, "7", "passed: 5 passed / soak"],
        ["histories with actions from outside", "300 histories", repository.head, "7", "passed: failed 0"],
        ["drills", "all", repository.head, "none", "passed: 5 passed / drills"],
        ["chaos, a run for each file", "10 minutes", repository.head, "7", "passed: 5 passed / chaos"],
        ["chaos, the continuous run", "10 minutes", repository.head, "7", "passed: 5 passed / chaos"],
        ["mixture with readers", "10 minutes", repository.head, "7", "passed: 5 passed / mixture"],
    ]  # fmt: skip
    assert all(line[4].startswith("20") and line[5].isdecimal() for line in lines)

    again = repository.prove()
    assert again.returncode == 0
    assert repository.ran() == [], "all of it is done"
    assert f"14 of 14 steps have passed at {repository.head}" in again.stdout


def test_another_commit_is_not_proved_by_an_earlier_one(repository: Repository) -> None:
    (repository.broken / "outside").touch()
    assert repository.prove().returncode == 1
    first = repository.head
    (repository.folder / "Makefile").write_text((repository.folder / "Makefile").read_text() + "# changed\n")
    repository.prove()
    assert repository.ran() == ["outside 300 7"], "what is not committed takes no part"
    repository.commit()
    (repository.broken / "outside").unlink()
    assert repository.prove().returncode == 0
    assert len(repository.ran()) == STEPS
    assert {line[2] for line in repository.recorded()[-STEPS:]} == {repository.head}

    repository.git("checkout", "--quiet", first)
    assert repository.prove().returncode == 0
    assert repository.ran() == ["outside 300 7"], "the others have passed at this commit"
    clone = repository.folder / ".proof/clone/Makefile"
    assert "# changed" not in clone.read_text(), "it is not left at the other commit"


def test_a_step_that_fails_is_recorded_and_run_again_alone(repository: Repository) -> None:
    (repository.broken / "test-connect").touch()
    (repository.broken / "outside").touch()
    done = repository.prove()
    assert done.returncode == 1
    assert "Not passed: tests on Spark Connect; histories with actions from outside" in done.stdout
    results = {line[0]: line[6] for line in repository.recorded()}
    assert results["tests on Spark Connect"] == "failed with exit code 2: 3 failed, 4 passed"
    assert sum(result.startswith("passed") for result in results.values()) == STEPS - 2

    (repository.broken / "test-connect").unlink()
    assert repository.prove().returncode == 1, "one of them still fails"
    assert [line.split()[0] for line in repository.ran()] == ["test-connect", "outside"]
    (repository.broken / "outside").unlink()
    assert repository.prove().returncode == 0
    assert [line.split()[0] for line in repository.ran()] == ["outside"]


def test_a_shortened_run_says_so_and_proves_nothing_whole(repository: Repository) -> None:
    short = (
        "--histories",
        "20",
        "--streams",
        "10",
        "--outside",
        "3",
        "--minutes",
        "0.5",
        "--only",
        "lake_assets_tests/bronze",
    )
    assert repository.prove(*short).returncode == 0
    assert {line[0]: line[1] for line in repository.recorded()} == {
        "demo": "all",
        "tests": "shortened: only lake_assets_tests/bronze",
        "tests on Spark Connect": "shortened: only lake_assets_tests/bronze",
        "long tests of the chosen path": "shortened: only lake_assets_tests/bronze",
        "histories": "shortened: 20 of 2000 histories",
        "histories of streams": "shortened: 10 of 1000 histories",
        "histories with actions from outside": "shortened: 3 of 300 histories",
        "drills": "all",
        "chaos, a run for each file": "shortened: 0.5 of 10 minutes",
        "chaos, the continuous run": "shortened: 0.5 of 10 minutes",
        "mixture with readers": "shortened: 0.5 of 10 minutes",
    }
    assert "test lake_assets_tests/bronze" in repository.ran()
    assert repository.prove().returncode == 0
    assert len(repository.ran()) == STEPS - 2, "the demonstration and the drills were whole"


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_run_goes_on_where_it_was(repository: Repository, end: signal.Signals) -> None:
    (repository.slow / "test-long").touch()
    process = subprocess.Popen([sys.executable, *repository.command()], env=environment())
    eventually(lambda: any(line.startswith("test-long") for line in repository.ran()))
    process.send_signal(end)
    assert process.wait(60) != 0
    finished = [line for line in repository.recorded() if line[6].startswith("passed")]
    assert [line[0] for line in finished] == ["demo", "tests", "tests on Spark Connect"]
    if end != signal.SIGKILL:  # which leaves nobody to record it
        assert repository.recorded()[-1][6] == "interrupted"
        assert len(repository.recorded()) == len(finished) + 1

    (repository.slow / "test-long").unlink()
    assert repository.prove().returncode == 0
    assert [line.split()[0] for line in repository.ran()][:2] == ["test-long", "test-long"]


def eventually(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_nothing_of_this_checkout_takes_part(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    (repository.folder / "Makefile").write_text(
        f"%:\n\t@env >> {repository.done}; pwd >> {repository.done}\n"
    )
    repository.commit()
    monkeypatch.setenv("LAKE_TEST_SPARK", "connect")
    monkeypatch.setenv("MAKEFLAGS", "n")
    done = subprocess.run(
        [sys.executable, *repository.command()], env={**os.environ, "PYTHONPATH": environment()["PYTHONPATH"]},
        check=False,
    )  # fmt: skip
    assert done.returncode == 0
    said = repository.done.read_text()
    assert "PYTHONPATH=" not in said
    assert "LAKE_TEST_SPARK=" not in said
    assert said.count(str(repository.folder / ".proof/clone")) >= STEPS
