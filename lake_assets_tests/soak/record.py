"""Outcomes in a file, a line each, so that many short runs make one record.

Here: reading and writing them. Not here: what an outcome is (`run.py`).
"""

import json
import time
from dataclasses import asdict, fields
from pathlib import Path

from lake_assets_tests.soak.run import Outcome


def recorded(file: Path | None) -> list[Outcome]:
    """The outcomes of earlier runs; for a seed that was run again, the last one."""
    if file is None or not file.exists():
        return []
    names = {field.name for field in fields(Outcome)}
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    by_seed = {line["seed"]: line for line in lines}
    return [
        Outcome(**{name: value for name, value in line.items() if name in names}) for line in by_seed.values()
    ]


def add_to(file: Path | None, outcome: Outcome) -> None:
    """Adds one outcome, with the time."""
    if file is not None:
        with file.open("a") as stream:
            stream.write(json.dumps({"at": time.strftime("%FT%TZ", time.gmtime()), **asdict(outcome)}) + "\n")
