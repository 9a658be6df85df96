"""The index of docs/decisions.md names every record, by its number, title and part."""

import re
from pathlib import Path

TEXT = (Path(__file__).parent.parent / "docs/decisions.md").read_text(encoding="utf-8")


def records() -> list[tuple[str, str, str]]:
    """Number, title and part of each record: a paragraph below a heading that begins with bold text. A record without
    a number has an empty one."""
    found = []
    part = ""
    for paragraph in TEXT.split("\n\n"):
        if heading := re.match(r"## (.+)", paragraph):
            part = heading[1]
        elif part and (record := re.match(r"\*\*(?:(\d+)\. )?(.+?)\*\*", paragraph, re.DOTALL)):
            found.append((record[1] or "", " ".join(record[2].split()).rstrip(".:"), part))
    return found


def test_the_index_has_every_record_once() -> None:
    index = [tuple(row) for row in re.findall(r"^\| (\d+) \| (.+) \| (.+) \|$", TEXT, re.MULTILINE)]
    assert index == sorted(records(), key=lambda record: int(record[0] or 0))


def test_numbers_are_given_once() -> None:
    numbers = [int(number or 0) for number, _, _ in records()]
    assert sorted(numbers) == sorted(set(numbers) - {0})
