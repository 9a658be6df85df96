"""The words for what is wrong with a row of a DMS file.

Nearly every row can be used, so a sentence is built only for a row that cannot. Here: the faults of some rows, in the
order in which they were found. Not here: finding them (`changes.py`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from lake_assets.bronze.values.exact_conversions import converted
from lake_assets.config import REDACTED, TableConfig
from lake_assets.local_times import LocalClock

NO_INSTANT: Mapping[Literal["skipped", "doubled"], str] = {
    "doubled": " is a time that the clocks of {zone} show twice: set ambiguous_times of the table to earlier or later",
    "skipped": " is a time that the clocks of {zone} skip (is timestamp_zone the source's?)",
}
"""Why a local time is no instant, after the column's name."""
SHOWN = 100
"""Characters of a value that a message quotes."""
_MOST_OF_AN_OPERATION = 20
NOT_SUPPLIED = " was not supplied by the source: have its supplemental log carry every column"
"""Why a row that lacks values cannot be used, after their columns' names."""
Reason = Callable[[int], str]
"""The fault of the row at a place."""


@dataclass(frozen=True, slots=True)
class _Fault:
    rows: pa.ChunkedArray
    reason: Reason


class Faults:
    """The faults of rows."""

    def __init__(self, rows: int, table: TableConfig, clock: LocalClock, *, explain: bool) -> None:
        """`explain`: names every fault of a row with its value, rather than the first one. No value of a table with
        masks is shown."""
        self._rows, self._table, self._clock, self._explain = rows, table, clock, explain
        self._found: list[_Fault] = []

    def add(self, rows: pa.ChunkedArray, reason: Reason | str) -> None:
        """Adds a fault to the rows for which it is true, not unknown."""
        if pc.any(rows, min_count=0).as_py():
            self._found.append(_Fault(rows, reason if callable(reason) else lambda place: reason))

    def reasons(self, unparsed: pa.ChunkedArray) -> pa.ChunkedArray:
        """The faults of each row, NULL for a row without one; of a row that could not be parsed that fault alone."""
        if not self._found:
            return unparsed
        texts: list[list[str]] = [[] for _ in range(self._rows)]
        for fault in self._found:
            for place in pc.indices_nonzero(pc.fill_null(fault.rows, False)).to_pylist():
                if self._explain or not texts[place]:
                    texts[place].append(fault.reason(place))
        found = ["; ".join(each) or None for each in texts]
        return pc.coalesce(unparsed, pa.chunked_array([pa.array(found, pa.string())]))

    def operation(self, written: pa.ChunkedArray) -> Reason:
        """For a row whose operation is unknown."""

        def reason(place: int) -> str:
            text = written[place].as_py()
            if text == "":
                return "no operation"
            return f"unknown operation {REDACTED if self._table.mask else text[:_MOST_OF_AN_OPERATION]}"

        return reason

    def misfit(self, name: str, values: pa.ChunkedArray, declared: str, what: str = "") -> Reason:
        """For a row whose value has to be `what`, by default a valid `declared`, and is not."""

        def reason(place: int) -> str:
            value = values.slice(place, 1)
            fault = self._fault(name, value, declared, what)
            # In a row with a missing or surplus delimiter, a masked value is in the place of another.
            is_shown = self._explain and not self._table.mask and not value.null_count
            return f"{fault}: '{_shown(value)}'" if is_shown else fault

        return reason

    def unreadable(self, name: str, values: pa.ChunkedArray, declared: str, *, is_text: bool) -> Reason:
        """For a row whose value is present but does not fit. `is_text`: it is the field of a CSV file."""
        misfit = self.misfit(name, values, declared)
        hint = f"{name} is empty, which is not a valid {declared} (is csv_null_value the endpoint's?)"
        return lambda place: hint if is_text and values[place].as_py() == "" else misfit(place)

    def _fault(self, name: str, value: pa.ChunkedArray, declared: str, what: str) -> str:
        if declared == "timestamptz" and not value.null_count:
            for takes, why in NO_INSTANT.items():
                if not converted(value, declared, replace(self._clock, takes=takes)).null_count:
                    return f"{name}{why.format(zone=self._clock.zone)}"
        return f"{name} is not {what or f'a valid {declared}'}"


def _shown(value: pa.ChunkedArray) -> str:
    """The text of one value, which is cut if long."""
    text = _text(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def _text(value: pa.ChunkedArray) -> str:
    if pa.types.is_binary(value.type) or pa.types.is_fixed_size_binary(value.type):
        content: bytes = value[0].as_py()
        return content.hex().upper()
    if pa.types.is_time(value.type):  # one that is no time of a day
        return str(value.cast(pa.int32() if value.type.bit_width == 32 else pa.int64())[0])
    text = converted(value, "string", LocalClock())[0].as_py()
    return str(value[0]) if text is None else str(text)
