"""What lies in a source's location and is in no table: files of unknown tables, files that are none of DMS, empty ones.

Here: keeping the newest look's in the lake, so that they are seen without one. Not here: recognising them
(`discovery.py`), the check and the line of `status` (`orchestration/checks/stray_check.py`, `commands/show/status.py`).
"""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from lake_assets.iceberg.findings import Findings
from lake_assets.words import does, many

KIND = "strays"
MOST = 1000
"""Keys of a source that are kept; of more, the number is."""
EMPTY = "it is empty (0 bytes), and DMS writes no such file: have it written again, or remove it"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Strays:
    """Of one source."""

    keys: Mapping[str, str]
    """The first ones, with the reason."""
    number: int
    since: datetime | None = None
    """UTC; None where there are none."""

    @property
    def sentence(self) -> str:
        """How many there are."""
        if not self.number:
            return "every file in the location is of a configured table"
        return f"{many(self.number, 'file')} in the location {does(self.number, 'are')} in no table"

    def lines(self, most: int) -> list[str]:
        """A line for each of the first ones, and one for the others."""
        told = [f"{key}: {reason}" for key, reason in [*self.keys.items()][:most]]
        return told + ([f"and {self.number - len(told):,} more"] if self.number > len(told) else [])


def merged(
    before: Mapping[str, str], found: Mapping[str, str], seen: Collection[str], keys: Collection[str] | None
) -> dict[str, str]:
    """What there is after a look that need not have seen everything: what it has found, and of what was known before
    that which it has not `seen`. `keys`: all that there are, if they are known."""
    still = {
        key: reason for key, reason in before.items() if key not in seen and (keys is None or key in keys)
    }
    return dict(sorted({**still, **found}.items()))


class StrayLog:
    """The newest strays of each source. May be shared between threads."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        # Only to spare the catalog: a process that looks twice a second sees the same each time.
        self._noted: dict[str, dict[str, str]] = {}

    def note(
        self, source: str, found: Mapping[str, str], seen: Collection[str], keys: Collection[str] | None
    ) -> None:
        """Records what a look has met, by key with the reason. Never raises: what can be logged is logged already."""
        try:
            before = self._noted[source] if source in self._noted else dict(self.of(source).keys)
            after = merged(before, found, seen, keys)
            if after != self._noted.get(source):
                kept = dict([*after.items()][:MOST])
                self._findings.note(KIND, source, {"keys": kept, "number": len(after)} if after else {})
                self._noted[source] = after
        except Exception:  # the disk is full, or another process was faster: the next look tries again
            logger.debug("strays of %s could not be recorded", source, exc_info=True)

    def of(self, source: str) -> Strays:
        """As the newest looks have left them."""
        known = self._findings.of(KIND).get(source)
        if known is None:
            return Strays({}, 0)
        return Strays(known.content["keys"], known.content["number"], known.at)
