"""The days that a batch touched, for marts whose days do not follow the silver table's partitions.

A trip that ended on another day than it began, corrected to end on a third, concerns the days of its old and its new
end. Both are known while the batch is applied, and only then cheaply. Here: finding them. Not here: what marts make
of them (`gold/changed_days.py`). Days are UTC.
"""

from pyspark.sql import DataFrame

from lake_assets.silver.table.position import ALL
from lake_assets.silver.table.targets import Target
from lake_assets.spark.sql import Sql, joined, literal, quoted, sql

STATES_VIEW = "states_of_keys"
MOST_DAYS = 400
"""A batch that touches more days than this says `all`: a summary is no place for long lists."""


def all_days(target: Target) -> dict[str, str]:
    """What a commit that replaced the table says."""
    return dict.fromkeys(target.track_days, ALL)


def touched_days(table: Sql, snapshot_id: int | None, target: Target, states: DataFrame) -> dict[str, str]:
    """Per tracked column, the days of the old images at `snapshot_id` and of the new ones, joined by commas. `states`:
    of each key, as `collapse` makes them."""
    if not target.track_days:
        return {}
    spark = states.sparkSession
    states.createOrReplaceTempView(STATES_VIEW)
    matches = target.key_matches("k", "t")
    instants = {column.name for column in target.columns if column.type == "timestamptz"}
    queries = []
    for column in target.track_days:
        new, old = (_day(quoted(row, column), column in instants) for row in ("_image", "t"))
        queries.append(
            sql(
                "SELECT {name} AS c, {day} AS d FROM {states} WHERE NOT _tombstone",
                name=literal(column),
                day=new,
                states=STATES_VIEW,
            )
        )
        if snapshot_id is not None:
            queries.append(
                sql(
                    "SELECT {name}, {day} FROM {table} VERSION AS OF {snapshot} AS t "
                    "LEFT SEMI JOIN {states} AS k ON {matches}",
                    name=literal(column),
                    day=old,
                    table=table,
                    snapshot=snapshot_id,
                    states=STATES_VIEW,
                    matches=matches,
                )
            )
    rows = spark.sql(
        sql(
            "SELECT DISTINCT c, d FROM ({days}) WHERE d IS NOT NULL LIMIT {most}",
            days=joined(" UNION ALL ", queries),
            most=(MOST_DAYS + 1) * len(target.track_days),
        )
    ).collect()
    spark.catalog.dropTempView(STATES_VIEW)
    found = {
        column: sorted(row["d"].isoformat() for row in rows if row["c"] == column)
        for column in target.track_days
    }
    return {column: ALL if len(days) > MOST_DAYS else ",".join(days) for column, days in found.items()}


def _day(value: Sql, is_instant: bool) -> Sql:
    if not is_instant:
        return sql("to_date({value})", value=value)
    # Not to_date: an instant's day would be the one in the session's zone.
    return sql(
        "date_from_unix_date(CAST(floor(unix_micros({value}) / CAST(86400000000 AS DECIMAL(20, 0))) AS INT))",
        value=value,
    )
