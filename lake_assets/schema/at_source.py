"""A table's contract as the source database completes it, where files show that their columns have changed but not to
what: a new column of a text file, another width of a CSV file without a header, values that outgrew their type.

Here: what the source's present columns may mean for the contract. A source that allows two explanations, or that cannot
be read, stops the table. Not here: reading the database (`storage/reflection/reflect.py`), when to ask
(`evolve.py`, `silver/write/ask_source.py`).
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from lake_assets.bronze.files.formats import contract_layout
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.config import Column, EarlierLayout, TableConfig
from lake_assets.errors import LakeError, TableStopped
from lake_assets.schema.contract import Contract
from lake_assets.schema.promotion import widens
from lake_assets.schema.spelling import listed

if TYPE_CHECKING:
    from lake_assets.storage.reflection.reflect import SourceColumn, SourceTable

_WAITS = "The table goes on by itself once the database answers"


@dataclass
class AtSource:
    """A table in its source database. It is read at most once, and only if something is asked."""

    name: str
    """`schema.table`."""
    read: Callable[[], "SourceTable | None"] | None = None
    """None without the database's address in lake.yaml."""

    @property
    def is_known(self) -> bool:
        return self.read is not None

    def column(self, name: str, why: str) -> Column:
        """The column with the source's type; it may be NULL, because older rows lack it. `why`: the beginning of a
        sentence about the file. Raises TableStopped."""
        return self._decided(self._column(name, why), why)

    def with_width(self, contract: Contract, config: TableConfig, file: LoggedFile, why: str) -> Contract:
        """The contract for a CSV file without a header, and later files, whose number of fields the contract does not
        explain: the source has added columns, or dropped some. Raises TableStopped."""
        found = self._found(why).columns
        own = {contract.renamed_from.get(column.name, column.name): column for column in contract.columns}
        own |= {column.name: column for column in contract.columns}
        columns = tuple(own.get(column.name) or self._decided(column, why) for column in found)
        added = [column.name for column in columns if contract.column(column.name) is None]
        gone = [column.name for column in contract.columns if column not in columns]
        changed = contract.model_copy(update={"columns": columns})
        width = len(contract_layout(changed.table(config), changed.dms, file.kind).columns)
        if (added and gone) or width != file.width:
            raise TableStopped(
                self.name,
                f"{why}, and at the source {_differences(added, gone)}, which does not explain it.",
                "Correct the table's columns, and list under earlier the columns that files had until a change of the "
                "source.",
            )
        if held := sorted({*contract.primary_key} & {*gone}):
            raise TableStopped(
                self.name,
                f"{why}: the source has no column {', '.join(held)} any more, which is part of the primary key.",
                "Correct primary_key in lake.yaml.",
            )
        until = f"{file.written_at:%Y%m%d-%H%M%S}{file.written_at.microsecond // 1000:03d}"
        before = EarlierLayout(until_file=until, columns=contract.columns)
        return changed.model_copy(update={"earlier": (*contract.earlier, before)})

    def widened(self, contract: Contract, why: str) -> list[Column]:
        """The columns of the contract whose type the source has widened, with the new type. Raises TableStopped."""
        found = {column.name: column for column in self._found(why).columns}
        wider = []
        for own in contract.columns:
            column = found.get(contract.renamed_from.get(own.name, own.name)) or found.get(own.name)
            if column is not None and widens(own.type, column.declared.type):
                wider.append(own.model_copy(update={"type": column.declared.type}))
        return wider

    def _column(self, name: str, why: str) -> "SourceColumn":
        columns = self._found(why).columns
        # A rule of the task's mapping may write all names in lower or upper case.
        same = [c for c in columns if c.name == name] or [
            c for c in columns if c.name.casefold() == name.casefold()
        ]
        if len(same) != 1:
            raise TableStopped(
                self.name,
                f"{why}, and {self.name} has no such column at the source now.",
                f"Add it to the table's columns with its type, or {_leave_out(name)}",
            )
        return same[0]

    def _decided(self, column: "SourceColumn", why: str) -> Column:
        if not column.declared.is_decided:
            raise TableStopped(
                self.name,
                f"{why}, and its type is open ({column.declared.comment}).",
                f"Add {column.name} to the table's columns with its type, or {_leave_out(column.name)}",
            )
        return Column(name=column.name, type=column.declared.type)

    def _found(self, why: str) -> "SourceTable":
        error, table = self._answer
        if error is not None:
            raise TableStopped(
                self.name,
                f"{why}, what the source database has to explain. {error}",
                f"{_WAITS}; or change the table's columns in lake.yaml.",
            )
        if table is None:
            raise TableStopped(
                self.name,
                f"{why}, and the source database has no table {self.name}, or its user may not read it.",
                f"{_WAITS}; or change the table's columns in lake.yaml.",
            )
        return table

    @cached_property
    def _answer(self) -> "tuple[LakeError | None, SourceTable | None]":
        assert self.read is not None, "asked only where is_known"
        try:
            return None, self.read()
        except LakeError as error:
            return error, None


def _leave_out(column: str) -> str:
    return f"say `ignore: {listed([column])}` for the table."


def _differences(added: Sequence[str], gone: Collection[str]) -> str:
    phrases = []
    if added:
        phrases.append(f"there is {', '.join(added)} beyond the contract's columns")
    if gone:
        phrases.append(f"there is no {', '.join(gone)} any more")
    return " and ".join(phrases) or "the columns are those of the contract"
