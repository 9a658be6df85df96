"""`lake-assets quarantine`: selects, retries and discards quarantined rows.

Not here: printing (`quarantine_cli.py`), the table (`bronze/quarantine/quarantine_log.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from lake_assets.bronze.log.copies import originals
from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.bronze.quarantine.quarantine_log import IN_NO_FILE, Quarantined, State
from lake_assets.config import is_called
from lake_assets.errors import LakeError
from lake_assets.lake import Lake
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.apply.engine import apply_tables
from lake_assets.words import many


def chosen(
    runtime: LakeRuntime, table: str | None, ids: Sequence[str], *, every: bool = False
) -> list[Quarantined]:
    """The quarantined rows (with `every`, released and discarded ones too) of a table (`schema.table`, or the silver
    table's name), with these ids or beginnings of ids. Raises LakeError for an id of no row, or of several."""
    rows = runtime.quarantine.all() if every else runtime.quarantine.open()
    rows = [
        held for held in rows if table is None or table == held.silver_table or is_called(held.table, table)
    ]
    if not ids:
        return rows
    found = []
    for wanted in ids:
        matching = [held for held in rows if held.id.startswith(wanted)]
        if len(matching) != 1:
            what = (
                f"{many(len(matching), 'row', 'begin')} with it"
                if matching
                else "no quarantined row has this id"
            )
            raise LakeError(f"{wanted}: {what}; `lake-assets quarantine list` shows the ids.")
        found += matching
    return found


def retry(runtime: LakeRuntime, rows: Sequence[Quarantined]) -> list[LoggedFile]:
    """Requests that the next turn of their tables reads the rows again, by today's contract in lake.yaml. A file that
    was rewritten meanwhile is pending anyway, and a message of a stream that cannot be read stays as it is. Returns the
    new records of the file log."""
    newest: dict[tuple[str, str, str], LoggedFile] = {}
    for source in {held.source for held in rows}:
        for file in originals(runtime.file_log.files(source)):
            newest[source, file.qualified_table, file.key] = file
    files = {held.id: newest.get((held.source, held.table, held.key)) for held in rows}
    # A file that the table has no rows of any more, because `folders` has changed, is not read again.
    rows = [held for held in rows if held.version != IN_NO_FILE and files[held.id] is not None]
    runtime.quarantine.becomes(rows, State.RETRIED)
    asked = {}
    for held in rows:
        found = files[held.id]
        if found is not None and found.version == held.version:
            asked[held.source, held.table, held.key] = found
    return runtime.file_log.log_again([*asked.values()])


@dataclass(slots=True)
class Outcome:
    """The outcome of a retry."""

    applied: list[Quarantined] = field(default_factory=list)
    held: list[Quarantined] = field(default_factory=list)
    """Quarantined again, each with its new reason."""
    superseded: list[Quarantined] = field(default_factory=list)
    """Their files were rewritten, or a reload has superseded them."""
    pending: list[Quarantined] = field(default_factory=list)
    """Still to be read."""
    stopped: dict[str, str] = field(default_factory=dict)
    """By silver table, why its turn did not read them."""

    @property
    def exit_code(self) -> int:
        return 1 if self.held or self.pending or self.stopped else 0


def read_again(lake: Lake, rows: Sequence[Quarantined]) -> Outcome:
    """Applies the pending files of the rows' tables, and returns the outcome of each row. A table that stops is in the
    outcome; the others continue."""
    wanted, outcome = {held.silver_table for held in rows}, Outcome()
    targets = [target for target in lake.targets if target.identifier in wanted]
    for result in apply_tables(lake.runtime, targets):
        reason = str(result.error) if result.error is not None else result.waiting
        if reason is not None:
            outcome.stopped[result.target.identifier] = reason
    for name in wanted - {target.identifier for target in targets}:
        outcome.stopped[name] = f"{name}: its table is not in lake.yaml. Add it, and run lake-assets sync."
    by_state = {
        State.RELEASED: outcome.applied,
        State.SUPERSEDED: outcome.superseded,
        State.RETRIED: outcome.pending,
    }
    now = {held.id: held for held in lake.runtime.quarantine.all()}
    for held in (now[one.id] for one in rows):
        by_state.get(held.state, outcome.held).append(held)
    return outcome


def discard(runtime: LakeRuntime, rows: Sequence[Quarantined]) -> list[Quarantined]:
    """Discards the rows: silver will not have them."""
    return runtime.quarantine.becomes(rows, State.DISCARDED)
