"""The sensor of an output: alarms, or a warehouse.

Its ticks are no part of a run: a webhook or a warehouse that is dead or slow fails no run and delays none, and it
follows the commits of every run. Here: the sensor, and the checks of the tables that an output shows. Not here: what it
does (`outputs/`).
"""

from collections.abc import Iterator, Mapping

import dagster as dg

from lake_assets.lake import Lake
from lake_assets.orchestration.checks.data_checks import ON_SCHEDULE
from lake_assets.orchestration.sensors.freshness_sensor import news
from lake_assets.orchestration.shared.asset_keys import prefixed
from lake_assets.outputs.output import Followed, Output, Shown

LONGEST = 30.0
"""Seconds after which a look ends: Dagster drops a tick after 60."""


def output_sensor(lake: Lake, output: Output) -> dg.SensorDefinition:
    """The sensor of an output; running by default. Its tick fails while something cannot be done."""
    keys = asset_keys(lake, output)

    @dg.sensor(
        name=prefixed(lake.config, output.name),
        # Not `target`, whose job takes no marts with partitions of different lengths.
        asset_selection=dg.AssetSelection.assets(*keys.values()),
        minimum_interval_seconds=int(output.every),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=output.description,
    )
    def follow(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        followed = output.follow()
        for evaluation in news(context.instance, _evaluations(output, keys, followed)):
            context.instance.report_runless_asset_event(evaluation)
        if followed.problems:
            raise dg.Failure("; ".join(followed.problems))
        return dg.SkipReason("; ".join(followed.done) or "nothing is new")

    return follow


def output_checks(lake: Lake, output: Output) -> dg.AssetChecksDefinition:
    """The checks of an output that shows tables: it lacks no commit for long."""
    keys = asset_keys(lake, output)
    specs = [
        dg.AssetCheckSpec(
            name=_check_name(output),
            asset=key,
            description=f"{output.name.capitalize()} has lacked no commit for longer than its `max_lag`.",
            # A run of a batch must not wait for the warehouse.
            metadata={ON_SCHEDULE: "never"},
        )
        for key in keys.values()
    ]

    @dg.multi_asset_check(name=prefixed(lake.config, _check_name(output)), specs=specs, can_subset=True)
    def shown(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        wanted = {check.asset_key for check in context.selected_asset_check_keys}
        for evaluation in _evaluations(output, keys, output.look()):
            if evaluation.asset_key in wanted:
                yield dg.AssetCheckResult(
                    asset_key=evaluation.asset_key,
                    check_name=evaluation.check_name,
                    passed=evaluation.passed,
                    severity=evaluation.severity,
                    metadata=evaluation.metadata,
                )

    return shown


def asset_keys(lake: Lake, output: Output) -> Mapping[str, dg.AssetKey]:
    """By Iceberg table of the output, its asset."""
    known = {target.identifier: dg.AssetKey(target.asset_key) for target in lake.targets}
    known |= {mart.identifier: dg.AssetKey(mart.asset_key) for mart in lake.marts}
    return {name: known[name] for name in output.tables()}


def _check_name(output: Output) -> str:
    return f"in_{output.name}"


def _evaluations(
    output: Output, keys: Mapping[str, dg.AssetKey], followed: Followed
) -> list[dg.AssetCheckEvaluation]:
    return [
        dg.AssetCheckEvaluation(
            asset_key=keys[name],
            check_name=_check_name(output),
            passed=not shown.is_late,
            severity=dg.AssetCheckSeverity.WARN,
            metadata=_metadata(shown),
        )
        for name, shown in followed.tables.items()
    ]


def _metadata(shown: Shown) -> dict[str, dg.MetadataValue]:
    found: dict[str, dg.MetadataValue] = {"lag_seconds": dg.MetadataValue.float(round(shown.lag_seconds, 3))}
    if shown.behind_since is not None:
        found["behind_since"] = dg.MetadataValue.timestamp(shown.behind_since)
    if shown.reason is not None:
        found["reason"] = dg.MetadataValue.text(shown.reason)
    return found
