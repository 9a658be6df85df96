"""How long changes took from the source's commit to the bucket, and from there to silver.

Each batch's commit records when the oldest of its files was written and when the oldest of its changes was committed,
and the batch log has it, too. A batch with files that were there before the lake first looked at the table records
neither: their age is not the lake's. Here: the properties, and spreads. Not here: reading those of silver back
(`silver/batch_log/batch_row.py`), what a mart adds (`gold/mart_latency.py`), printing. Times are UTC; S3 gives an
object's time in whole seconds.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import quantiles

from lake_assets.iceberg.table_io import RESTAMP_OF

FIRST_FILE = "lake.first-file-at"
FIRST_COMMIT = "lake.first-commit-at"


@dataclass(frozen=True, slots=True)
class Passage:
    """The times of a commit's oldest change on its way from the source to readers."""

    landed: datetime
    """When the oldest file was written."""
    shown: datetime
    """When the rows became readable."""
    committed: datetime | None = None
    """The source's oldest commit; None without a timestamp column."""

    @property
    def from_file(self) -> float:
        """Seconds."""
        return (self.shown - self.landed).total_seconds()

    @property
    def from_commit(self) -> float | None:
        """Seconds."""
        return None if self.committed is None else (self.shown - self.committed).total_seconds()

    @property
    def to_file(self) -> float | None:
        """Seconds from the commit to the file: what DMS took."""
        return None if self.committed is None else (self.landed - self.committed).total_seconds()

    def metadata(self) -> dict[str, float]:
        """The seconds, as an asset's metadata."""
        found = {
            "latency_commit_to_file_seconds": self.to_file,
            "latency_file_to_table_seconds": self.from_file,
            "latency_commit_to_table_seconds": self.from_commit,
        }
        return {name: round(value, 3) for name, value in found.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Spread:
    """Quantiles, in seconds."""

    p50: float
    p90: float
    p99: float
    max: float

    @classmethod
    def of(cls, values: Iterable[float | None]) -> "Spread | None":
        """The quantiles of the values; None without values."""
        found = sorted(value for value in values if value is not None)
        if not found:
            return None
        cuts = quantiles(found, n=100, method="inclusive") if len(found) > 1 else found * 99
        return cls(*(round(value, 2) for value in (cuts[49], cuts[89], cuts[98], found[-1])))


def properties(landed: datetime | None, committed: datetime | None) -> dict[str, str]:
    """The summary properties of a batch."""
    found = {FIRST_FILE: landed, FIRST_COMMIT: committed}
    return {name: at.astimezone(UTC).isoformat() for name, at in found.items() if at is not None}


def oldest(summaries: Iterable[Mapping[str, str]], shown: datetime) -> Passage | None:
    """The passage of the oldest change of some commits, readable at `shown`; None without CDC files among them."""
    given = [found for found in summaries if RESTAMP_OF not in found]
    landed = [datetime.fromisoformat(found[FIRST_FILE]) for found in given if FIRST_FILE in found]
    committed = [datetime.fromisoformat(found[FIRST_COMMIT]) for found in given if FIRST_COMMIT in found]
    return Passage(min(landed), shown, min(committed, default=None)) if landed else None
