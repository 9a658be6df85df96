"""The progress bar of `sync` and `demo`, on standard error."""

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress

from lake_assets.rounds.pending_work import Progress


class ProgressBar(Progress):
    """A line for each layer; prints nothing if standard error is not a terminal."""

    def __init__(self, console: Console) -> None:
        self._bar = RichProgress(
            SpinnerColumn(),
            TextColumn("{task.description:<10}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[stage]}", markup=False),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> "ProgressBar":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def begin(self, task: str, steps: int) -> None:
        if task in self._tasks:
            known = self._bar.tasks[self._tasks[task]]
            self._bar.update(known.id, total=(known.total or 0) + steps)
        else:
            self._tasks[task] = self._bar.add_task(task, total=steps, stage="")

    def at(self, task: str, completed: int) -> None:
        self._bar.update(self._tasks[task], completed=completed)

    def stage(self, task: str, stage: str) -> None:
        self._bar.update(self._tasks[task], stage=stage)

    def done(self, task: str) -> None:
        self._bar.update(self._tasks[task], advance=1, stage="")
