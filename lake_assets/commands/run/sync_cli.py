"""`lake-assets sync` on the command line: its progress, what it prints, its exit code.

Not here: the work (`orchestration/sync.py`).
"""

import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from lake_assets.commands.show.console import messages, results
from lake_assets.words import many

if TYPE_CHECKING:
    from lake_assets.commands.run.progress import ProgressBar
    from lake_assets.lake import Lake
    from lake_assets.rounds.pending_work import PendingWork, SyncResult

BRIEF_ROWS = 500_000
"""Up to this many rows, the work ends before Java's second compiler pays off."""
out = results()
err = messages()


def run_sync(path: Path, source: str | None, table: str | None, gold: bool, layers: bool = False) -> int:
    """Applies pending files, of one source or table if given, and prints the result. Returns the exit code."""
    from lake_assets.commands.run.opening import opened
    from lake_assets.commands.run.progress import ProgressBar
    from lake_assets.outputs.lake_outputs import lake_outputs
    from lake_assets.rounds.pending_work import find_work, no_files_sentence

    lake = opened(path, source, table, spark=False)
    start = time.perf_counter()
    with ProgressBar(err) as bar:
        may_compute = gold and not lake.broken
        work = find_work(lake, source=source, table=table, gold=may_compute, progress=bar)
        result = work.result if work.idle else _do(path, lake, work, bar)
    followed = {output.name: output.follow() for output in lake_outputs(lake)}
    if not result.nothing_pending:
        from lake_assets.commands.show.show import show_sync

        show_sync(out, result)
    for sentence in result.quarantine_notes:
        err.print(sentence)
    for name, reason in sorted(result.waiting.items()):
        err.print(f"{name}: {reason}")
    if (missing := no_files_sentence(result.no_files)) is not None:
        err.print(missing)
    for note in result.notes:
        err.print(f"note: {note}")
    for name, output in followed.items():
        for sentence in output.done:
            err.print(f"{sentence}.")
        for problem in output.problems:
            err.print(f"{name}: {problem}")
    for name, reason in sorted((result.failed | result.unlisted).items()):
        err.print(f"{name} failed: ", style="bold", end="")
        err.print(reason)
    if layers:
        from lake_assets.commands.show.show import show_layers

        silver = sum(data.get("rows_read", 0) for data in result.applied.values())
        written = sum(data.get("rows_written", 0) for data in result.marts.values())
        show_layers(
            out,
            result,
            {
                "bronze": (sum(result.files.values()), sum(result.file_rows.values())),
                "silver": (sum(data.get("files", 0) for data in result.applied.values()), silver),
                "gold": (None, written),
            },
        )
    if result.nothing_pending:
        out.print("Nothing was pending; nothing was committed.")
    else:
        out.print(
            f"{many(len(result.applied), 'table')} and {many(len(result.marts), 'mart')} in "
            f"{time.perf_counter() - start:.1f} s"
        )
    if gold and lake.broken:
        err.print("No mart is computed before that is corrected.")
        return 1
    return result.exit_code


def _do(path: Path, lake: "Lake", work: "PendingWork", bar: "ProgressBar") -> "SyncResult":
    from lake_assets.spark.session import check_spark

    if work.ready or work.marts:
        check_spark(lake.config)
        lake.runtime.sessions.begin(brief=work.rows <= BRIEF_ROWS)
    # Spark starts, and batches begin, during the import of Dagster, which takes seconds.
    from lake_assets.rounds.begun_turns import BegunTurns

    with closing(BegunTurns(lake, work.ready, bar)) as turns:
        from lake_assets.orchestration.instance import dagster_instance
        from lake_assets.orchestration.sync import sync

        with dagster_instance(path.absolute().parent) as instance:
            return sync(lake, instance, progress=bar, work=work, turns=turns)
