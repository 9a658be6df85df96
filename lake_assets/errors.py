"""The errors that a user of the lake may see. Each message names table, file and line where known, what was expected,
and what to do next. Not here: errors of lake.yaml (`config/config_file.py`) and of the machine
(`spark/preflight.py`)."""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Self


class Remedy(StrEnum):
    """A command that ends what an error is about without a decision of the user. In the order in which they are run."""

    RECOVER = "recover"
    DETACH = "detach"
    RESTORE = "restore"
    REBUILD = "rebuild"
    REPLAY = "replay"


class LakeError(Exception):
    """Base of every error that is about the lake's data rather than about this program."""

    remedy: Remedy | None = None
    """What `lake-assets repair` does about it; None if the user has to decide or to do something first."""

    def mended_by(self, remedy: Remedy | None) -> Self:
        """The same error, with its remedy."""
        self.remedy = remedy
        return self


class CatalogUnavailable(LakeError):
    """The catalog cannot be reached, or refuses the credentials. No table can be read or written."""


class TableStopped(LakeError):
    """One table cannot continue without a decision; nothing of the batch was published. Other tables are unaffected."""

    def __init__(self, table: str, reason: str, next_step: str) -> None:
        super().__init__(f"{table}: {reason} {next_step}")
        self.table = table
        self.reason = reason
        self.next_step = next_step

    @classmethod
    def of_all(cls, stops: "Sequence[TableStopped]") -> "TableStopped":
        """One error with all reasons and steps, each sentence once."""
        if len(stops) == 1:
            return stops[0]
        reasons, steps = (
            " ".join(dict.fromkeys(texts))
            for texts in ((stop.reason for stop in stops), (stop.next_step for stop in stops))
        )
        return cls(stops[0].table, reasons, steps)


class SparkLost(LakeError):
    """Spark died during a call, or did not return its figures. It is unknown whether the batch was published; the next
    plan of the table finds out."""


class ApplyConflict(LakeError):
    """Another run published to the same table first, several times in a row. Nothing was applied twice."""


class ContractChanged(LakeError):
    """The files of a batch do not fit its contract, and a new version that fits them was recorded: plan it again."""


class UndeterminedRow(TableStopped):
    """The files of a batch do not determine a row's state; other logged files may."""


class RowCountMismatch(TableStopped):
    """The row counts of a batch do not match; it was not published."""


class NoRowsYet(LakeError):
    """An input of a mart has no rows, so that the mart cannot be computed."""


class PartitionMismatch(LakeError):
    """An asset returned rows outside the partitions that its run selected; nothing was written."""


class KeyMismatch(LakeError):
    """An asset that is written by key returned rows whose key is NULL or not unique; nothing was written."""


class ColumnMismatch(LakeError):
    """The columns of a frame, of its asset's declaration and of its table differ; nothing was written."""


class DocumentError(LakeError):
    """A document of another tool cannot be used: it has an unexpected type, or is incomplete."""


def with_causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and the chain of its causes."""
    while error is not None:
        yield error
        error = error.__cause__
