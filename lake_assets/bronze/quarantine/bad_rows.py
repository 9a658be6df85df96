"""The errors that stop a table for bad or missing rows.

Here: naming the file, the row and the fault. Not here: deciding that a row is bad (`bronze/decode/changes.py`), or
counting a file's rows (`bronze/files/inspect.py`).
"""

from collections.abc import Mapping, Sequence
from typing import NoReturn

from lake_assets.bronze.files.keys import TRANSACTIONS
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.errors import RowCountMismatch, TableStopped
from lake_assets.words import many


def stop_for_bad_rows(
    table: str, total: int, limit: str, named: Sequence[tuple[LoggedFile, str, Sequence[tuple[int, str]]]]
) -> NoReturn:
    """Raises TableStopped. `limit`: the setting that `total` rows exceed, with its value; `named`: some of the rows,
    each with its place (from 0) and reason, by file and its address."""
    faults = []
    for file, address, rows in named:
        # In a transaction file, places count the rows of this table only.
        of = f"those of {table} in " if file.format == TRANSACTIONS else ""
        for number, (place, reason) in enumerate(rows):
            faults.append(f"row {place + 1}{'' if number else f' of {of}{address}'}: {reason}")
    more = total - len(faults)
    also = f"; and {more} more" if more > 0 else ""
    in_all = f"{many(total, 'row')}{' in all' if total > 1 else ''}"
    raise TableStopped(
        table,
        f"{'; '.join(faults)}{also} ({in_all}; {limit}).",
        "Nothing of this batch was published. Correct the table's columns in lake.yaml, have DMS write the file again, "
        "or raise the limit to continue without such rows.",
    )


def refuse_missing_rows(table: str, counted: Mapping[str, int], seen: Mapping[str, int]) -> None:
    """Raises RowCountMismatch for the first file of which not as many rows were read as by its own count. `counted`,
    `seen`: by address."""
    for address, rows in counted.items():
        if (read := seen.get(address, 0)) != rows:
            raise RowCountMismatch(
                table,
                f"{address} holds {many(rows, 'row')} by its own count, the reader saw {read}. Nothing of this batch "
                "was published.",
                "A file that was still being written is read whole by the next run; if this repeats, look for an empty "
                "line or an unpaired quote in it.",
            )
