"""Numbers in printed text agree with their nouns and verbs, wherever they are printed."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lake_assets.words import does, many, span

PACKAGE = Path(__file__).parent.parent / "lake_assets"
NOUNS = (
    "files|rows|tables|marts|sources|columns|keys|seconds|days|commits|changes|statements|partitions|fields|images|parts"
    "|records|updates|transactions|snapshots|batches|events|objects|sessions|attempts|versions|checks|alarms|more were"
)
COUNTED = re.compile(rf"(\{{[^{{}}]+\}}\}}?|%d) (more |silver |CDC |such |pending |new )?({NOUNS})\b")
"""A number and a plural noun in one text."""
VERB_APART = re.compile(r"\bmany\([^{}]*\)\} (are|were|have|do)\b")
"""A counted noun and a plural verb that does not know the number."""
CONSTANT = re.compile(r"\{[A-Z_]+(:,)?\}")
"""A number that is never one."""


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (many(1, "file"), "1 file"),
        (many(0, "file"), "0 files"),
        (many(1200, "batch"), "1,200 batches"),
        (many(1, "row", "were"), "1 row was"),
        (many(2, "row", "were"), "2 rows were"),
        (many(1, "file", "wait"), "1 file waits"),
        (does(1, "have"), "has"),
        (does(3, "have"), "have"),
    ],
)
def test_a_number_agrees(said: str, expected: str) -> None:
    assert said == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, "0.0 s"),
        (0.44, "0.4 s"),
        (59.6, "1 min"),
        (75, "1 min 15 s"),
        (3600, "1 h"),
        (224_071, "2 d 14 h"),
        (86_400 * 400 + 59, "400 d"),
        (-75, "-1 min 15 s"),
    ],
)
def test_a_span_of_time(seconds: float, expected: str) -> None:
    assert span(seconds) == expected


def lines() -> Iterator[tuple[str, str]]:
    """Each line of the package that has values in a text, and its place. The demonstration's own errors, of its
    developers, are left out."""
    for path in (*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.html")):
        if "demo" not in path.parts:
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
                if "f'" in line or 'f"' in line or "%d" in line or path.suffix == ".html":
                    yield f"{path.name}:{number}", line.strip()


def test_no_text_has_a_number_beside_a_plural() -> None:
    assert [
        (place, line)
        for place, line in lines()
        for match in [COUNTED.search(line)]
        if match and not CONSTANT.fullmatch(match[1])
    ] == []


def test_no_counted_noun_has_a_plural_verb_beside_it() -> None:
    assert [(place, line) for place, line in lines() if VERB_APART.search(line)] == []


def test_no_text_has_an_article_before_a_mode() -> None:
    """One of them is `append_log`."""
    assert [(place, line) for place, line in lines() if re.search(r"\ban? \{[^{}]*mode", line)] == []
