"""Each row of docs/outside_changes.md has a drill, and a drill fails unless it shows what its row says.

Here: the rows against the drills, how a drill is judged, one drill. Not here: all of them (`make drills`), random
mixtures (`outside`).
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lake_assets_tests.drills.__main__ import MODULES
from lake_assets_tests.drills.drill import DRILLS, Lakes, faults, judge, run
from lake_assets_tests.drills.practice import Practice
from lake_assets_tests.drills.rows import Row, rows
from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.changed_shop import ITEMS
from lake_assets_tests.outside import actions

HEAD = "| what happened | what you see | what to run |\n|---|---|---|\n"


def test_every_row_has_a_drill() -> None:
    assert MODULES
    assert faults(list(DRILLS), rows()) == []


def test_a_row_without_a_drill_and_a_drill_without_a_row_are_found() -> None:
    found = faults(["a disk", "a file was"], [Row("a file was lost", "", ""), Row("a wire was cut", "", "")])
    assert found == ["no drill: a wire was cut", "the drill 'a disk' is of 0 rows"]
    both = faults(["a", "a file"], [Row("a file was lost", "", "")])
    assert both == ["several drills: a file was lost"]


def test_rows_say_what_is_seen_and_run_also_by_the_row_above() -> None:
    text = (
        "text\n\n"
        + HEAD
        + "| a thing | `… N files of …, and NAME` | `full-load TABLE --reload` in `lake.yaml` |\n"
        "| another | the same | the same: it is `done` again |\n\ntext\n\n"
        + HEAD
        + "| a third | nothing | nothing |\n"
    )
    first, second, third = rows(text)
    assert first.messages == second.messages == [["files of", ", and"]]
    assert first.commands == [["full-load", "--reload"]]
    assert second.commands == [["full-load", "--reload"], ["done"]]
    assert (third.messages, third.commands) == ([], [])


def practice(folder: Path) -> Practice:
    """A lake on which everything went well."""
    found = Practice(Bench(folder, {"public.items": ITEMS}))
    found.seen, found.done = ["items: it is gone from here"], ["recover", "full-load public.items --reload"]
    found.stops = found.compared = 1
    return found


@pytest.mark.parametrize(
    ("row", "attribute", "value", "expected"),
    [
        (Row("", "`… gone from …`", "`recover`"), "seen", ["items"], "not seen: gone from"),
        (Row("", "`… gone from …`", "`recover`"), "done", ["sync"], "not run: recover"),
        (Row("", "`… gone from …`", "`recover`"), "compared", 0, "not compared"),
        (Row("", "nothing", "`full-load TABLE --reload`"), "stops", 1, "a table has stopped"),
    ],
)
def test_a_drill_that_does_not_show_its_row(
    tmp_path: Path, row: Row, attribute: str, value: object, expected: str
) -> None:
    right = practice(tmp_path)
    right.stops = 1 if row.messages else 0
    judge(row, [right])
    setattr(right, attribute, value)
    with pytest.raises(AssertionError, match=expected):
        judge(row, [right])


@pytest.mark.spark
@pytest.mark.slow
def test_a_drill_of_rows_that_differ_from_the_source(spark: SparkSession, tmp_path: Path) -> None:
    row = Row("somebody deletes", "`… not by lake_assets`", "`restore TABLE`")

    def wrong(lakes: Lakes) -> None:
        shop = lakes.shop()
        shop.act(actions.delete)
        shop.sync()
        shop.equals({1: "changed", 3: "c", 4: "new"})

    outcome = run(row, wrong, tmp_path)
    assert outcome.failure is not None
    assert "silver has {}, the source" in outcome.failure
    assert outcome.line.startswith("FAILED | somebody deletes | seen: public.items: Snapshot")


@pytest.mark.spark
@pytest.mark.slow
def test_one_of_the_drills(spark: SparkSession, tmp_path: Path) -> None:
    (name,) = (name for name in DRILLS if name.startswith("another tool compacted it"))
    (row,) = (row for row in rows() if row.happened.startswith(name))
    outcome = run(row, DRILLS[name], tmp_path)
    assert outcome.failure is None, outcome.failure
