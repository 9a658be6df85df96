"""Spans of batches for a collector of OpenTelemetry: one for each batch of the batch log, with one for each stage.

They are made from the log's rows, so the engine has no part of it, and a batch gets its spans once it is recorded. The
number of the last exported row is in `lake_ops.findings`. A process that is killed before it has noted the number
exports the same spans again, with the same ids. Here: what is exported, and when. Not here: the log
(`silver/batch_log/`).
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING

from lake_assets.config.secrets import hidden_in
from lake_assets.lake import Lake
from lake_assets.outputs.output import Followed
from lake_assets.silver.batch_log.batch_row import BatchRow
from lake_assets.silver.batch_log.batches_table import BatchLog
from lake_assets.spark.causes import root_cause
from lake_assets.words import many

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

KIND = "traces"
"""The kind of its finding."""
ADDRESSES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
AT_ONCE = 200
"""Batches in one request."""


def is_traced(environment: Mapping[str, str]) -> bool:
    """Whether the environment names a collector, by OpenTelemetry's own variables, and does not switch them off."""
    is_off = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return not is_off and any(environment.get(name) for name in ADDRESSES)


class TracesOutput:
    """The spans of one lake's batches. The variables of OpenTelemetry name the collector and the service."""

    name = "traces"
    description = "Exports a span for each recorded batch to the collector of OTEL_EXPORTER_OTLP_ENDPOINT."
    every = 60.0
    shows_tables = False

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    @cached_property
    def _log(self) -> BatchLog:
        return BatchLog(self._lake.runtime.catalog)

    @cached_property
    def _exporter(self) -> "SpanExporter":
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        return OTLPSpanExporter()

    def tables(self) -> Sequence[str]:
        """Silver's tables."""
        return [target.identifier for target in self._lake.targets]

    def follow(self) -> Followed:
        """Exports the batches that were recorded since the last time; the first time, those since now. Never raises."""
        try:
            return self._follow()
        except ImportError:
            return Followed(problems=["spans need OpenTelemetry: pip install 'lake_assets[traces]'"])
        except Exception as error:  # noqa: BLE001  (of the catalog or the collector; the next look tries again)
            reason = hidden_in(self._lake.config, root_cause(error))
            return Followed(problems=[f"spans could not be exported: {reason}"])

    def look(self) -> Followed:
        """Nothing: spans are not shown by the lake."""
        return Followed()

    def _follow(self) -> Followed:
        from opentelemetry.sdk.trace.export import SpanExportResult

        findings, subject = self._lake.runtime.findings, self._lake.config.catalog.name
        noted = findings.of(KIND).get(subject)
        if noted is None:
            findings.note(KIND, subject, {"number": self._log.head()})
            return Followed()
        if (number := min(noted.content["number"], self._log.head())) < noted.content["number"]:
            # The log was dropped, and begins again; without a note, its next rows would count as exported.
            findings.note(KIND, subject, {"number": number})
        new = self._log.after(number)
        for first in range(0, len(new), AT_ONCE):
            rows = new[first : first + AT_ONCE]
            if (
                self._exporter.export([span for row in rows for span in spans(row)])
                is not SpanExportResult.SUCCESS
            ):
                return Followed(problems=["the collector of OpenTelemetry did not take the spans of batches"])
            findings.note(KIND, subject, {"number": rows[-1].number})
        return Followed([f"{many(len(new), 'batch', 'were')} exported as spans"] if new else [])


def spans(row: BatchRow) -> "Iterator[ReadableSpan]":
    """The span of a batch, and those of its stages, one after the other in the order of the log. Their ids follow from
    the batch, so that they are the same whenever they are made."""
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext, TraceFlags

    digest = sha256("/".join(map(str, row.key)).encode()).hexdigest()
    # The variables of OpenTelemetry may give it another name.
    resource = Resource({"service.name": "lake_assets"}).merge(OTELResourceDetector().detect())

    def context(name: str) -> SpanContext:
        number = sha256(f"{digest} {name}".encode()).hexdigest()[:16]
        return SpanContext(int(digest[:32], 16), int(number, 16), is_remote=False, trace_flags=TraceFlags(1))

    root, start = context("batch"), row.shown_at - timedelta(seconds=row.seconds)
    figures = {name: value for name, value in row.shown().items() if isinstance(value, str | int | float)}
    yield ReadableSpan(
        f"batch {row.table}",
        context=root,
        resource=resource,
        attributes={f"lake.{name}": value for name, value in figures.items()},
        start_time=_nanoseconds(start),
        end_time=_nanoseconds(row.shown_at),
    )
    for stage, seconds in row.stages.items():
        end = start + timedelta(seconds=seconds)
        yield ReadableSpan(
            stage,
            context=context(stage),
            parent=root,
            resource=resource,
            attributes={"lake.table": row.table},
            start_time=_nanoseconds(start),
            end_time=_nanoseconds(end),
        )
        start = end


def _nanoseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000) * 1000
