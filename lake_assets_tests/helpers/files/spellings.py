"""Spellings of values in CSV files, by type: usual ones, and others near the border of what a type accepts."""

import random

SEEDS = {
    "timestamptz": [
        "2026-03-01 12:00:00.123456",
        "2026-03-01T12:00:00",
        "2026-3-1 1:2:3.5",
        "0001-01-01 00:00:00",
        "12026-03-01 12:00:00.5",
        "2026-03-01 12:00:00.+01:00",
        "2026-03-01 12:00:00.123+01",
        "2026-03-29 02:30:00",
        "2026-03-08 02:30:00.000001",
        "2026-03-01 12:00:00 N",
        "2026-03-01 12:00:00.12 GMT0",
        "2026-03-01 12:00:00Z",
        "2026-03-01 12:00",
        "T12:00:00",
        "12:00:00.5",
        "-2026-03-01 12:00:00",
        "+2026-03-01 12:00:00 UTC",
        "2026-03-01 12:00:00.1234567000",
        "2026-11-01 01:30:00",
        "-50000-01-01 00:00:00",
    ],
    "decimal(10, 2)": [
        "12.30",
        "-0.5",
        ".5",
        "1.",
        "12.3000",
        "12.345",
        "1.25e1",
        "12500e-4",
        "0e-5",
        "0.000e9",
        "0e37",
        "0e38",
        "0.00e40",
        "+7",
        "99999999.99",
        "99999999.995",
        "1e9",
    ],
    "double": [
        "1.5",
        "-0",
        "0.000e5",
        "1e400",
        "1e-400",
        "5e-324",
        "1d",
        "2F",
        "0x1p3",
        "NaN",
        "-Infinity",
        "inf",
        "1e5",
        ".5",
        "5.",
        "1e",
        "1234567.890123",
        "0e",
        "0d",
    ],
    "int": [
        "0",
        "-1",
        "+1",
        "2147483647",
        "-2147483648",
        "2147483648",
        "0x1F",
        "1e3",
        "1.0",
        " 7",
        "007",
        "-0",
    ],
    "long": ["9223372036854775807", "-9223372036854775808", "9223372036854775808", "0X1f", "12", "1_000"],
    "boolean": ["true", "FALSE", "t", "F", "1", "0", "yes", "tRUE", "01"],
    "date": [
        "2026-03-01",
        "2026-02-30",
        "2024-02-29",
        "0001-01-01",
        "2026-03-01 00:00:00",
        "2026-3-1",
        "12026-03-01",
    ],
    "timestamp": [
        "2026-03-01 12:00:00.123456",
        "2026-03-01T12:00:00",
        "2026-03-01 12:00",
        "2026-03-01 12:00:60",
    ],
    "time": ["12:00:00", "12:00:00.5", "24:00:00", "1:00:00"],
    "binary": ["00ff", "0", "xy", "ABCDEF"],
    "uuid": ["6F9619FF-8B86-D011-B42D-00CF4FC964FF", "6f9619ff"],
    "json": ['{"a": 1}', "null", "{", "[]"],
    "string": ["", " a ", "NULL", "x"],
    "float": ["1.5", "1e39", "1e-50", "3.4028236e38", "0.1", "1f", "Infinity", "-0.0"],
}
MARKS = "0159+-.:TZeEdDfFxXiINn \t\n\r\x0b\x1c\x01\x7f\u0085\u2028\u0661,_"


def texts(declared: str) -> list[str]:
    """The seeds, and each with one to three characters put in, taken out or replaced; the same ones in every run."""
    chance = random.Random(declared)
    found = list(SEEDS[declared])
    for _ in range(3_000):
        text = chance.choice(SEEDS[declared])
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(text) + 1)
            text = text[:at] + chance.choice((chance.choice(MARKS), "")) + text[at + chance.randint(0, 1) :]
        found.append(text)
    return found
