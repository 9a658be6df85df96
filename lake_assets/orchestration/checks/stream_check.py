"""The asset check of a source with a stream: what the stream has lands in time.

Here: the check, and its evaluation while nothing runs. Not here: asking the stream (`bronze/stream/backlog.py`).
"""

import dagster as dg

from lake_assets.bronze.stream.backlog import Backlog
from lake_assets.bronze.stream.clients import Unread
from lake_assets.runtime import LakeRuntime

STREAM_LAG = "stream_lag"


def stream_check(runtime: LakeRuntime, source: str, batch: dg.AssetKey) -> dg.AssetChecksDefinition:
    """The check of a source, on its batch asset."""

    @dg.asset_check(
        asset=batch,
        name=STREAM_LAG,
        description=(
            "No message of the source's stream has waited for longer than `freshness.max_pending_age` of the source "
            "without having landed, and none has expired."
        ),
    )
    def stream_lag() -> dg.AssetCheckResult:
        found = stream_evaluation(runtime, source, batch)
        return dg.AssetCheckResult(passed=found.passed, metadata=found.metadata)

    return stream_lag


def stream_evaluation(runtime: LakeRuntime, source: str, batch: dg.AssetKey) -> dg.AssetCheckEvaluation:
    """The check's evaluation now."""
    config = runtime.lake.sources[source]
    assert config.stream is not None
    found = runtime.backlogs.of(source, config.stream)
    return dg.AssetCheckEvaluation(
        asset_key=batch,
        check_name=STREAM_LAG,
        passed=not found.is_late(config.freshness.max_pending_age),
        metadata=_metadata(found),
    )


def _metadata(found: Backlog) -> dict[str, dg.MetadataValue]:
    known: dict[str, dg.MetadataValue] = {"state": dg.MetadataValue.text(found.sentence)}
    if found.asked is None:
        return known
    known |= {
        "shards": dg.MetadataValue.int(len(found.shards)),
        "shards_waiting": dg.MetadataValue.int(len(found.waiting)),
        "oldest_message_seconds": dg.MetadataValue.float(round(found.seconds, 3)),
        "gaps": dg.MetadataValue.int(found.transactions.gaps),
        "changes_again": dg.MetadataValue.int(found.transactions.again),
        "changes_again_last_minute": dg.MetadataValue.int(found.again_lately),
    }
    if (gap := found.transactions.gap_sentence) is not None:
        known["last_gap"] = dg.MetadataValue.text(gap)
    if (left := found.seconds_left) is not None:
        known["seconds_until_it_expires"] = dg.MetadataValue.float(round(left, 3))
    if rows := [_row(shard) for shard in (*found.silent, *found.waiting)]:
        known["waiting"] = dg.MetadataValue.table(rows)
    return known


def _row(shard: Unread) -> dg.TableRecord:
    since = "" if shard.since is None else f"{shard.since:%Y-%m-%d %H:%M:%S} UTC"
    return dg.TableRecord(
        {
            "shard": shard.shard,
            "oldest message": f"no answer; nothing has landed since {since}" if shard.is_silent else since,
            "messages": "" if shard.messages is None else f"{shard.messages:,}",
        }
    )
