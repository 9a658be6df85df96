"""The asset check of a source: every file in its location belongs to a configured table.

Here: the check of the newest scans' strays, and its evaluation while nothing runs. Not here: finding strays
(`bronze/scan/strays.py`).
"""

import dagster as dg

from lake_assets.bronze.scan.strays import Strays
from lake_assets.orchestration.checks.check_history import latest_evaluation
from lake_assets.runtime import LakeRuntime

KNOWN_FILES = "known_files"
MOST_SHOWN = 100


def strays_check(runtime: LakeRuntime, source: str, batch: dg.AssetKey) -> dg.AssetChecksDefinition:
    """The check of a source, on its batch asset."""

    @dg.asset_check(
        asset=batch,
        name=KNOWN_FILES,
        description=(
            "Every file in the source's location is of a configured table, and none is empty. The metadata has the "
            "keys of the other files, which are in no table."
        ),
    )
    def known_files() -> dg.AssetCheckResult:
        return _result(runtime.strays.of(source))

    return known_files


def strays_evaluation(
    instance: dg.DagsterInstance, runtime: LakeRuntime, source: str, batch: dg.AssetKey
) -> dg.AssetCheckEvaluation | None:
    """The check's evaluation if it differs from the newest one; otherwise None."""
    found = runtime.strays.of(source)
    last = latest_evaluation(instance, dg.AssetCheckKey(batch, KNOWN_FILES))
    is_newer = found.since is not None and last is not None and last.at < found.since.timestamp()
    if last is not None and last.passed is not bool(found.number) and not is_newer:
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
