"""The errors a user of the lake can meet. Each message names table, file and line where there are any, what was
expected, and what to do next. Not here: errors of lake.yaml (`config/config_file.py`) and of the machine
(`spark/preflight.py`)."""

from collections.abc import Iterator, Sequence


class LakeError(Exception):
    """Base of every error that is about the lake's data rather than about this program."""


class CatalogUnavailable(LakeError):
    """The catalog cannot be reached, or refuses who asks. Nothing of the lake can be read or written."""


class TableStopped(LakeError):
    """One table cannot go on without a decision; nothing of the batch was published. Other tables are unaffected."""

    def __init__(self, table: str, reason: str, next_step: str) -> None:
        super().__init__(f"{table}: {reason} {next_step}")
        self.table = table
        self.reason = reason
        self.next_step = next_step

    @classmethod
    def of_all(cls, stops: "Sequence[TableStopped]") -> "TableStopped":
        """One for everything that is wrong, each sentence once."""
        if len(stops) == 1:
            return stops[0]
        reasons, steps = (
            " ".join(dict.fromkeys(texts))
            for texts in ((stop.reason for stop in stops), (stop.next_step for stop in stops))
        )
        return cls(stops[0].table, reasons, steps)


class SparkLost(LakeError):
    """Spark died while it was asked, or did not tell what it had seen. Nothing of what it did need have been published;
    what was, is seen when the table is planned again."""


class ApplyConflict(LakeError):
    """Another run published to the same table first, again and again. Nothing was applied twice."""


class StateUnknown(TableStopped):
    """The files of a batch do not determine the state of a row; other logged files may."""


class RowCountMismatch(TableStopped):
    """The rows of a batch do not add up; it was not published."""


class PartitionMismatch(LakeError):
    """A mart produced rows outside the partitions that its run was asked for; nothing was written."""


class ColumnMismatch(LakeError):
    """The columns of a frame, of what its asset declares and of its table are not the same; nothing was written."""


class DocumentError(LakeError):
    """A document of another tool cannot be used: it is something else than it should be, or incomplete."""


def with_causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error, what it was raised from, and so on."""
    while error is not None:
        yield error
        error = error.__cause__
