"""The consoles on which commands print; the only module that makes one.

The text comes from files, tables and foreign errors, and is printed unchanged: without markup (`[/x]` in a cell would
be an error, `[red]` would vanish) and without emoji codes. Only what a terminal would obey is shown as `\\x1b`. Styles
are set separately.
"""

import io
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lake_assets.words import printable

T = TypeVar("T")

WIDE = 100
"""The width in characters of a table that goes to a file or a pipe."""


class _Console(Console):
    """Shows each text as it is, and lets none of it steer the terminal."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **options)


def results(width: int = WIDE) -> Console:
    """Standard output; `width`: in characters, if it is not a terminal."""
    return _Console(width=None if sys.stdout.isatty() else width, markup=False, emoji=False)


def messages() -> Console:
    """Standard error, without line wrapping."""
    return _Console(stderr=True, soft_wrap=True, markup=False, emoji=False)


def printed(show: Callable[[Console], object], like: Console) -> Text:
    """What `show` prints on a console of the size and the colours of another one."""
    console = _Console(
        file=io.StringIO(), width=like.width, force_terminal=like.is_terminal, markup=False, emoji=False
    )
    with console.capture() as taken:
        show(console)
    return Text.from_ansi(taken.get())


def table_of(
    rows: Iterable[T],
    columns: Mapping[str, Callable[[T], str]],
    left: Collection[str] = (),
    title: str | None = None,
    *,
    optional: Collection[str] = (),
) -> Table:
    """A table with a line for each row. `columns`: by title, the function that returns a row's text. The first column
    and those of `left` are left-aligned and wrap where there is no room; the others are right-aligned and do not.
    `optional`: columns that are left out if every row has nothing or 0 there."""
    lines = [{name: text_of(row) for name, text_of in columns.items()} for row in rows]
    shown = [name for name in columns if name not in optional or {line[name] for line in lines} - {"", "0"}]
    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False
    )
    for number, name in enumerate(shown):
        is_text = number == 0 or name in left
        table.add_column(name, justify="left" if is_text else "right", no_wrap=not is_text, overflow="fold")
    for line in lines:
        table.add_row(*(line[name] for name in shown))
    return table
