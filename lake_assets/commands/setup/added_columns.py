"""The columns that DMS adds, by their names in lake.yaml, beside those of a table's newest files.

If a name is misspelt, DMS's column would count as a column of the source. Here: one table. Not here: which files are
its newest ones (`validate.py`).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lake_assets.bronze.files.formats import added_names, has_operation
from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.config import DmsSettings, SourceConfig, TableConfig, did_you_mean
from lake_assets.schema.contract import contract_of
from lake_assets.schema.evolve import file_types


@dataclass(frozen=True, slots=True)
class AddedColumns:
    """The columns of the newest full-load file and of the newest CDC file of one table."""

    config: TableConfig
    dms: DmsSettings
    newest: Mapping[FileKind, LoggedFile]
    """At least one."""
    present: Collection[str]
    known: Collection[str]
    """The columns of the source that lake.yaml names, by their present and former names."""
    unknown: Sequence[str]
    """The columns of the files that lake.yaml does not explain."""

    @classmethod
    def of(
        cls, table: str, config: TableConfig, source: SourceConfig, files: Sequence[LoggedFile]
    ) -> "AddedColumns | None":
        """Those of these files; None if the columns of none are known."""
        newest = {
            kind: max(of_kind, key=lambda file: file.written_at)
            for kind in (FileKind.LOAD, FileKind.CDC)
            if (of_kind := [file for file in files if file.kind is kind and file.columns is not None])
        }
        if not newest:
            return None
        dms = source.settings(table, _preferred(newest).flush_time)
        known = {column.name for column in config.columns} | {*config.renamed_from.values(), *config.ignore}
        present = dict.fromkeys(column for file in newest.values() for column in file_types(file))
        eras = contract_of(config, source.settings(table)).all_settings
        explained = known | {column for then in eras for column in added_names(config.columns, then)}
        prefix = dms.before_image_prefix
        unknown = [c for c in present if c not in explained and not (prefix and c.startswith(prefix))]
        return cls(config, dms, newest, present, known, unknown)

    def mistakes(self) -> dict[str, str]:
        """By setting of `dms`, what is wrong."""
        found = dict(self._missing()) if self.unknown else {}
        if (cdc := self.newest.get(FileKind.CDC)) is not None:
            found |= self._operation(cdc) | self._before_images(cdc)
        return found

    def warnings(self) -> list[str]:
        """What is wrong, or not yet in the files: they have no column that could be meant."""
        return [] if self.unknown else [f"{setting} {text}" for setting, text in self._missing()]

    def _missing(self) -> Iterator[tuple[str, str]]:
        for setting in ("timestamp_column_name", "change_sequence_column"):
            column = getattr(self.dms, setting)
            if column is None or column in self.present:
                continue
            text = f"names {column}, which {_preferred(self.newest).key} does not have"
            others = f"; lake.yaml does not know its {', '.join(self.unknown)}" if self.unknown else ""
            yield setting, text + (did_you_mean(column, self.unknown) or others)

    def _operation(self, cdc: LoggedFile) -> dict[str, str]:
        column = self.dms.operation_column
        if not has_operation(FileKind.CDC, self.dms) or column in file_types(cdc):
            return {}
        near = did_you_mean(column, self.unknown)
        return {"operation_column": f"is {column}, which {cdc.key} does not have{near}"}

    def _before_images(self, cdc: LoggedFile) -> dict[str, str]:
        """The mistake of a `before_image_prefix` with which no column begins, if unknown columns end as others."""
        prefix = self.dms.before_image_prefix
        if not prefix or any(f"{prefix}{column}" in self.present for column in self.known):
            return {}
        ends = self.config.primary_key or self.known
        others = {c.removesuffix(end) for c in self.unknown for end in ends if c.endswith(end)} - {""}
        if not others:
            return {}
        meant = " or ".join(sorted(others))
        text = f"is {prefix}, with which no column of {cdc.key} begins; did you mean {meant}?"
        return {"before_image_prefix": text}


def _preferred(newest: Mapping[FileKind, LoggedFile]) -> LoggedFile:
    return newest.get(FileKind.CDC) or newest[FileKind.LOAD]
