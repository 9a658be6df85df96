"""Log lines of a batch: the table, the batch and the run that they are of, and lines of JSON.

Here: the fields that each line of a thread has, and the formatter that prints them. Not here: the lines.
"""

import logging
import os
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

LOG_FORMAT = "LAKE_LOG_FORMAT"
"""The variable that is `json` where a process of the lake prints its log lines as JSON."""

_fields: ContextVar[Mapping[str, str]] = ContextVar("lake_log_fields", default=MappingProxyType({}))


@contextmanager
def log_fields(**fields: str) -> Iterator[None]:
    """Adds fields to each log line that this thread writes meanwhile; empty ones are left out."""
    before = _fields.set({**_fields.get(), **{name: value for name, value in fields.items() if value}})
    try:
        yield
    finally:
        _fields.reset(before)


def json_formatter() -> logging.Formatter:
    """A formatter for any handler, also of Dagster's `python_logs`: a JSON object in each line, with `timestamp` (ISO
    8601, UTC), `level`, `logger`, `event`, the fields, and what the line itself has (`extra`)."""
    # Imported here: it takes a third of a second, and most processes print no JSON.
    from structlog import processors, stdlib

    return stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            stdlib.add_logger_name,
            stdlib.add_log_level,
            processors.TimeStamper(fmt="iso", utc=True),
            stdlib.ExtraAdder(),
            _with_fields,
        ],
        processors=[
            stdlib.ProcessorFormatter.remove_processors_meta,
            processors.format_exc_info,
            processors.JSONRenderer(),
        ],
    )


def print_json_if_asked() -> None:
    """Prints the log lines of the lake as JSON on standard error from now on, if LOG_FORMAT asks for it."""
    if os.environ.get(LOG_FORMAT) != "json":
        return
    logger = logging.getLogger("lake_assets")
    if not any(handler.name == LOG_FORMAT for handler in logger.handlers):
        printed = logging.StreamHandler()
        printed.name = LOG_FORMAT
        printed.setLevel(logging.INFO)
        printed.setFormatter(json_formatter())
        logger.addHandler(printed)
    logger.propagate = False  # else other handlers of the process print each line again
    logger.setLevel(min(logger.level or logging.INFO, logging.INFO))


def _with_fields(_logger: object, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    # A handler that came first has noted its text and time in the record.
    own = {name: value for name, value in event.items() if name not in ("message", "asctime")}
    return {**_fields.get(), **own}
