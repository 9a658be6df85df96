"""What comes from files, names and errors is printed as it is, whatever looks like markup in it.

Here: every function that prints a table. Not here: the commands themselves.
"""

import logging
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

import lake_assets
from lake_assets import cli
from lake_assets.bronze.quarantine.quarantine_log import Quarantined
from lake_assets.commands.mend import quarantine_cli
from lake_assets.commands.run import maintain as maintaining
from lake_assets.commands.run import maintain_cli, opening
from lake_assets.commands.setup.advise import Knobs, Workload
from lake_assets.commands.setup.advise_cli import _estimates
from lake_assets.commands.show import console, show
from lake_assets.commands.show.latency import BOUNDS, TableLatency
from lake_assets.commands.show.status import TableStatus
from lake_assets.demo.compare import TableComparison
from lake_assets.errors import LakeError
from lake_assets.iceberg.upkeep.table_maintenance import Maintained
from lake_assets.rounds.pending_work import SyncResult
from lake_assets.silver.table.batch_latency import Spread
from lake_assets_tests.helpers.lakes.small_lakes import lake_config

STRANGE = "[/x] [red]a[/red] [bold :warning: \\["
"""Closes what is not open, would vanish, would become a picture."""
NOW = datetime(2026, 3, 1, tzinfo=UTC)
FIGURES = dict.fromkeys(
    ("files", "rows_read", "rows_inserted", "rows_updated", "rows_deleted", "dagster/row_count"), 1
)


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> StringIO:
    """What goes to a wide standard output."""
    found = StringIO()
    made = console.results

    def into(width: int = 0) -> Console:
        one = made(1000)
        one.file = found
        return one

    for module in (console, maintain_cli, quarantine_cli):
        monkeypatch.setattr(module, "results", into)
    return found


def test_tables(printed: StringIO) -> None:
    out = console.results()
    data: Any = {**FIGURES, "seconds": 1.0, "rows_written": 1, "seconds_compute": 1.0, "seconds_write": 1.0}
    data |= {"partitions": STRANGE, "rows_quarantined": 0, "files_quarantined": 0}
    show.show_sync(out, SyncResult(applied={STRANGE: data}, marts={STRANGE: data}))
    show.show_layers(out, SyncResult(), {STRANGE: (1, 1)})
    show.show_rows(out, STRANGE, [{STRANGE: STRANGE}], [STRANGE])
    show.show_rows(out, STRANGE, [], [STRANGE])
    show.show_latency(out, [latency_of(STRANGE)])
    show.show_status(out, [status_of(STRANGE)])
    show.show_comparison(out, [compared(STRANGE)])
    text = printed.getvalue()
    assert text.count(STRANGE) == 19
    assert "⚠" not in text


def latency_of(table: str) -> TableLatency:
    return TableLatency(table, 1, None, None, None, (0,) * (len(BOUNDS) + 1))


def status_of(text: str) -> TableStatus:
    batch = {"kind": text, "files": "1", "rows-read": "1"}
    values: Any = {"table": text, "state": text, "reason": text, "last_batch": batch, "last_applied": text}
    fields = TableStatus.__dataclass_fields__
    return TableStatus(
        **{name: values.get(name, None if "None" in str(f.type) else 0) for name, f in fields.items()}
    )


def compared(text: str) -> TableComparison:
    values: Any = {"table": text, "schema_problems": [text], "examples": text, "missing": 1}
    fields = TableComparison.__dataclass_fields__
    return TableComparison(**{name: values.get(name, 0) for name in fields})


def test_quarantine_list(printed: StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Quarantined(
        silver_table=STRANGE, source="s", table="t", key=STRANGE, version="v", log_offset=1, row=0, line=1,
        raw=STRANGE, reason=STRANGE, batch=STRANGE, at=NOW,
    )  # fmt: skip
    monkeypatch.setattr(quarantine_cli, "lake_to_show", lambda context: SimpleNamespace(targets=()))
    monkeypatch.setattr(quarantine_cli, "_chosen", lambda *arguments, **options: [held])
    runner = CliRunner()
    assert runner.invoke(quarantine_cli.quarantine, ["list"]).exit_code == 0
    assert printed.getvalue().count(STRANGE) == 3
    assert runner.invoke(quarantine_cli.quarantine, ["show", held.id]).stdout.count(STRANGE) == 5


def test_maintain(
    printed: StringIO, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    import typer

    figures = (
        "files_before", "files_after", "files_rewritten", "snapshots_before", "snapshots_after",
        "orphans_removed", "bytes_removed", "seconds",
    )  # fmt: skip
    done = SimpleNamespace(table=STRANGE, error=LakeError(STRANGE), **dict.fromkeys(figures, 1))
    lake = SimpleNamespace(config=lake_config(tmp_path))
    monkeypatch.setattr(opening, "opened", lambda *arguments, **options: lake)
    monkeypatch.setattr(maintaining, "maintain", lambda *arguments: [done])
    with pytest.raises(typer.Exit):
        maintain_cli.maintain(SimpleNamespace(obj=tmp_path / "lake.yaml"))  # type: ignore[arg-type]
    assert printed.getvalue().count(STRANGE) == 1
    assert capsys.readouterr().err.count(STRANGE) == 2


def test_messages(capsys: pytest.CaptureFixture[str]) -> None:
    console.messages().print(f"{STRANGE} failed: ", style="bold", end="")
    console.messages().print(STRANGE)
    assert capsys.readouterr().err.count(STRANGE) == 2


def test_what_a_terminal_would_obey(capsys: pytest.CaptureFixture[str]) -> None:
    taken, shown = "\x1b]0;a\x07\r\u202eb\x9b2J", r"\x1b]0;a\x07\r\u202eb\x9b2J"
    console.messages().print(f"one\n\t{taken}")
    assert capsys.readouterr().err == f"one\n\t{shown}\n".expandtabs(8)
    table = console.table_of([taken], {"a": str}, title=taken)
    printed = StringIO()
    made = console.results(200)
    made.file = printed
    made.print(table)
    assert printed.getvalue().count(shown) == 2
    record = logging.LogRecord("a", logging.ERROR, "", 1, "%s", (taken,), None)
    assert cli._Printable("%(message)s").format(record) == shown


def test_a_console_is_made_in_one_place_only() -> None:
    package = Path(lake_assets.__file__).parent
    makers = {path.name for path in package.rglob("*.py") if re.search(r"\b_?Console\(", path.read_text())}
    assert makers == {"console.py"}


def test_latencies_of_days_fit_a_console_of_a_hundred_columns() -> None:
    printed = StringIO()
    days = Spread(5.12, 9.0, 580_046.3, 604_214.7)
    table = "silver_bikeshare.station_status_changes"
    line = TableLatency(table, 77, days, Spread(11.6, 20.0, 999.94, 86_400.0), days, (0,) * (len(BOUNDS) + 1))
    show.show_latency(Console(file=printed, width=100), [line])
    (shown,) = [text for text in printed.getvalue().splitlines() if "station_status_changes" in text]
    days_late = "5.1 / 6.7d / 7.0d"
    assert " ".join(shown.split()) == (
        f"bikeshare.station_status_changes 77 {days_late} 11.6 / 1000 / 24h {days_late}"
    )


LONG = "station_status_changes"
LARGE = 1_234_567_890


def large_sync() -> SyncResult:
    data: dict[str, Any] = dict.fromkeys(FIGURES, LARGE)
    data |= {"rows_written": LARGE, "seconds": 86_399.9, "seconds_compute": 9.9, "seconds_write": 9.9}
    data |= {"rows_quarantined": 0, "files_quarantined": 0, "lag_seconds": 604_214.7, "partitions": 1460}
    data |= {"files": 12_345, "rows_updated": 999_999, "rows_deleted": 99_999}
    return SyncResult(applied={f"silver_bikeshare.{LONG}": data}, marts={"station_hourly_availability": data})


def large_status() -> TableStatus:
    return replace(
        status_of("waiting"),
        table=f"silver_bikeshare.{LONG}",
        rows=LARGE,
        position=9_999_999,
        pending_files=123_456,
        quarantined=999_999,
        lag_seconds=604_214.7,
        latency=Spread(580_046.3, 9.0, 604_214.7, 604_214.7),
        reason=None,
    )


def large_comparison() -> TableComparison:
    counts: dict[str, Any] = dict.fromkeys(
        ("rows_in_source", "rows_in_lake", "missing", "unexpected", "different"), LARGE
    )
    problems = ["fare is double in silver and decimal(10, 2) in the source"] * 2
    return replace(
        compared(f"bikeshare.{LONG}"),
        **counts,
        schema_problems=problems,
        examples={"missing": [(LARGE + 1,)]},
    )


def large_maintained() -> Maintained:
    return Maintained(
        f"silver_bikeshare.{LONG}",
        files_before=99_999,
        files_rewritten=99_999,
        files_after=999,
        snapshots_before=9_999,
        snapshots_after=100,
        branches_dropped=999,
        orphans_removed=99_999,
        seconds=9_999.9,
    )


HELD = Quarantined(
    silver_table=f"silver_bikeshare.{LONG}",
    source="bikeshare",
    table=f"public.{LONG}",
    key=f"public/{LONG}/2026/03/01/20260301-120000000.csv",
    version="v",
    log_offset=LARGE,
    row=LARGE,
    line=LARGE,
    raw="",
    reason="last_reported: '2026-13-01 00:00:00.000000' is not a timestamp",
    batch="",
    at=NOW,
)
STATION = {
    "station_id": LARGE,
    "name": "Ludwig-Maximilians-Universitaet Haupteingang",
    "district": "Altstadt-Lehel",
    "empty_since": NOW,
    "minutes_empty": 525_600.5,
}


SHOWN: dict[str, tuple[Callable[[Console], None], list[str]]] = {
    "sync": (
        lambda out: show.show_sync(out, large_sync()),
        [
            LONG,
            "station_hourly_availability",
            "1,234.6M",
            "999,999",
            "86399.9",
            "99,999",
            "12,345",
            "6 d 23 h",
        ],
    ),
    "status": (
        lambda out: show.show_status(out, [large_status()]),
        [LONG, "waiting", "1,234,567,890", "9999999", "123456", "999,999", "6.7d / 7.0d"],
    ),
    "advise": (
        lambda out: out.print(
            _estimates("bikeshare", Workload(400, 400, 1000.0, files=10**7), Knobs(batch_interval=1))
        ),
        ["continuous", "34,560,000", "10,000,000 files"],
    ),
    "comparison": (
        lambda out: show.show_comparison(out, [large_comparison()]),
        [LONG, "1,234,567,890", f"NO: {LARGE} missing", str(LARGE + 1), "decimal(10, 2)"],
    ),
    "rows": (
        lambda out: show.show_rows(out, "Empty racks", [STATION], list(STATION)),
        ["Empty racks", str(LARGE), "Haupteingang", "Altstadt-Lehel", "2026-03-01"],
    ),
    "quarantine list": (
        lambda out: out.print(quarantine_cli._listed([HELD])),
        [HELD.id, "held", "is not a"],
    ),
    "maintain": (
        lambda out: out.print(console.table_of([large_maintained()], maintain_cli._COLUMNS)),
        ["silver_bikeshare.station_status_", "99,999 → 999", "9,999 → 100", "9999.9"],
    ),
}


@pytest.mark.parametrize("command", SHOWN)
def test_tables_of_large_numbers_fit_a_hundred_columns(command: str) -> None:
    show_it, expected = SHOWN[command]
    printed = StringIO()
    show_it(Console(file=printed, width=100, markup=False, emoji=False))
    text = printed.getvalue()
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 100
    assert "…" not in text, "nothing is cut off"
    assert [value for value in expected if value not in text] == []
