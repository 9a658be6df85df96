"""What published jobs do wrong, done again: on files that this project's silver is exact on, each such job fails.

Here: a test for each mistake. Not here: the jobs (`published_jobs.py`); the ways in which silver is right, which have
modules of their own.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends
from pydantic import ValidationError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lake_assets.config import TableConfig
from lake_assets.config.config_file import ConfigError, load_lake
from lake_assets.storage.object_store import open_store
from lake_assets_tests.helpers.lakes import published_jobs as jobs
from lake_assets_tests.helpers.lakes.published_source import (
    AUDIT,
    BARE,
    BEYOND_DOUBLES,
    ITEMS,
    LINE_KEY,
    LINES,
    NAMES,
    NEW,
    NOTE,
    OLD,
    Source,
    rows,
)

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def source(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Source:
    return Source(tmp_path_factory.mktemp("published"))


def test_silver_is_exact_on_the_same_files(source: Source) -> None:
    for table, name in NAMES.items():
        assert source.results[name].error is None, source.results[name].error
        assert source.bench.rows(name) == source.bench.truth(table), table
    (five,) = [row for row in source.truth(ITEMS, "id", "v", "zip") if row[0] == "5"]
    assert five == ("5", "last", None), "the oracle itself goes by the sequence"


# Full load


@pytest.mark.long
def test_create_if_not_exists_for_each_load_file(source: Source) -> None:
    target = source.new_name()
    jobs.load_each_file(source.spark, target, map(source.path, source.items_loads))
    first, both = (source.truth(ITEMS, "id", files=source.items_loads[:n]) for n in (1, 2))
    assert rows(source.spark.table(target), "id") == first != both


def test_undeclared_arguments(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="dbname"):
        jobs.target_by_arguments(["--bucket", "lake", "--table", "items"])
    # Here, what is not said is told with its place, before anything runs.
    table = "{columns: {id: long}, primary_key: [id]}"
    lake = tmp_path / "lake.yaml"
    lake.write_text(
        f"catalog: {{uri: catalog.db}}\nsources: {{shop: {{location: bronze, tables: {{public.items: {table}}}}}}}\n"
    )
    with pytest.raises(ConfigError, match=r"catalog\.warehouse: is missing"):
        load_lake(lake)


def test_a_list_that_ends_at_a_thousand(new_bucket: Callable[[], Any], s3: Any) -> None:
    bucket = new_bucket()
    keys = [f"public/items/LOAD{number:08X}.csv" for number in range(1, 1002)]
    for key in keys:  # behind the server, which needs 5 ms for a PUT
        s3_backends[DEFAULT_ACCOUNT_ID]["aws"].put_object(bucket.name, key, b"1\n")
    assert jobs.list_once(bucket.meta.client, bucket.name, "public/") == keys[:1000]
    assert [obj.key for obj in open_store(f"s3://{bucket.name}", s3).list()] == keys


def test_a_lowered_name_has_no_key(source: Source) -> None:
    metadata = [{"table": "OrderLines", "column": name} for name in LINE_KEY]
    assert jobs.key_by_lowered_name(metadata, "OrderLines") == []
    target = next(t for t in source.bench.lake.targets if t.table == LINES)
    assert (target.name, target.key) == ("orderlines", LINE_KEY)


def test_a_rule_about_keys_that_is_never_enforced() -> None:
    keyless = [{"table": "public.events"}]
    assert jobs.tables_with_a_key([ITEMS, "public.events"], keyless) == [ITEMS, "public.events"]
    with pytest.raises(ValidationError, match="a table without one cannot be kept current"):
        TableConfig.model_validate({"columns": {"id": "long"}})


def test_swallowed_exceptions(source: Source) -> None:
    """A table fails; this project says so, and applies the others."""

    def load(table: str) -> None:
        if (error := source.results[table].error) is not None:
            raise error

    assert jobs.load_tables(source.results, load) == "SUCCEEDED"
    failed = {name: str(result.error) for name, result in source.results.items() if result.error}
    assert set(failed) == {"stops"}
    assert source.stop.key in failed["stops"]


def test_inferred_types(source: Source) -> None:
    found = rows(jobs.read_inferring(source.spark, source.path(source.items_loads[0])), "id", "zip")
    truth = source.truth(ITEMS, "id", "zip", files=source.items_loads[:1])
    assert (found[0], truth[0]) == (("1", "5021"), ("1", "05021"))


def test_a_header_where_there_is_none(source: Source) -> None:
    found = jobs.read(source.spark, source.path(source.bare_load))
    assert "v" not in found.columns
    assert found.count() == len(source.truth(BARE, "id", files=[source.bare_load])) - 1


def test_quotes_and_lines_by_sparks_own_rules(source: Source) -> None:
    found = rows(jobs.read_by_lines(source.spark, source.path(source.items_loads[0])), "note")
    assert len(found) == 6, "three rows, each of two lines"
    assert (NOTE,) not in found
    assert (NOTE,) in source.truth(ITEMS, "note", files=source.items_loads[:1])


# CDC


def lines_job(source: Source) -> tuple[str, DataFrame]:
    """A table of order lines as loaded, and the file of changes."""
    columns = (*LINE_KEY, "v")
    return source.copy(source.lines_load, columns=columns), source.read(source.lines_change)


@pytest.mark.long
def test_upserts_that_are_never_applied(source: Source) -> None:
    target, changes = lines_job(source)
    jobs.upsert_if_columns_differ(source.spark, target, changes, LINE_KEY)
    columns = (*LINE_KEY, "v")
    assert rows(source.spark.table(target), *columns) == source.truth(
        LINES, *columns, files=[source.lines_load]
    )


def test_an_undefined_name_at_the_first_delete(source: Source) -> None:
    with pytest.raises(NameError, match="database"):
        jobs.delete_from_undefined(source.spark, "orderlines", source.read(source.lines_change), LINE_KEY)


def test_a_composite_key_without_a_blank(source: Source) -> None:
    target, changes = lines_job(source)
    condition = jobs.condition_without_blanks(LINE_KEY)
    assert condition == "target.order_id = source.order_idandtarget.line = source.line"
    with pytest.raises(AnalysisException, match=r"(?i)parse_syntax_error|unresolved_column"):
        jobs.merge(source.spark, target, changes.filter("Op <> 'D'"), condition)


def test_a_single_hard_coded_key(source: Source) -> None:
    """The first column of the key is taken for the key: lines of an order that nobody changed are changed."""
    target, changes = lines_job(source)
    jobs.merge(source.spark, target, changes.filter("Op <> 'D'"), jobs.condition_of(["order_id"]))
    found = rows(source.spark.table(target), *LINE_KEY, "v")
    assert ("1", "3", "loaded") in source.truth(LINES, *LINE_KEY, "v")
    assert ("1", "3", "loaded") not in found


def test_deletes_before_upserts(source: Source) -> None:
    """A row that came and went within one file comes back."""
    target = source.copy(*source.items_loads, columns=("id", "v"))
    jobs.deletes_then_upserts(source.spark, target, source.read(source.items_changes[0]), ["id"])
    assert ("10", "short-lived") in rows(source.spark.table(target), "id", "v")
    assert "10" not in {row[0] for row in source.truth(ITEMS, "id")}


def test_several_changes_of_a_key_in_one_merge(source: Source) -> None:
    """An error where they match a row; two rows, silently, where they do not."""
    target = source.copy(*source.items_loads, columns=("id", "v"))
    changes = source.read(source.items_changes[0]).filter("Op <> 'D'")
    with pytest.raises(Exception, match="MERGE_CARDINALITY_VIOLATION"):
        jobs.merge(source.spark, target, changes.filter("id = 1"), "target.id = source.id")
    jobs.merge(source.spark, target, changes.filter("id = 11"), "target.id = source.id")
    found = [row for row in rows(source.spark.table(target), "id", "v") if row[0] == "11"]
    assert found == [("11", "first"), ("11", "last")]
    assert [row for row in source.truth(ITEMS, "id", "v") if row[0] == "11"] == [("11", "last")]


def test_names_by_position_from_the_source_as_it_is_now(source: Source) -> None:
    """Files from before a column was added have other places after it; from before one was dropped, more than there
    are."""
    path = source.path(source.bare_load)
    names = ["commit_ts", *NEW, "change_seq", "BI_id"]
    found = jobs.rows_by_current_names(path, names)
    assert [row["extra"] for row in found] == ["", ""], "the sequence, which a full load has none of"
    assert {row[0] for row in source.truth(BARE, "extra", files=[source.bare_load])} == {None}
    with pytest.raises(IndexError):
        jobs.rows_by_current_names(path, ["commit_ts", "id", "change_seq", "BI_id"])


def test_the_width_of_the_first_row(source: Source) -> None:
    """A change of the source's columns falls into the file: what the first row does not have is cut off."""
    found = jobs.read_without_schema(source.spark, source.path(source.ddl_file))
    width = len(["Op", "commit_ts", *OLD, "change_seq", "BI_id"])
    assert len(found.columns) == width
    assert found.count() == len(source.ddl_file.rows)
    (wide,) = found.filter("_c3 = 'three'").collect()
    assert source.after_ddl[0]["change_seq"] == wide[width - 1], (
        "in the place of the before image, which is lost"
    )
    assert ("3", "three", "wide") in source.truth(BARE, "id", "v", "extra")


def test_through_pandas(source: Source) -> None:
    """A whole number beside a NULL becomes a double."""
    load = source.read(source.items_loads[1]).select("id", F.col("big").cast("bigint"))
    (four,) = [row for row in jobs.through_pandas(load) if row["id"] == "4"]
    assert int(four["big"]) == BEYOND_DOUBLES - 1
    assert ("4", str(BEYOND_DOUBLES)) in source.truth(ITEMS, "id", "big")


def test_metadata_is_read_for_every_file(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a database that may be away, or have other columns by now. Nothing here asks one."""
    asked: list[str] = []
    files = {table: [source.path(file) for file in source.bench.files(table)] for table in NAMES}

    def key_of(table: str) -> list[str]:
        asked.append(table)
        return source.bench.key(table)

    jobs.apply_by_metadata(files, key_of)
    assert len(asked) == sum(len(found) for found in files.values()) > len(files)

    def refuse(*anything: Any, **more: Any) -> Any:
        raise AssertionError("the source was asked")

    monkeypatch.setattr("lake_assets.storage.reflection.reflect.sa.create_engine", refuse)
    source.another_change()
    (batch,) = source.bench.apply([NAMES[AUDIT]])[NAMES[AUDIT]]
    assert batch.rows_read == 1
    assert source.bench.rows(NAMES[AUDIT]) == source.bench.truth(AUDIT)


def test_two_schemas_in_one_table(source: Source) -> None:
    files = jobs.files_by_table(source.bench.bucket)
    assert {key.split("/")[0] for key in files["items"]} == {"public", "audit"}
    assert ("7", "audit") not in source.truth(ITEMS, "id", "v")
    assert ("7", "audit") in source.truth(AUDIT, "id", "v")


def test_no_ledger(source: Source) -> None:
    """The job is run once more, as after a failure, and appends once more."""
    target, changes = lines_job(source)
    for _ in range(2):
        jobs.append_inserts(target, changes)
    found = rows(source.spark.table(target), *LINE_KEY)
    assert found.count(("2", "1")) == 2
    assert source.bench.apply(["orderlines"]) == {"orderlines": []}
    assert source.truth(LINES, *LINE_KEY).count(("2", "1")) == 1


def test_two_commits_for_one_file(source: Source) -> None:
    """Between them a reader sees what never was. What main of a silver table ever pointed at are whole batches."""
    target, changes = lines_job(source)
    jobs.upserts_then_deletes(source.spark, target, changes, LINE_KEY)
    states = [
        rows(source.spark.sql(f"SELECT * FROM {target} VERSION AS OF {snapshot.snapshot_id}"), *LINE_KEY, "v")
        for snapshot in _seen_by_readers(source, target.split(".")[-1])
    ]
    loaded = source.truth(LINES, *LINE_KEY, "v", files=[source.lines_load])
    whole = source.truth(LINES, *LINE_KEY, "v")
    assert states[0] == loaded
    assert states[-1] == whole
    assert [state for state in states if state not in (loaded, whole)]
    offsets = [
        snapshot.summary.additional_properties.get("lake.log-offset") if snapshot.summary else None
        for snapshot in _seen_by_readers(source, "orderlines")
    ]
    assert all(offsets), "each of them ends a batch"


def _seen_by_readers(source: Source, name: str) -> list[Any]:
    """Snapshots that main was at, oldest first."""
    table = source.bench.table(name)
    return [table.snapshot_by_id(entry.snapshot_id) for entry in table.history()]


def test_the_commit_time_alone(source: Source) -> None:
    """Four changes of two rows in one transaction: any rule that goes by the commit time and the files' order has one
    of the two wrong."""
    changes = source.read(*source.items_changes).filter("id IN (3, 4)")
    found = rows(jobs.newest(changes, ["id"], "commit_ts"), "id", "v")
    truth = [row for row in source.truth(ITEMS, "id", "v") if row[0] in ("3", "4")]
    assert truth == [("3", "last"), ("4", "last")]
    assert found != truth


def test_a_business_column_as_the_clock(source: Source) -> None:
    changes = source.read(source.items_changes[0]).filter("id = 5")
    assert rows(jobs.newest(changes, ["id"], "updated_at"), "id", "v") == [("5", "first")]
    assert ("5", "last") in source.truth(ITEMS, "id", "v")


def test_counting_for_the_log(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    """No wrong row, as long as the files stay as they are: each figure reads them once more. Here the figures come from
    the pass that applies the rows."""
    counts: list[DataFrame] = []
    frames = type(source.read(source.lines_change))
    count = frames.count

    def counted(frame: DataFrame) -> int:
        counts.append(frame)
        return int(count(frame))

    monkeypatch.setattr(frames, "count", counted)
    told: list[str] = []
    jobs.counting(source.read(source.lines_change), told.append)
    assert (told, len(counts)) == (["3 changes", "1 I", "1 U", "1 D"], 4)
    counts.clear()
    source.another_change()
    (batch,) = source.bench.apply([NAMES[AUDIT]])[NAMES[AUDIT]]
    assert (batch.rows_read, batch.by_op["U"], counts) == (1, 1, [])


def test_rows_without_an_operation(source: Source) -> None:
    """The full load's, unless the endpoint is told to write one."""
    both = source.read(source.lines_load).unionByName(
        source.read(source.lines_change), allowMissingColumns=True
    )
    kept = {row[:2] for row in rows(jobs.with_an_operation(both), *LINE_KEY)}
    assert ("1", "3") not in kept
    assert ("1", "3") in source.truth(LINES, *LINE_KEY)
