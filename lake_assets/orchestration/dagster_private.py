"""The parts of Dagster that the lake uses although they have no public name: no other module imports `dagster._core` or
`dagster._grpc`.

A release of Dagster may move or change any of them. Then the function that uses it returns None, and the caller takes
the public way, which is slower or shows less. Not here: those ways (`launcher/warm_launcher.py`,
`checks/check_history.py`).
"""

import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import dagster as dg
import sqlalchemy as sa

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger(__name__)
_missed: set[str] = set()


def _or_none(use: Callable[P, T]) -> Callable[P, T | None]:
    """Makes the function return None if this release of Dagster lacks what it uses; logs that once."""

    @wraps(use)
    def tried(*args: P.args, **kwargs: P.kwargs) -> T | None:
        try:
            return use(*args, **kwargs)
        except (ImportError, AttributeError, TypeError) as error:
            if use.__name__ not in _missed:
                _missed.add(use.__name__)
                logger.warning(
                    "Dagster %s lacks what %s uses (%s): the lake goes on without it.",
                    dg.__version__,
                    use.__name__,
                    error,
                )
            return None

    return tried


@dataclass(frozen=True, slots=True)
class Forkable:
    """A run that a process of this machine and environment can execute."""

    module: str
    folder: str | None
    arguments: list[str]
    """The arguments of Dagster's command line."""


@_or_none
def forkable(instance: dg.DagsterInstance, context: Any) -> Forkable | None:
    """How to execute the run of a launcher's context in a forked process; None if its code location is no module, or
    has another interpreter, machine or environment, as a separately started code server that listens on a port may
    have."""
    from dagster._core.code_pointer import ModuleCodePointer
    from dagster._core.remote_origin import GrpcServerCodeLocationOrigin
    from dagster._grpc.types import ExecuteRunArgs

    run, origin = context.dagster_run, context.job_code_origin
    pointer = origin.repository_origin.code_pointer if origin is not None else None
    if not isinstance(pointer, ModuleCodePointer):
        return None
    found = run.remote_job_origin.repository_origin.code_location_origin if run.remote_job_origin else None
    started_apart = isinstance(found, GrpcServerCodeLocationOrigin) and found.socket is None
    if started_apart or origin.repository_origin.executable_path not in (None, sys.executable):
        return None
    given = ExecuteRunArgs(job_origin=origin, run_id=run.run_id, instance_ref=instance.get_ref())
    arguments = list(given.get_command_args())
    return Forkable(pointer.module, pointer.working_directory, arguments[arguments.index("api") :])


@_or_none
def print_from(level: str) -> None:
    """Sets the level from which the runs of this process print their events, unless a run's config sets another: by
    default they print all. Dagster stores all, which `python_log_level` in dagster.yaml would change."""
    from dagster._core.execution import context_creation_job

    module: Any = context_creation_job
    _ = module.default_system_loggers  # to change a name that nothing reads would do nothing
    logger_of_runs = dg.colored_console_logger, {"name": "dagster", "log_level": level}
    module.default_system_loggers = lambda instance: [logger_of_runs]


@_or_none
def health(alive: bool | None, gone: str) -> Any:
    """A run launcher's answer on the health of a run. `alive`: None if that is unknown; if it is False, `gone` is the
    reason."""
    from dagster._core.launcher.base import CheckRunHealthResult, WorkerStatus

    if alive is None:
        return CheckRunHealthResult(WorkerStatus.UNKNOWN)
    return CheckRunHealthResult(WorkerStatus.RUNNING if alive else WorkerStatus.FAILED, "" if alive else gone)


@_or_none
def check_statuses(*names: str) -> set[Any]:
    """The statuses of a check's execution with these names, to select executions by."""
    from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus

    return {AssetCheckExecutionRecordStatus[name] for name in names}


@_or_none
def of_newest_materialization(
    instance: dg.DagsterInstance, evaluation: dg.AssetCheckEvaluation
) -> dg.AssetCheckEvaluation | None:
    """The evaluation, attached to the newest materialization of its asset; None if there is none. Without that, if
    another run has materialized the asset since the check's run was launched, Dagster's graph shows the check as not
    executed."""
    from dagster._core.definitions.asset_checks.asset_check_evaluation import (
        AssetCheckEvaluationTargetMaterializationData,
    )

    records = instance.fetch_materializations(evaluation.asset_key, limit=1).records
    if not records:
        return None
    newest = records[0]
    data = AssetCheckEvaluationTargetMaterializationData(
        storage_id=newest.storage_id, run_id=newest.run_id, timestamp=newest.timestamp
    )
    return dg.AssetCheckEvaluation(
        evaluation.asset_key,
        evaluation.check_name,
        evaluation.passed,
        evaluation.metadata,
        data,
        evaluation.severity,
        evaluation.description,
        evaluation.blocking,
    )


@_or_none
def evaluated_checks(
    instance: dg.DagsterInstance, assets: Sequence[dg.AssetKey]
) -> list[dg.AssetCheckKey] | None:
    """Every check of these assets that the instance has an execution of, whether or not a definition names it."""
    from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable
    from sqlalchemy import select

    keys, columns = {key.to_string(): key for key in assets}, AssetCheckExecutionsTable.c
    wanted = select(columns.asset_key, columns.check_name).where(columns.asset_key.in_(keys)).distinct()
    storage: Any = instance.event_log_storage
    with storage.index_connection() as connection:
        return sorted(dg.AssetCheckKey(keys[key], name) for key, name in connection.execute(wanted))


@dataclass(frozen=True, slots=True)
class SensorState:
    """What the daemon has stored about a sensor of a code location. Times are seconds since the epoch."""

    name: str
    location: str
    started: float
    """When the daemon first had the sensor, or a user started it."""
    last_sign: float
    """When it was last evaluated, or started."""
    previous_tick: float | None
    """When its last evaluation that has ended began."""


@_or_none
def sensor_states(instance: dg.DagsterInstance) -> list[SensorState]:
    """The states of all sensors of the instance, whichever code location they are of."""
    found = []
    for state in instance.all_instigator_state():
        data: Any = state.instigator_data
        if state.instigator_type.name == "SENSOR" and data is not None:
            started = data.last_sensor_start_timestamp or 0.0
            location = state.origin.repository_origin.code_location_origin.location_name
            last = max(started, data.last_tick_start_timestamp or 0.0)
            found.append(
                SensorState(state.instigator_name, location, started, last, data.last_tick_timestamp)
            )
    return found


@_or_none
def partitions_without_event(instance: dg.DagsterInstance, asset: dg.AssetKey) -> dict[str, str]:
    """By partition that a run was to materialize and has not reported since, the newest such run: it goes on, or has
    failed."""
    storage: Any = instance.event_log_storage
    attempts = storage.get_latest_asset_partition_materialization_attempts_without_materializations(asset)
    return {partition: run for partition, (run, _) in attempts.items() if partition is not None}


@_or_none
def step_inputs(context: dg.InputContext) -> tuple[str, dict[str, dg.AssetKey | None]]:
    """A name of the attempt at the step that loads the input, and the asset of each input of the step, by the input's
    name."""
    step = context.step_context
    assets, node = step.job_def.asset_layer, step.node_handle
    keys = {
        name: assets.get_asset_key_for_node_input(inner_node_handle=node, input_name=name)
        for name in context.op_def.ins
    }
    return f"{step.run_id} {step.step.key} {step.previous_attempt_count}", keys


@_or_none
def shows_definitions() -> bool | None:
    """Whether this process loads definitions in order to show them, not to execute a run."""
    from dagster._core.definitions.definitions_load_context import (
        DefinitionsLoadContext,
        DefinitionsLoadType,
    )

    if not DefinitionsLoadContext.is_set():
        return False
    return DefinitionsLoadContext.get().load_type is DefinitionsLoadType.INITIALIZATION


@_or_none
def replace_in_events(
    instance: dg.DagsterInstance, assets: Sequence[dg.AssetKey], change: Callable[[str], str]
) -> list[str] | None:
    """Replaces the text of every event of these assets, and of the runs that have materialized them, by what `change`
    makes of it, in all of Dagster's storage. Returns the addresses of the databases."""
    from dagster._core.storage.event_log.schema import AssetKeyTable, SqlEventLogStorageTable

    storage: Any = instance.event_log_storage
    events, assets_known = SqlEventLogStorageTable.c, AssetKeyTable.c
    keys = [asset.to_string() for asset in assets]
    found: dict[str, None] = {}

    def replaced(connection: Any, text: Any, id_: Any, which: Any) -> None:
        found[str(connection.engine.url.render_as_string(hide_password=False))] = None
        for row in connection.execute(sa.select(id_, text).where(which)).all():
            if row[1] is not None and (changed := change(row[1])) != row[1]:
                connection.execute(text.table.update().where(id_ == row[0]).values({text.name: changed}))

    with storage.index_connection() as connection:
        of_assets = events.asset_key.in_(keys)
        runs = connection.execute(sa.select(events.run_id).where(of_assets).distinct()).scalars().all()
        # The step's output has the same metadata as the materialization.
        replaced(
            connection, events.event, events.id, of_assets | events.run_id.in_([run for run in runs if run])
        )
        which = assets_known.asset_key.in_(keys)
        replaced(connection, assets_known.last_materialization, assets_known.id, which)
    # In SQLite, each run has a file of its own.
    for run in runs if hasattr(storage, "path_for_shard") else ():
        if run and Path(storage.path_for_shard(run)).exists():
            with storage.run_connection(run) as connection:
                replaced(connection, events.event, events.id, sa.true())
    return [*found]
