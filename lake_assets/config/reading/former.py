"""Settings that lake.yaml once had, and that are constants now beside the code that uses them.

A lake.yaml that still has one goes on as it is: the setting is taken out before the models see it, and a warning names
it, so that nobody believes that it has an effect. Not here: the constants.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from lake_assets.config.base import Keys

ANY = "*"
"""Any name of a source."""
FORMER: Mapping[Keys, str] = {
    ("sources", ANY, "listing"): "whole_below 5000, tails 200, pages 10, threads 16 and overlap 15m",
    ("sources", ANY, "stream", "most_messages"): "50000",
    ("alarms", "timeout"): "5s",
    ("automation", "backoff_base"): "15s",
    ("automation", "backoff_max"): "15m",
    ("automation", "bronze_every"): "30s",
    ("automation", "continuous", "hand_over_after"): "6h",
    ("automation", "continuous", "hand_over_events"): "5000",
    ("automation", "continuous", "maintain_after"): "20",
    ("automation", "continuous", "report_every"): "30s",
    ("automation", "heartbeat_interval"): "5s",
    ("automation", "heartbeat_timeout"): "1m",
    ("automation", "poll_window"): "4s",
    ("checks", "history"): "14",
    ("checks", "reconcile", "slices"): "7",
    ("maintenance", "abandoned_after"): "1d",
    ("maintenance", "keep_for_marts"): "7d",
    ("maintenance", "max_snapshots"): "1000",
    ("maintenance", "min_small_files"): "5",
    ("maintenance", "target_file_size_mb"): "128",
    ("secrets", "ttl"): "5m",
}
"""By the keys of a former setting, or of a section that had nothing else, what holds now: the former default."""


def without_former(content: dict[str, Any]) -> list[tuple[Keys, str]]:
    """Takes the former settings out of the content of a lake.yaml. Returns the keys of each, and what to do."""
    return [
        (keys, f"is no longer a setting and has no effect: the lake uses {now}. Remove the line")
        for former, now in FORMER.items()
        for keys in list(_taken(content, former))
    ]


def _taken(content: Any, former: Keys, above: Keys = ()) -> Iterator[Keys]:
    if not isinstance(content, dict):
        return
    key, *below = former
    for name in list(content) if key == ANY else [key] if key in content else ():
        if below:
            yield from _taken(content[name], tuple(below), (*above, name))
        else:
            del content[name]
            yield (*above, name)
