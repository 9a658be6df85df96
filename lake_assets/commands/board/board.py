"""The board: racks, tables, latency, checks, alarms, quarantine as HTML.

Here: the parts that every lake has, read from its tables without Spark. Not here: the demonstration's racks
(`demo/marts/rack_board.py`), the web server (`serve_board.py`), computing the figures (`commands/show/`).
"""

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from jinja2 import Environment, FileSystemLoader

from lake_assets.alarms.alarm_log import AlarmLog
from lake_assets.alarms.send_alarms import unsent_alarms
from lake_assets.commands.show.latency import of_table
from lake_assets.commands.show.status import status, stream_lines
from lake_assets.config.secrets import hidden_in
from lake_assets.demo.marts.rack_board import rack_section
from lake_assets.gold.mart import Mart
from lake_assets.gold.mart_latency import mart_passages
from lake_assets.gold.table_snapshots import LoadedTables
from lake_assets.iceberg.upkeep.table_health import Health, read_health
from lake_assets.lake import Lake
from lake_assets.silver.table.masks import shown
from lake_assets.spark.causes import root_cause
from lake_assets.words import many, span

if TYPE_CHECKING:
    import dagster as dg

MOST_ROWS = 10
"""The most quarantined rows that are listed, and the most alarms; `lake-assets quarantine list` lists all rows."""

FOLDER = Path(__file__).parent
TEMPLATES = Environment(loader=FileSystemLoader(FOLDER), autoescape=True)
TEMPLATES.filters["span"] = span
TEMPLATES.filters["many"] = many

T = TypeVar("T")
logger = logging.getLogger(__name__)


def content(lake: Lake, now: datetime | None = None, instance: "dg.DagsterInstance | None" = None) -> str:
    """The HTML inside the page's `main`. If a part or a mart cannot be read, the page names it and the reason, and
    shows the others. `now`: UTC, by default the present. `instance`: the Dagster instance with the outcomes of the
    checks."""
    now = now or datetime.now(UTC)
    problems = dict[str, str]()

    def part(name: str, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except Exception as error:  # a fault of one part must not hide the others
            logger.debug("%s cannot be read", name, exc_info=True)
            problems[name] = hidden_in(lake.config, root_cause(error))
            return None

    loaded = LoadedTables(lake.runtime.catalog)
    marts, scans = dict[str, Any](), dict[str, Health | None]()
    for mart in lake.marts:
        passages = part(mart.identifier, lambda mart=mart: mart_passages(loaded, mart))  # type: ignore[misc]
        marts[mart.identifier] = of_table(mart.identifier, passages) if passages else None
        scans[mart.identifier] = part(mart.identifier, lambda mart=mart: _health(loaded, mart))  # type: ignore[misc]
    return TEMPLATES.get_template("content.html").render(
        racks=part("racks", lambda: rack_section(lake, now)),
        tables=(lines := part("tables", lambda: status(lake))),
        streams=stream_lines(lines or []),
        marts=marts,
        scans=scans,
        checks=part("checks", lambda: _checks(lake, instance)),
        alarms=part("alarms", lambda: _alarms(lake)),
        held=part("quarantine", lambda: shown(lake.runtime.quarantine.open(), lake.targets)[::-1]),
        most=MOST_ROWS,
        problems=problems,
        now=now,
    )


def _health(loaded: LoadedTables, mart: Mart) -> Health | None:
    table = loaded.table(mart.identifier)
    return read_health(table) if table is not None else None


def _checks(lake: Lake, instance: "dg.DagsterInstance | None") -> Any:
    if instance is None:
        return None
    # Dagster's import takes longer than the whole page.
    from lake_assets.orchestration.checks.check_outcomes import check_outcomes

    return check_outcomes(lake, instance)


def _alarms(lake: Lake) -> dict[str, Any] | None:
    if not lake.config.alarms.marts:
        return None
    log = AlarmLog(lake.runtime.catalog)
    unsent, problems = unsent_alarms(lake.runtime, log)
    return {
        "unsent": unsent,
        "problems": problems,
        "sent": list(log.sent().values())[::-1],
        "webhook": lake.config.alarms.webhook is not None,
    }


def page(content: str, refresh: float | None) -> str:
    """A whole page; `refresh`: seconds between two refreshes, None for a page without a server."""
    return TEMPLATES.get_template("page.html").render(content=content, refresh=refresh)
