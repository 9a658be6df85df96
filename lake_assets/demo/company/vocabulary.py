"""The words of the city: names, notes, descriptions, and texts that break careless CSV readers.

Here: pools of text and how to draw from them. Not here: what the rows mean. No text is ever exactly `NULL`, which a
CSV file could not tell from a missing value.
"""

import json
from random import Random
from typing import Any

DISTRICTS = {
    "Harbour": "office",
    "Old Town": "centre",
    "Museum Quarter": "centre",
    "Campus": "office",
    "Green Hills": "home",
    "Riverside": "home",
    "Vineyards": "home",
}
"""By district, what people do there; demand follows it (`demand.py`)."""

RENAMED_DISTRICTS = {"Harbour": "Harbour City", "Campus": 'Campus "Nord", Science Park'}

_STREETS = (
    "Linden",
    "Mill",
    "Bridge",
    "Castle",
    "Garden",
    "Market",
    "Canal",
    "Abbey",
    "Tower",
    "Orchard",
    "Zoë's",
)
_PLACES = ("Square", "Street", "Station", "Gate", "Park", "Dock", "Theatre", "Library", "Steps")

MODELS = {"City 3": False, "City 3 \N{EM DASH} low step": False, "Volt S": True, 'Volt 28"': True}
"""By model, whether it is electric. The quote in a name means inches."""

PLANS = ("annual", "monthly", "pay as you go", "student", "staff")

_GIVEN = (
    "Ana",
    "Björn",
    "Chloé",
    "Dmitri",
    "Elif",
    "Fatma",
    "Giulia",
    "Håkon",
    "Ines",
    "João",
    "Kateřina",
    "Li",
    "Łukasz",
)
_GIVEN_TOO = (
    "Máire",
    "Noor",
    "Oskar",
    "Priya",
    "Quentin",
    "Rosa",
    "Søren",
    "Thảo",
    "Uma",
    "Víctor",
    "伟",
    "さくら",
    "Zoë",
)
_FAMILY = (
    "O'Neill",
    "García",
    "de la Cruz",
    "Nowak",
    "van den Berg",
    "Müller-Lüdenscheidt",
    "Kaya",
    "Novák",
    "Rossi",
)
_FAMILY_TOO = (
    "Jensen",
    "Silva",
    "Nguyễn",
    "Dubois",
    "Horváth",
    "Smith, Jr.",
    'Miller "Mick"',
    "Haddad",
    "Okafor",
    "李",
)

AWKWARD_TEXTS = (
    "",
    " ",
    "ends with a backslash \\",
    'C:\\keys\\"spare"\\',
    'said "hello", then left',
    '"',
    '""',
    "two\nlines",
    "windows\r\nlines, and a comma",
    "tab\there",
    "  padded  ",
    "null",
    "None",
    "\\n is not a line end",
    "rides a 🚲 at 🌃, 👩‍🚒",
    "𝒃𝒊𝒌𝒆 𓀀",
    "line\u2028separator",
    "e\u0301 combined",
    "'; DROP TABLE trips; --",
    "=1+1",
    "a,b,,c",
    "00123",
    "trailing newline\n",
)

_COMPLAINTS = (
    "brakes squeal",
    "saddle loose",
    "flat tyre",
    "display dark",
    "chain off",
    "bell missing",
    "lock jammed",
)
_SCREENS = ("map", "pricing", "profile", "trip_history", "help")


def station_name(rng: Random, number: int) -> str:
    """A name that no other number has."""
    return f"{rng.choice(_STREETS)} {rng.choice(_PLACES)} {number}"


def full_name(rng: Random) -> str:
    """A person's name, in more scripts than one."""
    return f"{rng.choice(rng.choice((_GIVEN, _GIVEN_TOO)))} {rng.choice(rng.choice((_FAMILY, _FAMILY_TOO)))}"


def phone(rng: Random) -> str | None:
    """Text with leading zeros; some members have none, some left it empty."""
    draw = rng.random()
    if draw < 0.125:
        return None
    return "" if draw < 0.25 else f"00{rng.randrange(30, 99)}{rng.randrange(10**8):09d}"


def note(rng: Random) -> str | None:
    """Mostly absent; otherwise a text as a person would type it."""
    draw = rng.random()
    if draw < 0.5:
        return None
    if draw < 0.6:
        return ""
    return (
        rng.choice(AWKWARD_TEXTS)
        if draw < 0.8
        else f"prefers {rng.choice(tuple(MODELS))}, {rng.choice(_COMPLAINTS)}"
    )


def complaint(rng: Random) -> str:
    """A ticket's description."""
    text = f"{rng.choice(_COMPLAINTS)}; {rng.choice(_COMPLAINTS)}"
    return rng.choice(AWKWARD_TEXTS) if rng.random() < 0.2 else text


def payload(rng: Random, **details: Any) -> str:
    """An app event's JSON: quotes and commas in every row, and sometimes a more awkward text."""
    details["screen"] = rng.choice(_SCREENS)
    if rng.random() < 0.05:
        details["search"] = rng.choice(AWKWARD_TEXTS)
    return json.dumps(details, ensure_ascii=False)
