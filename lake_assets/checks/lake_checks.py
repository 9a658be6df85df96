"""The checks of every table of a lake: those that each table has, and those that lake.yaml declares.

Here: which checks there are. Not here: what each does (the modules of the rules).
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from lake_assets.checks.data_check import DataCheck, Rule
from lake_assets.checks.landed_rules import files_arrive, files_have_their_rows
from lake_assets.checks.mart_rules import follows_its_inputs, has_its_rows
from lake_assets.checks.quarantine_rule import quarantine_grows_less
from lake_assets.checks.reconcile_rule import equals_files
from lake_assets.checks.row_rules import is_unique, refers_to, rows_meet
from lake_assets.checks.schema_rules import same_columns
from lake_assets.checks.source_rules import equals_source, rows_at_source
from lake_assets.checks.total_rules import drifts_less, equals_input
from lake_assets.checks.upkeep_rule import maintenance_keeps_up
from lake_assets.config import LakeConfig, Mode, TableCheck
from lake_assets.config.base import did_you_mean
from lake_assets.errors import LakeError
from lake_assets.gold.mart import Mart
from lake_assets.silver.table.targets import Target
from lake_assets.spark.sql import joined, sql

ONE_ROW_A_KEY = frozenset({Mode.CURRENT, Mode.SOFT_DELETE})
READ_HEALTH = "read_health"
LIKE_THE_SOURCE = frozenset({Mode.CURRENT, Mode.FULL_ROW})


def lake_checks(lake: LakeConfig, targets: Sequence[Target], marts: Sequence[Mart]) -> list[DataCheck]:
    """All checks of the lake. Raises LakeError for an impossible check of a mart."""
    _refuse_unknown_marts(lake, marts)
    of_sources = (
        chain(_bronze_checks(lake, target), _silver_checks(lake, target, targets))
        for target in targets
        # The files of the further shapes are the same.
        if target.mode is target.config.mode
    )
    of_shapes = ([_read_health(lake, target)] for target in targets if target.mode is not target.config.mode)
    of_marts = (_mart_checks(lake, mart) for mart in marts)
    return [check for found in chain(of_sources, of_shapes, of_marts) for check in found]


def _bronze_checks(lake: LakeConfig, target: Target) -> Iterator[DataCheck]:
    source, table = target.source, target.table
    key, checks = (*target.key_prefix, "bronze", source, target.name), target.config.checks
    yield _check(
        lake,
        key,
        "row_count",
        "Each file of the newest day has the rows that it had when it was logged.",
        files_have_their_rows(source, table),
        checks.get("bronze_row_count"),
    )
    yield _check(
        lake,
        key,
        "freshness",
        "A new file arrives within freshness.max_quiet, if it is set.",
        files_arrive(source, table, target.freshness.max_quiet),
        checks.get("bronze_freshness"),
        needs_rows=False,
        lenient=True,
    )


def _silver_checks(lake: LakeConfig, target: Target, targets: Sequence[Target]) -> Iterator[DataCheck]:
    declared = dict(target.config.checks)
    if target.mode in ONE_ROW_A_KEY:
        description = f"No two rows have the same {', '.join(target.key)}."
        rule = is_unique(target.identifier, target.key)
        yield _check(lake, target.asset_key, "unique_key", description, rule, declared.get("unique_key"))
    if required := [column.name for column in target.columns if column.required]:
        known = joined(" AND ", (sql("{column} IS NOT NULL", column=name) for name in required))
        description = f"No row has a NULL in a column that is declared not null: {', '.join(required)}."
        rule = rows_meet(target.identifier, known, target.key)
        yield _check(lake, target.asset_key, "not_null", description, rule, declared.get("not_null"))
    growth = lake.checks.quarantine_growth
    yield _check(
        lake,
        target.asset_key,
        "quarantine_growth",
        f"At most {growth.most} of the rows and files of the table were quarantined within {growth.within}.",
        quarantine_grows_less(target, growth),
        declared.get("quarantine_growth"),
        lenient=True,
    )
    yield _read_health(lake, target)
    if lake.sources[target.source].database is not None:
        description = f"The columns and the key are those of {target.table} in the source."
        rule = same_columns(target)
        yield _check(lake, target.asset_key, "same_columns", description, rule, declared.get("same_columns"))
    if lake.sources[target.source].database is not None and target.mode in LIKE_THE_SOURCE:
        rows = rows_at_source(target)
        description = f"The row count and the checksums of the columns are those of {rows} in the source."
        rule = equals_source(target)
        yield _check(
            lake, target.asset_key, "equals_source", description, rule, declared.get("equals_source")
        )
    if lake.checks.reconcile is not None and target.mode is Mode.CURRENT:
        description = (
            "The rows are those that the table's files give, cell by cell, in the slices that are due."
        )
        rule = equals_files(target, lake.checks.reconcile)
        yield _check(lake, target.asset_key, "equals_files", description, rule, declared.get("equals_files"))
    for name, settings in declared.items():
        if settings.rules:
            rule, description = _declared(lake, target, targets, settings)
            yield _check(lake, target.asset_key, name, description, rule, settings)


def _declared(
    lake: LakeConfig, target: Target, targets: Sequence[Target], settings: TableCheck
) -> tuple[Rule, str]:
    """The rule that lake.yaml declares for a silver table, and what it says."""
    if (reference := settings.references) is not None:
        parent = next(t for t in targets if t.source == target.source and t.table == reference.table)
        at_cut = lake.sources[target.source].consistent_cut is not None
        rule = refers_to(target.identifier, reference.columns, parent.identifier, target.key, at_cut=at_cut)
        return rule, f"Every row has its row in {parent.identifier}: {_pairs(reference.columns)}."
    return _of_one_table(target.identifier, settings, target.key)


def _of_one_table(identifier: str, settings: TableCheck, key: Sequence[str]) -> tuple[Rule, str]:
    if settings.rows is not None:
        return rows_meet(identifier, settings.rows, key), f"Every row meets: {settings.rows}"
    if settings.unique:
        return is_unique(
            identifier, settings.unique
        ), f"No two rows have the same {', '.join(settings.unique)}."
    assert settings.total is not None, "lake.yaml is validated"
    assert settings.drift is not None, "lake.yaml is validated"
    rule = drifts_less(identifier, settings.total, settings.drift)
    return rule, f"{settings.total} differs from its usual value by at most {settings.drift:.0%}."


def _mart_checks(lake: LakeConfig, mart: Mart) -> Iterator[DataCheck]:
    declared, key = lake.gold.checks.get(mart.name, {}), mart.asset_key
    yield _check(
        lake,
        key,
        "row_count",
        "The mart's data files have the rows that its newest snapshot names, and no other writer has changed them.",
        has_its_rows(mart.identifier),
        declared.get("row_count"),
        needs_rows=False,
    )
    longest = lake.checks.mart_max_pending_age
    yield _check(
        lake,
        key,
        "freshness",
        f"No change of the mart's inputs waits longer than {longest} to be in the mart.",
        follows_its_inputs(mart, longest),
        declared.get("freshness"),
        needs_rows=False,
        lenient=True,
    )
    yield _read_health(lake, mart)
    for name, settings in declared.items():
        if settings.references is not None:
            raise LakeError(
                f"gold.checks.{mart.name}.{name}: references is for silver tables; use rows or total."
            )
        if settings.equals is not None and settings.of is not None and settings.total is not None:
            if settings.of not in mart.inputs:
                near = did_you_mean(settings.of, mart.inputs)
                raise LakeError(
                    f"gold.checks.{mart.name}.{name}: {settings.of} is not an input of the mart{near}."
                )
            rule = equals_input(mart, settings.total, settings.of, settings.equals)
            description = f"{settings.total} is {settings.equals} of {settings.of}."
            yield _check(lake, key, name, description, rule, settings)
        elif settings.rules:
            rule, description = _of_one_table(mart.identifier, settings, ())
            yield _check(lake, key, name, description, rule, settings)


def _read_health(lake: LakeConfig, table: Target | Mart) -> DataCheck:
    if isinstance(table, Mart):
        rule, declared = maintenance_keeps_up(table.identifier), lake.gold.checks.get(table.name, {})
    else:
        rule, declared = maintenance_keeps_up(table.identifier, table.partition_by), table.config.checks
    return _check(
        lake,
        table.asset_key,
        READ_HEALTH,
        "Maintenance keeps up: the table has not reached twice the limits at which it is maintained. The metadata has "
        "what a full scan opens, and about how many times as long it takes as that of a fresh copy.",
        rule,
        declared.get(READ_HEALTH),
        lenient=True,
    )


def _check(
    lake: LakeConfig,
    key: tuple[str, ...],
    name: str,
    description: str,
    rule: Rule,
    settings: TableCheck | None,
    *,
    needs_rows: bool = True,
    lenient: bool = False,
) -> DataCheck:
    given = settings or TableCheck()
    return DataCheck(
        key,
        name,
        given.description or description,
        rule,
        given,
        given.schedule or (lake.checks.schedule if needs_rows else None),
        needs_rows,
        lenient,
    )


def _refuse_unknown_marts(lake: LakeConfig, marts: Sequence[Mart]) -> None:
    known = [mart.name for mart in marts]
    for name in lake.gold.checks:
        if name not in known:
            raise LakeError(f"gold.checks.{name}: the lake has no such mart{did_you_mean(name, known)}.")


def _pairs(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{own} = {other}" for own, other in columns.items())
