"""A configured lake with its runtime, silver tables and marts.

Here: resolving the configuration to silver tables and marts. Not here: Dagster, whose import alone takes longer than
finding out that a lake has nothing to do (`orchestration/lake_definitions.py`).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from lake_assets.alarms.due_alarms import refuse_impossible_alarms
from lake_assets.checks.data_check import DataCheck
from lake_assets.checks.lake_checks import lake_checks
from lake_assets.config import LakeConfig
from lake_assets.errors import LakeError
from lake_assets.gold.at_cut import refuse_impossible_cuts
from lake_assets.gold.mart import Mart
from lake_assets.gold.registry import load_mart, load_marts, tracked_columns
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.table.targets import Target, lake_targets


@dataclass(frozen=True, slots=True)
class Lake:
    """A configured lake, ready to be used with or without Dagster."""

    runtime: LakeRuntime
    targets: tuple[Target, ...]
    marts: tuple[Mart, ...]
    checks: tuple[DataCheck, ...]
    """The checks that are evaluated on a schedule or by hand."""
    broken: tuple[str, ...] = ()
    """Why tables wait, why marts are left out, or why there are no checks."""

    @property
    def tables(self) -> list[str]:
        """The identifiers of silver's tables and of the marts."""
        silver = [target.identifier for target in self.targets]
        return [*silver, *(mart.identifier for mart in self.marts)]

    @property
    def config(self) -> LakeConfig:
        return self.runtime.lake


def open_lake(
    config: LakeConfig, runtime: LakeRuntime | None = None, marts: Sequence[Mart] | None = None
) -> Lake:
    """Resolves the marts, the silver tables with the columns that the marts track, and the checks. Leaves out marts of
    a table that waits for its columns (`open_tables.py`). Raises LakeError for an unusable mart, alarm or check."""
    whole = config
    config, runtime, waiting = _with_columns(config, runtime)
    found = _keyed(config, load_marts(config) if marts is None else marts)
    broken = [*waiting.values()]
    if waiting:
        found, left_out = _without(whole, found, waiting)
        broken += [f"{mart.identifier} is left out: it reads a table that waits." for mart in left_out]
        config = _without_marts(config, left_out)
        runtime.lake = config
    refuse_impossible_cuts(found, config)
    refuse_impossible_alarms(found, config)
    targets = tuple(lake_targets(config, tracked_columns(found, config)))
    checks = tuple(lake_checks(config, targets, found))
    return Lake(runtime, targets, found, checks, tuple(broken))


def _without(
    whole: LakeConfig, marts: Sequence[Mart], waiting: Collection[tuple[str, str]]
) -> tuple[tuple[Mart, ...], tuple[Mart, ...]]:
    """The marts that read no table that waits, and the others; `whole`: with these tables."""
    names = {target.identifier for target in lake_targets(whole) if (target.source, target.table) in waiting}
    left_out = tuple(mart for mart in marts if any(rule.identifier in names for rule in mart.rules))
    return tuple(mart for mart in marts if mart not in left_out), left_out


def _without_marts(config: LakeConfig, left_out: Sequence[Mart]) -> LakeConfig:
    """The configuration without checks and alarms of these marts."""
    names = {mart.name for mart in left_out}
    checks = {name: checks for name, checks in config.gold.checks.items() if name not in names}
    alarms = {name: alarm for name, alarm in config.alarms.marts.items() if name not in names}
    return config.model_copy(
        update={
            "gold": config.gold.model_copy(update={"checks": checks}),
            "alarms": config.alarms.model_copy(update={"marts": alarms}),
        }
    )


def open_runtime(config: LakeConfig) -> LakeRuntime:
    """The runtime of a lake with all columns that are known."""
    return _with_columns(config, None)[1]


def _with_columns(
    config: LakeConfig, runtime: LakeRuntime | None
) -> tuple[LakeConfig, LakeRuntime, dict[tuple[str, str], str]]:
    """The configuration and the runtime with the columns that lake.yaml leaves to the source database, and why tables
    wait for theirs."""
    runtime = runtime or LakeRuntime(config)
    if not config.open_tables:
        return config, runtime, {}
    # Imported here, because few lakes have such tables.
    from lake_assets.open_tables import with_columns

    config, waiting = with_columns(config, runtime)
    runtime.lake, runtime.waiting = config, tuple(waiting.values())
    return config, runtime, waiting


def open_without_broken_marts(config: LakeConfig, runtime: LakeRuntime | None = None) -> Lake:
    """As `open_lake`, for a command that needs no mart. If a mart, alarm or check is unusable, the lake has neither the
    unusable marts nor any checks, which may be of such a mart."""
    runtime = runtime or LakeRuntime(config)
    try:
        return open_lake(config, runtime)
    except LakeError as error:
        if runtime.lake.open_tables:  # no table has its columns
            raise
        return _without_broken_marts(runtime.lake, runtime, error)


def _without_broken_marts(config: LakeConfig, runtime: LakeRuntime, refused: LakeError) -> Lake:
    usable, broken = [], []
    for entry in config.gold.marts:
        try:
            mart = load_mart(entry)
            tracked_columns([mart], config)
        except LakeError as error:
            broken.append(str(error))
        else:
            usable.append(mart)
    targets = tuple(lake_targets(config, tracked_columns(usable, config)))
    return Lake(
        runtime,
        targets,
        _keyed(config, usable),
        (),
        (*runtime.waiting, *(broken or _refusals(config, targets, usable, refused))),
    )


def _refusals(
    config: LakeConfig, targets: Sequence[Target], marts: Sequence[Mart], refused: LakeError
) -> list[str]:
    """All reasons for which cuts, alarms or checks are refused, of marts that can be used."""
    found = []
    for rule in (
        lambda: refuse_impossible_cuts(marts, config),
        lambda: refuse_impossible_alarms(marts, config),
        lambda: lake_checks(config, targets, marts),
    ):
        try:
            rule()
        except LakeError as error:
            found.append(str(error))
    return found or [str(refused)]


def _keyed(config: LakeConfig, marts: Sequence[Mart]) -> tuple[Mart, ...]:
    """The marts with the lake's prefix in their asset keys."""
    return tuple(replace(mart, key_prefix=config.key_prefix) for mart in marts)
