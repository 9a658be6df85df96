"""`lake-assets quarantine`: what is set aside, and what becomes of it.

Here: choosing rows, and asking for them again. Not here: printing (`show.py`), the table (`bronze/quarantine.py`).
"""

from collections.abc import Sequence

from lake_assets.bronze.log_record import LoggedFile
from lake_assets.bronze.quarantine import Held, State
from lake_assets.errors import LakeError
from lake_assets.runtime import LakeRuntime
from lake_assets.words import many


def chosen(runtime: LakeRuntime, table: str | None, ids: Sequence[str], *, every: bool = False) -> list[Held]:
    """What is set aside (with `every`, what ever was) of a table (`schema.table`, or the silver table's name), and of
    these ids or their beginnings. Raises LakeError for an id that is nobody's, or several rows'."""
    rows = runtime.quarantine.all() if every else runtime.quarantine.open()
    rows = [held for held in rows if table is None or table in (held.table, held.silver_table)]
    if not ids:
        return rows
    found = []
    for wanted in ids:
        matching = [held for held in rows if held.id.startswith(wanted)]
        if len(matching) != 1:
            what = (
                f"{many(len(matching), 'row', 'begin')} with it"
                if matching
                else "nothing that is set aside has it"
            )
            raise LakeError(f"{wanted}: {what}; `lake-assets quarantine list` names what there is.")
        found += matching
    return found


def retry(runtime: LakeRuntime, rows: Sequence[Held]) -> list[LoggedFile]:
    """Asks for the rows to be read again, by the contract that lake.yaml gives now; the next turn of their tables does.
    A file that was written again meanwhile is pending anyway. Returns the records that the file log got."""
    runtime.quarantine.becomes(rows, State.RETRIED)
    newest: dict[tuple[str, str, str], LoggedFile] = {}
    for source in {held.source for held in rows}:
        for file in runtime.file_log.files(source):
            newest[source, file.qualified_table, file.key] = file
    files = {
        (held.source, held.table, held.key): newest[held.source, held.table, held.key]
        for held in rows
        if newest[held.source, held.table, held.key].version == held.version
    }
    return runtime.file_log.ask_again([*files.values()])


def discard(runtime: LakeRuntime, rows: Sequence[Held]) -> list[Held]:
    """Gives the rows up: silver stays without them."""
    return runtime.quarantine.becomes(rows, State.DISCARDED)
