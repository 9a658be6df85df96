"""What DMS is asked, through moto's real server, and what its answers mean: tables of cases."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from lake_assets.silver.plan.full_load_gate import load_problem
from lake_assets.storage.dms_tasks import DmsUnavailable, TableLoad, TaskReport, TaskReports, ask
from lake_assets_tests.helpers.files.dms_files import NOON
from lake_assets_tests.helpers.files.records import logged
from lake_assets_tests.helpers.servers.dms_task import Dms, statistics

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


def test_the_task_as_a_whole(dms: Dms) -> None:
    dms.stats = {"FullLoadProgressPercent": 40, "TablesLoading": 2, "TablesQueued": 3, "TablesErrored": 1}
    report = ask(dms.task)
    assert (report.percent, report.loading, report.errored, report.tables) == (40, 5, 1, {})
    assert datetime.now(UTC) - report.asked_at < timedelta(seconds=30)


def test_its_tables_over_several_pages(dms: Dms) -> None:
    began, ended = NOON.timestamp(), (NOON + timedelta(minutes=5)).timestamp()
    dms.tables = [
        statistics("public.a", "Table completed", FullLoadStartTime=began, FullLoadEndTime=ended),
        statistics("public.b", "Full load", FullLoadStartTime=began),
        statistics("sales.a", "Before load"),
    ]
    assert ask(dms.task).tables == {
        ("public", "a"): TableLoad("Table completed", NOON, NOON + timedelta(minutes=5)),
        ("public", "b"): TableLoad("Full load", NOON, None),
        ("sales", "a"): TableLoad("Before load", None, None),
    }


def test_a_task_that_is_not_there_and_a_service_that_does_not_answer(dms: Dms) -> None:
    unknown = dms.task.model_copy(update={"arn": dms.task.arn.replace("loading", "other")})
    with pytest.raises(
        DmsUnavailable, match=r"DMS has no task .*other-\w+: correct dms_task.arn, or its region"
    ):
        ask(unknown)
    silent = dms.task.model_copy(update={"endpoint": "http://127.0.0.1:9"})
    with pytest.raises(DmsUnavailable, match=r"cannot be reached .*: check the network, dms_task.endpoint"):
        ask(silent)


def test_many_tables_make_one_call(dms: Dms) -> None:
    seconds = [0.0]
    reports = TaskReports(lambda: seconds[0])
    first = reports.report(dms.task, newer_than=LONG_AGO)
    for _ in range(50):
        assert reports.report(dms.task, newer_than=LONG_AGO) is first
    assert dms.asked.count("task") == 1
    # A part that was logged since: the answer may be about the load before.
    second = reports.report(dms.task, newer_than=first.asked_at)
    assert second.asked_at > first.asked_at
    seconds[0] += 11
    assert reports.report(dms.task, newer_than=LONG_AGO) is not second
    assert dms.asked.count("task") == 3


def test_a_silent_service_is_not_waited_for_by_every_table(dms: Dms) -> None:
    seconds, reports = [0.0], TaskReports(lambda: seconds[0])
    silent = dms.task.model_copy(update={"endpoint": "http://127.0.0.1:9"})
    errors = []
    for _ in range(50):
        with pytest.raises(DmsUnavailable) as caught:
            reports.report(silent, newer_than=LONG_AGO)
        errors.append(caught.value)
    assert len({id(error) for error in errors}) == 1
    seconds[0] += 61
    with pytest.raises(DmsUnavailable) as caught:
        reports.report(silent, newer_than=LONG_AGO)
    assert caught.value is not errors[0]


DONE = TaskReport(NOON, "running", percent=100, loading=0, errored=0)
PARTS = [logged(1, "LOAD1"), logged(2, "LOAD2", minute=3)]


def own(state: str, started: float | None = -1, ended: float | None = 4, name: str = "items") -> TaskReport:
    def at(minute: float | None) -> datetime | None:
        return None if minute is None else NOON + timedelta(minutes=minute)

    other = TableLoad("Full load", NOON, None)
    tables = {("public", name): TableLoad(state, at(started), at(ended)), ("public", "other"): other}
    return replace(DONE, percent=50, loading=1, tables=tables)


@pytest.mark.parametrize(
    ("report", "problem"),
    [
        (DONE, None),
        (replace(DONE, percent=99), "DMS has done 99 % of its task's full load"),
        (replace(DONE, percent=None), "DMS has done 0 %"),
        # A single table is being reloaded.
        (replace(DONE, loading=1), "100 % of its task's full load, 1 table is loading"),
        (replace(DONE, errored=2), "2 tables of the DMS task have failed"),
        # The table's own state goes before the task's.
        (own("Table completed"), None),
        (own("Table completed", name="ITEMS"), None),
        (own("Table completed", ended=None), None),
        (own("Table completed", started=None), None),
        (own("Full load", ended=None), "DMS reports public.items as: Full load"),
        (own("Table is being reloaded"), "Table is being reloaded"),
        (own("Table error"), "Table error"),
        (own("Table cancelled"), "Table cancelled"),
        (own("Before load", started=None, ended=None), "Before load"),
        (
            own("Table completed", started=-60, ended=-50),
            "ended at 2026-03-01 11:10:00 was before these files",
        ),
        (own("Table completed", started=1), "LOAD1 is older than the load of public.items"),
        (own("Table completed", name="another"), "the DMS task has no table public.items"),
    ],
)
def test_what_an_answer_means_for_a_table(report: TaskReport, problem: str | None) -> None:
    found = load_problem(report, "public.items", PARTS)
    assert found is None if problem is None else problem in (found or "")


def test_a_copied_bucket_has_later_dates_than_its_files() -> None:
    """The transfer times in the files count."""
    copied = [replace(part, last_modified=NOON + timedelta(days=9)) for part in PARTS]
    assert load_problem(own("Table completed"), "public.items", copied) is None
