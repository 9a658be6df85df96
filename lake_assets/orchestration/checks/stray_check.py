"""The asset check of a source: every file in its location is of a configured table.

Here: the check, by the newest looks, and its evaluation where nothing runs. Not here: finding such files
(`bronze/scan/strays.py`).
"""

import dagster as dg

from lake_assets.bronze.scan.strays import Strays
from lake_assets.orchestration.checks.check_history import latest_evaluation
from lake_assets.runtime import LakeRuntime

KNOWN_FILES = "known_files"
MOST_SHOWN = 100


def strays_check(runtime: LakeRuntime, source: str, batch: dg.AssetKey) -> dg.AssetChecksDefinition:
    """The check of a source, on the asset that stands for its tables' turn."""

    @dg.asset_check(
        asset=batch,
        name=KNOWN_FILES,
        description=(
            "Every file in the source's location is of a configured table, and none is empty. The metadata has the "
            "keys of the others, which no table has anything of."
        ),
    )
    def known_files() -> dg.AssetCheckResult:
        return _result(runtime.strays.of(source))

    return known_files


def strays_evaluation(
    instance: dg.DagsterInstance, runtime: LakeRuntime, source: str, batch: dg.AssetKey
) -> dg.AssetCheckEvaluation | None:
    """The check's evaluation if the newest one says something else; None if it says the same."""
    found = runtime.strays.of(source)
    last = latest_evaluation(instance, dg.AssetCheckKey(batch, KNOWN_FILES))
    is_news = found.since is not None and last is not None and last.at < found.since.timestamp()
    if last is not None and last.passed is not bool(found.number) and not is_news:
        return None
    result = _result(found)
    return dg.AssetCheckEvaluation(
        asset_key=batch,
        check_name=KNOWN_FILES,
        passed=result.passed,
        metadata=result.metadata,
        severity=result.severity,
    )


def _result(found: Strays) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        passed=not found.number,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={
            "files": found.number,
            "keys": dg.MetadataValue.text("\n".join(found.lines(MOST_SHOWN))),
            "state": found.sentence,
        },
    )
