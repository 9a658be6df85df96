"""Where commands print: the only place that makes a console.

What is printed comes from files, tables and errors of others. It is printed as it is: no markup (`[/x]` in a cell would
be an error, `[red]` would vanish) and no emoji codes. What stands out does so by a style.
"""

import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from rich.console import Console
from rich.table import Table

T = TypeVar("T")

WIDE = 150
"""Columns of a table that goes to a file or a pipe."""


def results(width: int = WIDE) -> Console:
    """Standard output; `width`: where it is no terminal."""
    return Console(width=None if sys.stdout.isatty() else width, markup=False, emoji=False)


def messages() -> Console:
    """Standard error; a line is as long as it is."""
    return Console(stderr=True, soft_wrap=True, markup=False, emoji=False)


def table_of(
    rows: Iterable[T],
    columns: Mapping[str, Callable[[T], str]],
    left: Collection[str] = (),
    title: str | None = None,
    *,
    breaks_names: bool = False,
) -> Table:
    """A line for each row; of each column its title, and what it shows of a row. The first column and those of `left`
    begin at the left, the others end at the right. `breaks_names`: whether the first column may break."""
    table = Table(title=title, title_justify="left")
    for number, name in enumerate(columns):
        is_text = number == 0 or name in left
        table.add_column(
            name, justify="left" if is_text else "right", no_wrap=number == 0 and not breaks_names
        )
    for row in rows:
        table.add_row(*(text_of(row) for text_of in columns.values()))
    return table
