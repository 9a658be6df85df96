"""Where commands print: the only place that makes a console.

What is printed comes from files, tables and errors of others. It is printed as it is: no markup (`[/x]` in a cell would
be an error, `[red]` would vanish) and no emoji codes. What stands out does so by a style.
"""

import sys

from rich.console import Console

WIDE = 150
"""Columns of a table that goes to a file or a pipe."""


def results(width: int = WIDE) -> Console:
    """Standard output; `width`: where it is no terminal."""
    return Console(width=None if sys.stdout.isatty() else width, markup=False, emoji=False)


def messages() -> Console:
    """Standard error; a line is as long as it is."""
    return Console(stderr=True, soft_wrap=True, markup=False, emoji=False)
