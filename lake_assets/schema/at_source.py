"""A table's contract as the source database completes it, where files show that their columns have changed but not to
what: a new column of a text file, more fields in a CSV file without a header, values that outgrew their type.

Here: what the source's present columns may mean for the contract. What has more than one explanation, and a database
that cannot be read, stop the table. Not here: reading the database (`storage/reflection/reflect.py`), when to ask
(`evolve.py`, `silver/batch/ask_source.py`).
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from lake_assets.bronze.files.formats import added_names, contract_layout
from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.config import Column, EarlierLayout, TableConfig
from lake_assets.errors import LakeError, TableStopped
from lake_assets.schema.contract import Contract
from lake_assets.schema.promotion import widens
from lake_assets.schema.spelling import listed

if TYPE_CHECKING:
    from lake_assets.storage.reflection.reflect import SourceColumn, SourceTable


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

    def declared(
        self, ignore: Collection[str], renamed_from: Mapping[str, str]
    ) -> tuple[tuple[Column, ...], tuple[str, ...]]:
        """The columns but for the ignored ones, by their new names; and the key. Raises TableStopped."""
        why = "lake.yaml leaves its columns to the source database"
        table, new_names = self._found(why), {old: new for new, old in renamed_from.items()}
        columns = tuple(
            self._decided(column, why).model_copy(
                update={"name": new_names.get(column.name, column.name), "required": column.required}
            )
            for column in table.columns
            if column.name not in ignore
        )
        if twice := [name for name, times in Counter(c.name for c in columns).items() if times > 1]:
            raise TableStopped(
                self.name,
                f"renamed_from gives a column the name {twice[0]}, which another one has at the source.",
                "Choose another name.",
            )
        return columns, tuple(new_names.get(name, name) for name in table.primary_key)

    def column(self, name: str, why: str) -> Column:
        """The column with the source's type; it may be NULL, because older rows lack it. `why`: the beginning of a
        sentence about the file. Raises TableStopped."""
        if (found := _named(name, self._found(why).columns)) is None:
            raise TableStopped(
                self.name,
                f"{why}, and {self.name} has no such column at the source now.",
                f"Add it to the table's columns with its type, or {_leave_out(name)}",
            )
        return self._decided(found, why)

    def with_more(
        self, contract: Contract, config: TableConfig, file: LoggedFile, known: Sequence[LoggedFile], why: str
    ) -> Contract:
        """The contract for a CSV file without a header, and later files, that has more fields than the contract
        explains: the source has added columns behind those that it had. `known`: the table's files without a header
        from the contract's time. Raises TableStopped for every other difference."""
        found = self._found(why).columns
        own = [contract.renamed_from.get(column.name, column.name) for column in contract.columns]
        kept, added = found[: len(own)], found[len(own) :]
        spare = {*contract.ignore, *added_names(contract.columns, contract.dms)}
        changed = contract
        for column in added:
            changed = changed.with_column(self._decided(column, why))
        is_explained = (
            [column.name.casefold() for column in kept] == [name.casefold() for name in own]
            and width_of(changed, config, file.kind) == file.width
            and not spare & {column.name for column in added}
        )
        newer = [each for each in known if each.width == width_of(changed, config, each.kind)]
        until = min((each.written_at for each in newer), default=file.written_at)
        older = [each for each in known if each not in newer]
        if not is_explained or any(each.written_at >= until for each in older):
            raise TableStopped(
                self.name,
                f"{why}, and at the source the columns are {', '.join(column.name for column in found)}.",
                "Correct the table's columns, and list under earlier the columns that files had until a change of the "
                "source. Only columns that are new behind all others, in all files from a time on, need no edit.",
            )
        if not older:
            return changed
        text = f"{until:%Y%m%d-%H%M%S}{until.microsecond // 1000:03d}"
        before = EarlierLayout(until_file=text, columns=contract.columns)
        return changed.model_copy(update={"earlier": (*contract.earlier, before)})

    def widened(self, contract: Contract, why: str) -> list[Column]:
        """The columns of the contract whose type the source has widened, with the new type; none if the source has no
        such table. Raises TableStopped."""
        if self._answer == (None, None):
            return []
        found, wider = self._found(why).columns, []
        for own in contract.columns:
            column = _named(contract.renamed_from.get(own.name, own.name), found) or _named(own.name, found)
            if column is not None and widens(own.type, column.declared.type):
                wider.append(own.model_copy(update={"type": column.declared.type}))
        return wider

    def _decided(self, column: "SourceColumn", why: str) -> Column:
        if not column.declared.is_decided:
            raise TableStopped(
                self.name,
                f"{why}, and the type of {column.name} is open ({column.declared.comment}).",
                f"Add {column.name} to the table's columns with its type, or {_leave_out(column.name)}",
            )
        return Column(name=column.name, type=column.declared.type)

    def _found(self, why: str) -> "SourceTable":
        error, table = self._answer
        if table is None:
            reason = error or f"It has no table {self.name}, or its user may not read it."
            raise TableStopped(
                self.name,
                f"{why}, what the source database has to explain. {reason}",
                "The table goes on by itself once the database answers; or change the table's columns in lake.yaml.",
            )
        return table

    @cached_property
    def _answer(self) -> "tuple[LakeError | None, SourceTable | None]":
        assert self.read is not None, "asked only where is_known"
        try:
            return None, self.read()
        except LakeError as error:
            return error, None


def _named(name: str, columns: "Sequence[SourceColumn]") -> "SourceColumn | None":
    """The column of that name. A rule of the task's mapping may write all names in lower or upper case."""
    same = [c for c in columns if c.name == name] or [
        c for c in columns if c.name.casefold() == name.casefold()
    ]
    return same[0] if len(same) == 1 else None


def width_of(contract: Contract, config: TableConfig, kind: FileKind) -> int:
    """The fields of a CSV file without a header by the contract."""
    return len(contract_layout(contract.table(config), contract.dms, kind).columns)


def _leave_out(column: str) -> str:
    return f"say `ignore: {listed([column])}` for the table."
