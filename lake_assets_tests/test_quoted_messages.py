"""The messages that docs/outside_changes.md quotes are those of the code.

Not here: whether the commands beside them mend a lake (`silver/test_outside_changes.py`).
"""

import ast
import re
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent
QUOTED = (PROJECT / "docs/outside_changes.md").read_text(encoding="utf-8")
GAP = "\0"
"""Stands for a value in a text of the code."""


def quotes() -> list[str]:
    """What the tables' second column has in backticks and with a `…`."""
    rows = re.findall(r"^\|[^|]*\|([^|]*)\|", QUOTED, re.MULTILINE)
    return [quote for row in rows for quote in re.findall(r"`([^`]*…[^`]*)`", row)]


def texts() -> list[str]:
    """The texts of the package."""
    found = []
    for path in (PROJECT / "lake_assets").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = [part.value if isinstance(part, ast.Constant) else GAP for part in node.values]
                found.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return found


TEXTS = texts()


def test_there_are_quotes() -> None:
    assert len(quotes()) > 10


@pytest.mark.parametrize("quote", quotes())
def test_a_quote_is_in_the_code(quote: str) -> None:
    """Piece by piece: the pieces are between values, property names, and numbers with their nouns."""
    pieces = re.split(r"…|\b[A-Z]\b \w+|lake\.log-offset", quote)
    missing = [piece.strip() for piece in pieces if not any(piece.strip() in text for text in TEXTS)]
    assert missing == []
