"""Rules about rows: a condition that each row meets, columns that identify a row, a reference to another table.

Here: each rule as a query for the rows that break it, read at one snapshot of each table. Not here: where the rules
are declared (`config/checks.py`).
"""

from collections.abc import Callable, Mapping, Sequence

from lake_assets.checks.data_check import Outcome, Rule
from lake_assets.errors import LakeError
from lake_assets.gold.at_cut import newest_cut
from lake_assets.iceberg.table_io import current_snapshot, load_table, table_at
from lake_assets.runtime import LakeRuntime
from lake_assets.spark.sql import Sql, joined, quoted, sql
from lake_assets.words import does, many

MOST_SHOWN = 10
"""Keys in an outcome."""

Tables = Mapping[str, Sql]
"""By identifier, the query for a table's rows at one snapshot."""


def rows_meet(identifier: str, condition: str, key: Sequence[str]) -> Rule:
    """Every row meets the SQL condition, or the condition is NULL for it. `key`: the columns that are shown of a row
    that does not meet it."""

    def broken(tables: Tables) -> Sql:
        return sql(
            # A comment at the end of the condition must not swallow the bracket.
            "SELECT {shown} FROM ({table}) WHERE NOT ({condition}\n)",
            shown=_columns(key) or Sql("1 AS row"),
            table=tables[identifier],
            condition=Sql(condition),
        )

    return _rule([identifier], broken, "row", "meet", "the condition")


def is_unique(identifier: str, columns: Sequence[str]) -> Rule:
    """No two rows have the same values in the columns. Rows with a NULL among the values do not count."""

    def broken(tables: Tables) -> Sql:
        return sql(
            "SELECT {columns}, count(*) AS rows FROM ({table}) WHERE {known} GROUP BY {columns} HAVING count(*) > 1",
            columns=_columns(columns),
            table=tables[identifier],
            known=_all_known(columns),
        )

    return _rule([identifier], broken, "value", "belong", f"to one row only ({', '.join(columns)})")


def refers_to(
    child: str, columns: Mapping[str, str], parent: str, key: Sequence[str], *, at_cut: bool
) -> Rule:
    """Every row of `child` without a NULL in the columns has its row in `parent`. `columns`: by column of the child,
    the column of the parent. `at_cut`: read both tables at their newest consistent cut; otherwise at their newest
    snapshots."""

    def broken(tables: Tables) -> Sql:
        pairs = (sql("c.{own} = p.{other}", own=own, other=other) for own, other in columns.items())
        return sql(
            "SELECT {shown} FROM ({child}) c LEFT ANTI JOIN ({parent}) p ON {pairs} WHERE {known}",
            shown=_columns([*key, *(name for name in columns if name not in key)]),
            child=tables[child],
            parent=tables[parent],
            pairs=joined(" AND ", pairs),
            known=_all_known(columns),
        )

    return _rule([child, parent], broken, "row", "have", f"its row in {parent}", at_cut=at_cut)


def _rule(
    identifiers: Sequence[str],
    broken: Callable[[Tables], Sql],
    noun: str,
    verb: str,
    expected: str,
    *,
    at_cut: bool = False,
) -> Rule:
    def rule(runtime: LakeRuntime, earlier: Sequence[float]) -> Outcome:
        snapshots = _snapshots(runtime, identifiers, at_cut=at_cut)
        if snapshots is None:
            return Outcome(True, "A table has no rows yet.")
        catalog = runtime.lake.catalog.name
        frame = runtime.sessions.root().sql(
            broken({name: table_at(catalog, name, snapshot) for name, snapshot in snapshots.items()})
        )
        number = frame.count()
        figures = {"broken": number, "snapshots": {name: str(one) for name, one in snapshots.items()}}
        if not number:
            return Outcome(True, f"Every {noun} {_singular(verb)} {expected}.", figures)
        figures["examples"] = "\n".join(
            ", ".join(f"{name}={value}" for name, value in row.asDict().items())
            for row in frame.limit(MOST_SHOWN).collect()
        )
        state = f"{many(number, noun)} {does(number, 'do')} not {verb} {expected}."
        return Outcome(False, state, figures)

    return rule


def _singular(verb: str) -> str:
    return {"have": "has"}.get(verb, f"{verb}s")


def _snapshots(runtime: LakeRuntime, identifiers: Sequence[str], *, at_cut: bool) -> dict[str, int] | None:
    """The snapshot at which each table is read; None while one has none."""
    tables = {name: load_table(runtime.catalog, name) for name in identifiers}
    found = {name: table for name, table in tables.items() if table is not None and table.current_snapshot()}
    if len(found) < len(tables):
        return None
    if not at_cut:
        heads = {name: current_snapshot(table) for name, table in found.items()}
        return {name: head.snapshot_id for name, head in heads.items() if head is not None}
    if (cut := newest_cut(found)) is None:
        raise LakeError(f"{' and '.join(identifiers)} have no consistent cut in common yet.")
    return cut[1]


def _columns(names: Sequence[str]) -> Sql:
    return joined(", ", (quoted(name) for name in names))


def _all_known(columns: Mapping[str, str] | Sequence[str]) -> Sql:
    return joined(" AND ", (sql("{column} IS NOT NULL", column=name) for name in columns))
