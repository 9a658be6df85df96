"""`python -m lake_assets_tests.proof`: all proofs of the newest commit, one after the other, and a record of them.

Each step is a target of make in a clone of the commit, so that nothing uncommitted takes part, and nothing that is
installed here. A step is done when the record has it as passed at this commit, in this extent and with this seed; a run
that was interrupted goes on with the others. Here: the steps, running them, the record. Not here: what a step proves.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from lake_assets_tests.helpers.processes.child import ROOT, plain_environment

PATIENCE = 60
"""Seconds for a step to end after an interruption."""
SILVER, WRITES, SOAK = (f"lake_assets_tests/{folder}" for folder in ("silver", "silver/write", "soak"))
LONG_TESTS = {
    "silver's writes": WRITES,
    "the rest of silver": f"{SILVER} --ignore {WRITES}",
    "histories": SOAK,
    "everything else": f"lake_assets_tests --ignore {SILVER} --ignore {SOAK}",
}
"""By name, the parts of the long tests, for pytest: each is a step, because a step that is interrupted begins again."""
HEADER = "| step | extent | commit | seed | began (UTC) | seconds | result |\n|---|---|---|---|---|---|---|\n"


@dataclass(frozen=True, slots=True)
class Step:
    """One proof: its name, the words for `make`, what it covers, the seed of what is random in it, and a regular
    expression of the line of its output that sums it up, the last one that matches."""

    name: str
    make: tuple[str, ...]
    extent: str = "all"
    seed: str = "none"
    says: str = r"\w"


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is run: random histories, those of streams, those with actions from outside, minutes of each
    chaos test and of the mixture, and the tests below a path (empty: all)."""

    histories: int = 2_000
    streams: int = 1_000
    outside: int = 300
    minutes: float = 10.0
    only: str = ""


WHOLE = Extent()


def steps(seed: int, folder: Path, extent: Extent) -> list[Step]:
    """All steps; `folder`: where the outcomes of the histories are kept, so that the soak goes on after an
    interruption."""
    tests = f"shortened: only {extent.only}" if extent.only else "all"
    chosen = (f"TESTS={extent.only}",) if extent.only else ()
    histories = (f"N={extent.histories}", f"SEED={seed}", f"OPTIONS=--record {folder / f'soak-{seed}.jsonl'}")
    long_tests = {"the chosen path": extent.only} if extent.only else LONG_TESTS
    in_streams = f"--stream --record {folder / f'streams-{seed}.jsonl'}"
    disturbed = ("chaos", f"MINUTES={extent.minutes:g}", f"SEED={seed}")
    minutes = _share(extent.minutes, WHOLE.minutes, "minutes")
    return [
        Step("demo", ("demo",), says="tables and .* marts in"),
        Step("tests", ("test", *chosen), tests),
        Step("tests on Spark Connect", ("test-connect", *chosen), tests),
        *(
            Step(f"long tests of {name}", ("test-long", f"TESTS={part}"), tests)
            for name, part in long_tests.items()
        ),
        Step(
            "histories",
            ("soak", *histories),
            _share(extent.histories, WHOLE.histories, "histories"),
            str(seed),
        ),
        Step(
            "histories of streams",
            ("soak", f"N={extent.streams}", f"SEED={seed}", f"OPTIONS={in_streams}"),
            _share(extent.streams, WHOLE.streams, "histories"),
            str(seed),
        ),
        Step(
            "histories with actions from outside",
            ("outside", f"N={extent.outside}", f"SEED={seed}"),
            _share(extent.outside, WHOLE.outside, "histories"),
            str(seed),
            says="^failed",
        ),
        Step("drills", ("drills",)),
        Step("chaos, a run for each file", disturbed, minutes, str(seed)),
        Step("chaos, the continuous run", (*disturbed, "OPTIONS=--continuous"), minutes, str(seed)),
        Step("mixture with readers", ("mixture", *disturbed[1:]), minutes, str(seed)),
    ]


def _share(number: float, whole: float, what: str) -> str:
    return f"{number:g} {what}" if number >= whole else f"shortened: {number:g} of {whole:g} {what}"


class Proof:
    """The proofs of one commit of a repository; `record` gets a line for each step that ends or is interrupted."""

    def __init__(self, repository: Path, record: Path) -> None:
        self._repository, self._record = repository, record
        self.folder = repository / ".proof"
        self._clone = self.folder / "clone"
        self.commit = _git(repository, "rev-parse", "HEAD")

    def run(self, todo: list[Step]) -> bool:
        """Runs the steps that the record lacks; returns whether all have passed. A step that fails keeps none of the
        others from running."""
        missing = [step for step in todo if not self._is_done(step)]
        for step in missing:
            print(f"{step.name}: make {' '.join(step.make)}, at {self.commit}", flush=True)
            self._do(step)
        failed = [step.name for step in todo if not self._is_done(step)]
        print(f"{len(todo) - len(failed)} of {len(todo)} steps have passed at {self.commit}.")
        if failed:
            print(f"Not passed: {'; '.join(failed)}. Their output is in {self.folder}.")
        return not failed

    def _is_done(self, step: Step) -> bool:
        lines = self._record.read_text(encoding="utf-8").splitlines() if self._record.exists() else []
        return any(line.startswith(self._known(step)) and "| passed: " in line for line in lines)

    def _known(self, step: Step) -> str:
        return f"| {step.name} | {step.extent} | {self.commit} | {step.seed} |"

    def _do(self, step: Step) -> None:
        began, clock = time.strftime("%F %T", time.gmtime()), time.monotonic()
        result = "interrupted"
        try:
            result = self._result(step)
        finally:
            if not self._record.exists():
                self._record.write_text(HEADER, encoding="utf-8")
            with self._record.open("a", encoding="utf-8") as record:
                record.write(f"{self._known(step)} {began} | {time.monotonic() - clock:.0f} | {result} |\n")
            print(f"{step.name}: {result}", flush=True)

    def _result(self, step: Step) -> str:
        # `make demo` shows what a new user meets: it begins with a clone in which nothing is installed.
        if step.make[0] == "demo" or not self._is_cloned():
            self._make_clone()
        log = self.folder / f"{step.name.replace(' ', '_').replace(',', '')}.log"
        with log.open("wb") as output:
            code = _ended(["make", *step.make], self._clone, output.fileno())
        said = _last(log, step.says) or _last(log, r"\w") or "no output"
        verdict = "passed" if code == 0 else f"failed with exit code {code}"
        return f"{verdict}: {said[:200].replace('|', '/')}"

    def _is_cloned(self) -> bool:
        return (self._clone / ".git").exists() and _git(self._clone, "rev-parse", "HEAD") == self.commit

    def _make_clone(self) -> None:
        shutil.rmtree(self._clone, ignore_errors=True)
        self.folder.mkdir(exist_ok=True)
        _git(self.folder, "clone", "--quiet", "--no-checkout", str(self._repository), str(self._clone))
        _git(self._clone, "checkout", "--quiet", "--detach", self.commit)


def _last(log: Path, pattern: str) -> str | None:
    """The last line that matches, of those that are not make's own."""
    lines = [line.strip(" =") for line in log.read_text(errors="replace").splitlines()]
    found = [line for line in lines if re.search(pattern, line) and not line.startswith("make")]
    return " ".join(found[-1].split()) if found else None


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.strip()


def _ended(command: list[str], folder: Path, output: int) -> int:
    """Runs a command to its end and returns its exit code. When this process is interrupted, the command and all that
    it has started end first."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=plain_environment(),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        return process.wait()
    except BaseException:
        # Not SIGTERM: upon SIGINT, Python stops the servers that it has started.
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
        raise


def main(
    histories: Annotated[int, typer.Option(help="Random histories.")] = WHOLE.histories,
    streams: Annotated[int, typer.Option(help="Random histories that arrive in a stream.")] = WHOLE.streams,
    outside: Annotated[int, typer.Option(help="Random histories with actions from outside.")] = WHOLE.outside,
    minutes: Annotated[
        float, typer.Option(help="Minutes of each of the two chaos tests and of the mixture.")
    ] = WHOLE.minutes,
    only: Annotated[str, typer.Option(help="Only the tests below this path.")] = "",
    seed: Annotated[
        int | None, typer.Option(help="The seed of all random steps; by default one made from the commit.")
    ] = None,
    record: Annotated[Path, typer.Option(help="The file to which each step is added.")] = ROOT
    / "docs/proof.md",
    repository: Annotated[Path, typer.Option(help="The repository whose newest commit is proved.")] = ROOT,
) -> None:
    """Run the proofs of the newest commit that the record lacks. Exit with 1 unless all have passed."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    proof = Proof(repository.absolute(), record.absolute())
    chosen = int(proof.commit[:6], 16) if seed is None else seed
    passed = proof.run(steps(chosen, proof.folder, Extent(histories, streams, outside, minutes, only)))
    raise typer.Exit(0 if passed else 1)


if __name__ == "__main__":
    typer.run(main)
