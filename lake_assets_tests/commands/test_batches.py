"""What is shown of the batch log: a list, a plot, `status --watch`, Prometheus's metrics, spans.

Not here: what the log has (`silver/batch_log/`).
"""

import io
import json
import re
import threading
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console
from typer.testing import CliRunner

from lake_assets.cli import app
from lake_assets.commands.show import metrics
from lake_assets.commands.show.batches import LINES, show_batches, show_plot
from lake_assets.commands.show.latency import BOUNDS
from lake_assets.commands.show.metrics import registry_of
from lake_assets.commands.show_cli import WATCH_SECONDS, watch
from lake_assets.errors import LakeError
from lake_assets.lake import Lake
from lake_assets.outputs.lake_outputs import lake_outputs
from lake_assets.outputs.traces_output import ADDRESSES, TracesOutput, is_traced, spans
from lake_assets.silver.batch_log.batch_row import BatchRow
from lake_assets.silver.batch_log.batches_table import TABLE, BatchLog
from lake_assets_tests.helpers.constants.batch_rows import START, batch_row
from lake_assets_tests.helpers.lakes.small_lakes import small_lake
from lake_assets_tests.helpers.oracles.masks import MASKING

ITEMS, OTHERS = "silver_shop.items", "silver_shop.others"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return small_lake(tmp_path)


def recorded(lake: Lake, *rows: BatchRow) -> list[BatchRow]:
    return BatchLog(lake.runtime.catalog).add(rows)


def printed(show: Any, *arguments: Any) -> str:
    console = Console(record=True, width=160, file=io.StringIO())
    show(console, *arguments)
    return console.export_text()


def test_a_list_and_a_plot() -> None:
    rows = [batch_row(number, latency=float(number)) for number in range(48)]
    text = printed(show_batches, rows)
    assert f"{START:%Y-%m-%d} 00:47:00" in text
    assert "cdc, append" in text
    text = printed(show_plot, rows, START, START + timedelta(minutes=48))
    day = f"{START:%m-%d}"
    lines = [line for line in text.splitlines() if re.match(rf"{day} 00:\d\d", line)]
    assert len(lines) == LINES
    assert all(re.match(rf"{day} 00:\d\d +2 +6 ", line) for line in lines), "two batches of three rows"
    assert lines[5].split()[4:8] == ["10", "s", "11", "s"]
    assert "48 batches, 144 rows" in text
    assert "0 batches, 0 rows" in printed(show_plot, [], START, START + timedelta(minutes=48))


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "lake.yaml").write_text(
        f"catalog: {{uri: {tmp_path}/catalog.db, warehouse: {tmp_path}/warehouse}}\n"
        f"sources: {{shop: {{location: {tmp_path}/bronze, "
        "tables: {public.items: {columns: {id: long}, primary_key: [id]}}}}\n"
        "gold: {start_date: 2026-03-01}\n"
    )

    def told(*arguments: str) -> Any:
        return CliRunner().invoke(app, ["--config", str(tmp_path / "lake.yaml"), "batches", *arguments])

    assert told("--json").output.strip() == "[]"
    from lake_assets.config.config_file import load_lake
    from lake_assets.lake import open_lake

    recorded(open_lake(load_lake(tmp_path / "lake.yaml")), batch_row(1, latency=2.0), batch_row(2, OTHERS))
    (row,) = json.loads(told("public.items", "--since", "9999d", "--json").output)
    assert (row["table"], row["rows_read"], row["stages"]["write"]) == (ITEMS, 3, 0.3)
    assert row["committed_at"] == f"{START:%Y-%m-%d}T00:01:00.000+00:00"
    assert told("--since", "1d", "--json").output.strip() == "[]"
    assert "1 batch, 3 rows" in told("--since", "9999d", "--plot").output
    assert "expected a duration" in re.sub(r"\W+", " ", told("--since", "soon").output)
    for longer_than_there_are_years in ("999999d", "9999999999999d"):
        assert told("--since", longer_than_there_are_years).exit_code == 2
    assert told("public.nothing").exit_code == 1


def test_watching() -> None:
    """The text is replaced while it changes, until Ctrl-C."""
    console = Console(force_terminal=True, width=100, file=(shown := io.StringIO()))
    texts, waited = iter(["pending\n1 file", "up to date"]), list[float]()

    def pause(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 2:
            raise KeyboardInterrupt

    watch(console, lambda out: out.print(next(texts), style="bold"), pause)
    first, second = shown.getvalue().split("pending")[1].split("up to date")[0], waited
    assert second == [WATCH_SECONDS] * 2
    assert "\x1b[1A\x1b[2K" in first, "both lines are erased"


def test_watching_a_lake(lake: Lake) -> None:
    from lake_assets.commands.show_cli import show_once

    console = Console(force_terminal=True, width=150, file=(shown := io.StringIO()))

    def pause(seconds: float) -> None:
        raise KeyboardInterrupt

    watch(console, lambda out: show_once(out, out, lake, every=True), pause)
    assert "no files" in shown.getvalue()
    assert "items" in shown.getvalue()


def test_watching_goes_on_after_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalog that cannot be reached for a moment ends nothing, and the message shows no secret."""
    lake = small_lake(tmp_path, alarms={"webhook": "https://hooks.example/T0/B0-secret"})
    from lake_assets.commands import show_cli

    plain, looks = show_cli.show_once, iter([False, True, False])

    def unreliable(out: Console, err: Console, lake: Lake, *, every: bool) -> bool:
        if next(looks):
            raise ConnectionError("no answer to https://hooks.example/T0/B0-secret")
        return plain(out, err, lake, every=every)

    monkeypatch.setattr(show_cli, "show_once", unreliable)
    console = Console(force_terminal=True, width=300, file=(shown := io.StringIO()))
    seen: list[str] = []

    def pause(seconds: float) -> None:
        seen.append(shown.getvalue())
        if len(seen) == 3:
            raise KeyboardInterrupt

    watch(console, lambda out: show_cli.show_or_fault(out, lake, every=True), pause)
    first, second, third = seen[0], seen[1].removeprefix(seen[0]), seen[2].removeprefix(seen[1])
    assert "no files" in first
    assert "no files" in third
    assert "UTC: no answer to ***" in second
    assert "secret" not in second


def samples(lake_text: str) -> dict[tuple[str, tuple[str, ...]], float]:
    """By name, table and the other labels, what Prometheus's own parser reads."""
    return {
        (sample.name, (sample.labels.pop("table"), *sample.labels.values())): sample.value
        for family in text_string_to_metric_families(lake_text)
        for sample in family.samples
    }


def test_the_metrics_are_the_figures_of_the_log(lake: Lake) -> None:
    recorded(lake, batch_row(0))
    registry = registry_of(lake)
    before = samples(generate_latest(registry).decode())
    assert ("lake_batches_total", (ITEMS, "cdc", "append")) not in before, "it was there before the process"
    assert before["lake_table_state", (ITEMS, "no files")] == 1
    assert before["lake_table_rows", (ITEMS,)] == 0
    rows = recorded(
        lake, *(batch_row(number, latency=number / 2) for number in range(1, 8)), batch_row(9, OTHERS)
    )
    for _ in range(2):
        found = samples(generate_latest(registry).decode())
    own = [row for row in rows if row.table == ITEMS]
    assert found["lake_batches_total", (ITEMS, "cdc", "append")] == len(own) == 7
    assert found["lake_batches_total", (OTHERS, "cdc", "append")] == 1
    for operation in ("read", "inserted", "updated", "deleted", "quarantined"):
        expected = sum(getattr(row, f"rows_{operation}") for row in own)
        assert found["lake_batch_rows_total", (ITEMS, operation)] == expected
    assert found["lake_batch_files_total", (ITEMS,)] == sum(row.files for row in own)
    assert found["lake_batch_bytes_total", (ITEMS,)] == sum(row.bytes for row in own)
    for stage in ("read", "write", "publish"):
        expected = sum(row.stages[stage] for row in own)
        assert found["lake_batch_stage_seconds_total", (ITEMS, stage)] == pytest.approx(expected)
    assert found["lake_batch_seconds_sum", (ITEMS,)] == pytest.approx(sum(row.seconds for row in own))
    name = "lake_batch_latency_seconds"
    assert found[f"{name}_count", (ITEMS,)] == 7
    assert (f"{name}_count", (OTHERS,)) not in found, "without a file"
    for bound in BOUNDS:
        within = sum((row.latency_seconds or 0) <= bound for row in own)
        assert found[f"{name}_bucket", (ITEMS, str(bound).removesuffix(".0"))] == within
    assert set(found) > set(before)


def test_the_metrics_go_on_after_the_log_was_dropped(lake: Lake) -> None:
    recorded(lake, *(batch_row(number) for number in range(5)))
    registry = registry_of(lake)
    lake.runtime.catalog.drop_table(TABLE)
    generate_latest(registry)
    recorded(lake, batch_row(6))
    found = samples(generate_latest(registry).decode())
    assert found["lake_batches_total", (ITEMS, "cdc", "append")] == 1


def test_an_error_of_a_scrape_has_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = small_lake(tmp_path, **MASKING)
    assert lake.config.masking.salt is not None
    salt = lake.config.masking.salt.get_secret_value()

    def failing(lake: Lake) -> None:
        raise RuntimeError(f"no table of {salt}")

    registry = registry_of(lake)
    monkeypatch.setattr(metrics, "status", failing)
    with pytest.raises(LakeError) as error:
        generate_latest(registry)
    assert str(error.value) == "no table of ***"
    assert error.value.__suppress_context__


class _Collector(BaseHTTPRequestHandler):
    """A collector of OpenTelemetry."""

    taken: list[bytes]
    answer = 200

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.answer == 200:
            self.taken.append(body)
        self.send_response(self.answer)
        self.end_headers()

    def log_message(self, *arguments: Any) -> None: ...


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[_Collector]]:
    handler = type("Collector", (_Collector,), {"taken": []})
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    yield handler
    server.shutdown()
    server.server_close()
    thread.join()


def received(collector: type[_Collector]) -> list[Any]:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    requests = [ExportTraceServiceRequest.FromString(body) for body in collector.taken]
    scopes = [
        scope for request in requests for spans in request.resource_spans for scope in spans.scope_spans
    ]
    return [span for scope in scopes for span in scope.spans]


def test_spans_reach_a_collector(lake: Lake, collector: type[_Collector]) -> None:
    recorded(lake, batch_row(0))
    output = next(each for each in lake_outputs(lake) if isinstance(each, TracesOutput))
    assert output.follow().problems == []
    assert received(collector) == [], "what was recorded before is not exported"
    (row,) = recorded(lake, batch_row(1))
    collector.answer = 400
    assert output.follow().problems == ["the collector of OpenTelemetry did not take the spans of batches"]
    collector.answer = 200
    # As another process, after the one that had failed.
    assert TracesOutput(lake).follow().done == ["1 batch was exported as spans"]
    assert TracesOutput(lake).follow().done == []
    root, *stages = received(collector)
    assert [span.name for span in stages] == ["read", "write", "publish"]
    assert (root.name, root.parent_span_id) == (f"batch {ITEMS}", b"")
    assert {span.parent_span_id for span in stages} == {root.span_id}
    assert {span.trace_id for span in [root, *stages]} == {root.trace_id}
    assert (root.end_time_unix_nano - root.start_time_unix_nano) / 1e9 == pytest.approx(row.seconds)
    assert stages[0].start_time_unix_nano == root.start_time_unix_nano
    attributes = {each.key: each.value for each in root.attributes}
    assert attributes["lake.rows_read"].int_value == row.rows_read
    again = [each.get_span_context() for each in spans(row)]
    assert [each.span_id for each in again if each] == [
        int.from_bytes(span.span_id, "big") for span in (root, *stages)
    ]


def test_spans_go_on_after_the_log_was_dropped(lake: Lake, collector: type[_Collector]) -> None:
    recorded(lake, *(batch_row(number) for number in range(5)))
    assert TracesOutput(lake).follow().problems == []
    lake.runtime.catalog.drop_table(TABLE)
    recorded(lake, batch_row(6))
    assert TracesOutput(lake).follow().done == []
    recorded(lake, batch_row(7))
    assert TracesOutput(lake).follow().done == ["1 batch was exported as spans"]


def test_spans_are_off_by_default(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ADDRESSES:
        monkeypatch.delenv(name, raising=False)
    assert [each.name for each in lake_outputs(lake)] == ["batches"]
    assert is_traced({ADDRESSES[0]: "http://localhost"})
    assert not is_traced({ADDRESSES[1]: "http://localhost", "OTEL_SDK_DISABLED": "true"})
    assert not is_traced({})


def test_the_endpoint(lake: Lake) -> None:
    from prometheus_client import start_http_server

    server, thread = start_http_server(0, "127.0.0.1", registry_of(lake))
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/metrics") as answer:
            assert samples(answer.read().decode())["lake_table_pending_files", (ITEMS,)] == 0
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
