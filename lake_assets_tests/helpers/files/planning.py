"""The next batch of a table, by the log's records of its files. Not here: the cases (`plan_cases.py`)."""

from datetime import timedelta

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.file_log import LoggedFile
from lake_assets.config import FullLoadComplete, Mode, OnVanished
from lake_assets.silver.plan.full_load_gate import Gate
from lake_assets.silver.plan.plan import Plan, State
from lake_assets.silver.plan.planner import plan_batch
from lake_assets.silver.table.position import Position
from lake_assets_tests.helpers.files.dms_files import NOON
from lake_assets_tests.helpers.files.records import logged

FIRST_CDC = FullLoadComplete.model_validate("first_cdc")
IMMEDIATELY = FullLoadComplete.model_validate("immediately")
QUIET = FullLoadComplete.model_validate({"quiet_period": "5m"})


def plan(
    files: list[LoggedFile],
    position: Position | None = None,
    *,
    mode: Mode = Mode.CURRENT,
    policy: FullLoadComplete = FIRST_CDC,
    minute: float = 1,
    max_files: int = 100,
    on_vanished: OnVanished = "keep",
    gate: Gate | None = None,
    lacks: str | None = None,
) -> Plan:
    """The next step of a table, planned at this minute past noon."""
    return plan_batch(
        position or Position(),
        files,
        mode=mode,
        policy=policy,
        now=NOON + timedelta(minutes=minute),
        max_files=max_files,
        on_vanished=on_vanished,
        gate=gate,
        lacks=lacks,
    )


def vanished(offset: int, minute: float = 30) -> LoggedFile:
    """All files before it have vanished."""
    return logged(offset, "public/items/", minute=minute, kind=FileKind.VANISHED, flush_time=None, rows=0)


def outcome(found: Plan) -> tuple[str, list[int], int, int] | str | None:
    """A batch as (kind, offsets of its files, upto, epoch); `waiting`; `stopped`; None."""
    if (batch := found.batch) is not None:
        return batch.kind, [file.offset for file in batch.files], batch.upto, batch.epoch
    return None if found.state is State.UP_TO_DATE else str(found.state)


DMS = FullLoadComplete.model_validate("dms")
AT = Position(log_offset=3, epoch=1, snapshot_id=1)
LOADED = [logged(1, "LOAD1"), logged(2, "LOAD2", minute=1), logged(3, "c3", minute=5)]
QUIET_TABLE = [logged(1, "LOAD1"), logged(2, "LOAD2", minute=1)]
AT_QUIET = Position(log_offset=2, epoch=1, snapshot_id=1)
RELOADED = [*LOADED, logged(4, "LOAD1", minute=20, epoch=2)]
TASK_START = NOON - timedelta(hours=1)
