"""Rules about a source table's DMS files: their rows are those that the log has, and new ones arrive.

Not here: files of no table (`orchestration/checks/stray_check.py`).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from lake_assets.bronze.decode.recount import counted
from lake_assets.bronze.files.content import UnreadableFile
from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.checks.data_check import Outcome, Rule
from lake_assets.runtime import LakeRuntime
from lake_assets.storage.object_store import ObjectGone
from lake_assets.words import many


def files_have_their_rows(source: str, table: str) -> Rule:
    """Each file of the newest day still has the rows that it had when it was logged. Files that were not counted then
    are left out, and so are files that the bucket no longer has: DMS files may be deleted once they are applied."""

    def rule(runtime: LakeRuntime, earlier: Sequence[float]) -> Outcome:
        landed = _landed(runtime, source, table)
        if not landed:
            return Outcome(True, "No file has landed yet.")
        newest = max(file.capture_date for file in landed)
        files = [file for file in landed if file.capture_date == newest and file.rows is not None]
        problems: list[str] = []
        rows = gone = 0
        for file in files:
            try:
                found = _recounted(runtime, source, file)
            except ObjectGone:
                gone += 1
                continue
            rows += found or 0
            if found != file.rows:
                shown = "it cannot be read" if found is None else f"it now has {found}"
                problems.append(f"{file.key} had {many(file.rows or 0, 'row')} when it was logged, {shown}")
        figures = {"day": newest.isoformat(), "files": len(files), "files_gone": gone, "rows": rows}
        if problems:
            return Outcome(False, "\n".join(problems), figures)
        return Outcome(
            True, f"{many(rows, 'row')} in {many(len(files) - gone, 'file')} of {newest}.", figures
        )

    return rule


def _recounted(runtime: LakeRuntime, source: str, file: LoggedFile) -> int | None:
    """The rows that the file has now; None if it cannot be read."""
    config = runtime.lake.sources[source]
    dms = config.settings(file.qualified_table, file.last_modified)
    try:
        return counted(runtime.store(source), replace(file, rows=None), dms, config.tables).rows
    except UnreadableFile:
        return None


def files_arrive(
    source: str,
    table: str,
    longest: timedelta | None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Rule:
    """The newest file of the table is no older than `longest`. If that is None, any age passes, because a quiet source
    is normal."""

    def rule(runtime: LakeRuntime, earlier: Sequence[float]) -> Outcome:
        newest = max((file.last_modified for file in _landed(runtime, source, table)), default=None)
        if newest is None:
            return Outcome(longest is None, "No file has landed yet.")
        age = clock() - newest
        limit = (
            f"the limit is {longest}" if longest is not None else "there is no limit (freshness.max_quiet)"
        )
        sentence = f"The newest file is of {newest:%Y-%m-%d %H:%M:%S} UTC; {limit}."
        figures = {"quiet_seconds": round(age.total_seconds(), 3)}
        return Outcome(longest is None or age <= longest, sentence, figures)

    return rule


def _landed(runtime: LakeRuntime, source: str, table: str) -> list[LoggedFile]:
    return [
        file
        for file in runtime.file_log.files(source, table)
        if not file.retry and file.kind is not FileKind.VANISHED
    ]
