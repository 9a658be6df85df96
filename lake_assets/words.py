"""Numbers in printed text: a noun and a verb that agree with their number, and readable durations; texts of others.

Not here: sentences.
"""

import re

_SINGULAR = {"are": "is", "were": "was", "have": "has", "do": "does"}
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Characters that a terminal acts on: escape sequences set its title or clear it, marks of direction reorder a line."""


def many(number: int, noun: str, verb: str = "") -> str:
    """`1 file`, `2 files`; with the verb in its plural form, `1 file is`, `2 files are`."""
    plural = f"{noun}es" if noun.endswith(("ch", "s", "x")) else f"{noun}s"
    counted = f"{number:,} {noun if number == 1 else plural}"
    return f"{counted} {does(number, verb)}" if verb else counted


def does(number: int, verb: str) -> str:
    """The verb, given in its plural form, in agreement with the number."""
    return verb if number != 1 else _SINGULAR.get(verb, f"{verb}s")


def them(number: int) -> str:
    """The pronoun for that number of things."""
    return "it" if number == 1 else "them"


def span(seconds: float) -> str:
    """The two largest units of a span of time: `2 d 14 h`, `14 min 3 s`, `0.4 s`."""
    if seconds < 0:
        return f"-{span(-seconds)}"
    if seconds < 10:
        return f"{seconds:.1f} s"
    left, parts = round(seconds), list[str]()
    for size, unit in _UNITS:
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count} {unit}")
    return " ".join(part for part in parts[:2] if not part.startswith("0 "))


def printable(text: str) -> str:
    """The text, with the characters that a terminal would act on as Python writes them, such as `\\x1b`."""
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)
