"""The marts that lake.yaml names, and what they need from silver.

Here: importing them, the versions of their code, and the columns that silver must track for them. Not here: Dagster
(`orchestration/assets/mart_assets.py`).
"""

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from lake_assets.config import LakeConfig, Mode
from lake_assets.errors import LakeError
from lake_assets.gold.changed_periods import WITHIN
from lake_assets.gold.consumption import fingerprint
from lake_assets.gold.mart import Input, Mart
from lake_assets.gold.periods.grain import Grain
from lake_assets.gold.sql_mart import SqlQuery, sql_mart
from lake_assets.silver.table.targets import Target, Tracked, lake_targets

FORMER_NAMES = {
    f"lake_assets.gold.{name}": f"lake_assets.demo.marts.{name}"
    for name in ("racks_empty_now", "station_daily", "trip_revenue_daily")
}
"""Former modules of marts, which an older lake.yaml may name."""
HOUR_TYPES = ("timestamptz", "timestamp")
DAY_TYPES = (*HOUR_TYPES, "date")
TRACKED_MODES = (Mode.CURRENT, Mode.CHANGE_LOG, Mode.APPEND_LOG)
"""The modes whose batches name the periods that they touch."""


def load_marts(lake: LakeConfig) -> list[Mart]:
    """The marts of `gold.marts`. Raises LakeError naming an entry that cannot be used."""
    return [load_mart(entry) for entry in lake.gold.marts]


def load_mart(entry: str) -> Mart:
    """The mart of a `.sql` file, or the `MART` of a module or a `.py` file. A `.sql` file of a package may be named
    like a module. Raises LakeError."""
    if entry.endswith(".sql"):
        return _from_sql(entry)
    if (in_package := _sql_in_package(entry)) is not None:
        return _from_sql(in_package)
    try:
        module = _from_file(entry) if entry.endswith(".py") else _imported(entry)
        mart = module.MART
    except Exception as error:
        # The message names the mart first, whatever the code raises.
        raise LakeError(
            f"gold.marts: {entry} cannot be used as a mart: {_place(error)}{error}. It must define MART: correct it, "
            "or take it out of gold.marts."
        ) from error
    if not isinstance(mart, Mart):
        raise LakeError(f"gold.marts: MART of {entry} is {type(mart).__name__}; it must be a Mart.")
    return mart


def _place(error: Exception) -> str:
    """Where the mart's code fails, and with which error; empty if no code of it has run."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return f"{error.filename}, line {error.lineno}: "
    own = (__file__, importlib.__file__)
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename not in own and not frame.filename.startswith("<frozen "):
            return f"{frame.filename}, line {frame.lineno}: {type(error).__name__}: "
    return ""


def _sql_in_package(entry: str) -> str | None:
    """The path of `orders_daily.sql` in the package `shop.marts`, for `shop.marts.orders_daily`; None without one."""
    package, _, name = entry.rpartition(".")
    try:
        spec = importlib.util.find_spec(package) if package and not entry.endswith(".py") else None
    except (ImportError, ValueError):
        return None
    folders = spec.submodule_search_locations if spec is not None else None
    files = (Path(folder, f"{name}.sql") for folder in folders or ())
    return next((str(file) for file in files if file.is_file()), None)


def _from_sql(path: str) -> Mart:
    try:
        return sql_mart(path)
    except (OSError, ValueError) as error:
        raise LakeError(f"gold.marts: {path} cannot be used as a mart: {error}") from error


def code_version(mart: Mart) -> str | None:
    """A hash of the module or `.sql` file that computes the mart; None if it has no source."""
    if isinstance(mart.compute, SqlQuery):
        return fingerprint({"source": mart.compute.text})
    try:
        module = inspect.getmodule(mart.compute)
        source = inspect.getsource(module) if module is not None else None
    except (OSError, TypeError):
        return None
    return None if source is None else fingerprint({"source": source})


def _imported(module: str) -> ModuleType:
    return importlib.import_module(FORMER_NAMES.get(module, module))


def _from_file(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path, path)
    assert spec is not None, "the path ends with .py"
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Where `inspect` looks for the source, from which the code version follows.
    sys.modules[path] = module
    spec.loader.exec_module(module)
    return module


def tracked_columns(marts: Sequence[Mart], lake: LakeConfig) -> dict[tuple[str, str], Tracked]:
    """By (source, silver table), the columns whose touched days or hours silver must record in its commits: columns
    that a mart follows and by which the table is not partitioned finely enough. Raises LakeError for inputs that the
    lake does not have."""
    targets = {(target.source, target.name): target for target in lake_targets(lake)}
    wanted: dict[tuple[str, str], tuple[set[str], set[str]]] = {}
    by_partition: set[tuple[str, str]] = set()
    for mart in marts:
        for rule in mart.rules:
            target = targets.get((rule.source, rule.table))
            if target is None:
                raise LakeError(f"{mart.identifier} reads {rule.identifier}, which lake.yaml does not have.")
            if rule.column is None:
                continue
            _require_time(mart, rule, target)
            named = {f"{transform}({rule.column})" for transform in WITHIN[mart.partitions]}
            if target.mode not in TRACKED_MODES:
                continue
            days, hours = wanted.setdefault((rule.source, rule.table), (set(), set()))
            if named & set(target.partition_by):
                by_partition.add((rule.source, rule.table))
            else:
                (hours if mart.partitions is Grain.HOUR else days).add(rule.column)
    return {
        key: Tracked(tuple(sorted(days)), tuple(sorted(hours)), by_partition=key in by_partition)
        for key, (days, hours) in wanted.items()
    }


def _require_time(mart: Mart, rule: Input, target: Target) -> None:
    allowed = HOUR_TYPES if mart.partitions is Grain.HOUR else DAY_TYPES
    kind = {column.name: column.type for column in target.columns}.get(str(rule.column), "no column of it")
    if kind not in allowed:
        raise LakeError(
            f"{mart.identifier} follows {rule.column} of {rule.identifier}, which is {kind}: partitions by "
            f"{mart.partitions} need one of {', '.join(allowed)}."
        )
