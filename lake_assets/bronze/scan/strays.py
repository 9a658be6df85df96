"""The strays of a source's location: files of unknown tables, files that DMS did not write, empty files.

Here: storing the newest scan's strays in the lake, so that they can be shown without a scan. Not here: recognising them
(`discovery.py`), the check and the line of `status` (`orchestration/checks/stray_check.py`, `commands/show/status.py`).
"""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from lake_assets.iceberg.findings import Findings
from lake_assets.words import does, many

KIND = "strays"
MAX_KEYS = 1000
"""Limit of the keys that are stored for a source; of further strays, only the number is stored."""
EMPTY = "it is empty (0 bytes), and DMS writes no such file: have it written again, or remove it"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Strays:
    """The strays of one source."""

    keys: Mapping[str, str]
    """The first strays, with the reason."""
    number: int
    since: datetime | None = None
    """UTC; None where there are none."""

    @property
    def sentence(self) -> str:
        """The number of strays, as a sentence."""
        if not self.number:
            return "every file in the location is of a configured table"
        return f"{many(self.number, 'file')} in the location {does(self.number, 'are')} in no table"

    def lines(self, most: int) -> list[str]:
        """A line for each of the first strays, and one for the others."""
        shown = [f"{key}: {reason}" for key, reason in [*self.keys.items()][:most]]
        return shown + ([f"and {self.number - len(shown):,} more"] if self.number > len(shown) else [])


def merged(
    before: Mapping[str, str], found: Mapping[str, str], seen: Collection[str], keys: Collection[str] | None
) -> dict[str, str]:
    """The strays after a scan that may have listed only a part: those it found, and the known ones among the keys it
    has not `seen`. `keys`: all keys of the location, if they are known."""
    still = {
        key: reason for key, reason in before.items() if key not in seen and (keys is None or key in keys)
    }
    return dict(sorted({**still, **found}.items()))


class StrayLog:
    """The newest strays of each source. May be shared between threads."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        # Saves calls of the catalog: a process that scans twice a second finds the same strays each time.
        self._noted: dict[str, dict[str, str]] = {}

    def note(
        self, source: str, found: Mapping[str, str], seen: Collection[str], keys: Collection[str] | None
    ) -> None:
        """Stores the strays that a scan found, by key with the reason. Never raises: the scan's new files are logged
        already."""
        try:
            before = self._noted[source] if source in self._noted else dict(self.of(source).keys)
            after = merged(before, found, seen, keys)
            if after != self._noted.get(source):
                kept = dict([*after.items()][:MAX_KEYS])
                self._findings.note(KIND, source, {"keys": kept, "number": len(after)} if after else {})
                self._noted[source] = after
        except Exception:  # the disk is full, or another process was faster: the next scan tries again
            logger.debug("strays of %s could not be recorded", source, exc_info=True)

    def of(self, source: str) -> Strays:
        """The strays as of the newest scans."""
        known = self._findings.of(KIND).get(source)
        if known is None:
            return Strays({}, 0)
        return Strays(known.content["keys"], known.content["number"], known.at)
