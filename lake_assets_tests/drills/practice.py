"""A lake of a drill, on which the real command line runs, in this process and so with one Spark for all drills.

Here: lake.yaml, commands, what they have shown, the comparison with the source. Not here: the drills, and how a row is
judged (`drill.py`).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any

import yaml

from lake_assets_tests.helpers.lakes.bench import Bench
from lake_assets_tests.helpers.lakes.changed_shop import ITEMS, applied_shop, values
from lake_assets_tests.helpers.lakes.command_lake import call
from lake_assets_tests.helpers.processes.child import environment, run_python
from lake_assets_tests.outside.actions import Action, Place

WRONG = ("stopped", "failing")
SEEDS = 20
"""Tries of an action that is random, until it has done something."""


class Practice:
    """One lake, and what was done to it and seen."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.seen: list[str] = []
        """Reasons of stops, sentences of commands that refused, quarantined files, and observations of a drill."""
        self.done: list[str] = []
        """Commands, and edits of lake.yaml."""
        self.stops = 0
        """Turns after which a table had stopped."""
        self.compared = 0
        self._write()

    @property
    def folder(self) -> Path:
        return self.bench.folder

    @property
    def location(self) -> Path:
        assert self.bench.location is not None
        return self.bench.location

    def act(self, action: Action) -> None:
        """Does one of the random actions from outside, which must be possible here."""
        for seed in range(SEEDS):
            place = Place(self.bench.lake, self.folder, Random(seed))
            if action(place) is not None:
                break
        else:
            raise AssertionError(f"{action.__name__} is not possible here")

    def edit(self, tables: Mapping[str, Mapping[str, Any]], line: Mapping[str, Any]) -> None:
        """lake.yaml gets these tables; `line`: what the user would say was edited."""
        self.bench.edit(tables)
        self._edited(line)

    def edit_source(self, line: Mapping[str, Any], **settings: Any) -> None:
        """The same for the source."""
        self.bench.edit_source(**settings)
        self._edited(line)

    def run(self, *words: str, refused: bool = False, apart: bool = False) -> str:
        """Runs `lake-assets` with these words, which must succeed, or, with `refused`, must not; its output. `apart`:
        in a process of its own, which has no caches of this one."""
        self.done.append(" ".join(words))
        code, said = _apart(self.folder, words) if apart else _here(self.folder, words)
        if refused:
            self.seen.append(said)
        if bool(code) is not refused:
            raise AssertionError(f"lake-assets {' '.join(words)} exits with {code}: {said}")
        return said

    def sync(self, *, apart: bool = False) -> list[str]:
        """Runs `sync` and looks at `status`: the reasons of the tables that have stopped."""
        call_ = _apart if apart else _here
        self.done.append("sync")
        code, said = call_(self.folder, ["sync"])
        looked, shown = call_(self.folder, ["status", "--json"])
        lines = _json(shown)
        reasons = [str(line["reason"]) for line in lines if line["state"] in WRONG]
        if not lines:  # `status` itself is refused
            reasons = [shown]
        self.seen += reasons
        self.stops += bool(reasons)
        assert bool(code) is bool(looked) is bool(reasons), (code, looked, said, shown)
        return reasons

    def status(self, name: str = "items") -> dict[str, Any]:
        """What `status` has of a table."""
        _, shown = _here(self.folder, ["status", "--json"])
        (line,) = (line for line in _json(shown) if line["table"] == f"silver_shop.{name}")
        return line

    def quarantined(self) -> list[str]:
        """The ids of what is quarantined; the reasons are seen."""
        held = _json(_here(self.folder, ["quarantine", "list", "--json"])[1])
        self.seen += [f"quarantined: {row['reason']}" for row in held]
        return [row["id"] for row in held]

    def equals(self, expected: Mapping[int, str], name: str = "items") -> None:
        """Compares a table, as PyIceberg reads it, with the source's rows."""
        self.compared += 1
        found = values(self.bench, name)
        assert found == expected, f"silver has {found}, the source {expected}"

    def equals_oracle(self, *tables: str) -> None:
        """Compares tables of current rows with what the oracle makes of the files in the bucket."""
        for table in tables:
            self.compared += 1
            found, expected = self.bench.rows(table.partition(".")[2]), self.bench.truth(table)
            assert found == expected, f"silver has {found}, the source {expected}"

    def _edited(self, line: Mapping[str, Any]) -> None:
        told = yaml.safe_dump(dict(line), default_flow_style=False)
        self.done.append(f"lake.yaml: {' '.join(told.split())}")
        self._write()

    def _write(self) -> None:
        config = self.bench.lake.config
        told = config.model_dump(mode="json", by_alias=True, exclude_unset=True)
        assert config.catalog.uri is not None
        told["catalog"]["uri"] = config.catalog.uri.get_secret_value()
        (self.folder / "lake.yaml").write_text(yaml.safe_dump(told, sort_keys=False), encoding="utf-8")


New = Callable[..., Practice]


def new_lake(folder: Path, tables: Mapping[str, Any] | None = None, **more: Any) -> Practice:
    """A lake without files."""
    folder.mkdir()
    return Practice(Bench(folder, tables or {"public.items": ITEMS}, **more))


def new_shop(folder: Path, tables: Mapping[str, Any] | None = None, **more: Any) -> Practice:
    """A lake whose table has a full load and changes, applied by `sync`."""
    found = new_lake(folder, tables, **more)
    expected = applied_shop(found.bench, found.sync)
    found.equals(expected)
    return found


def _here(folder: Path, words: Sequence[str]) -> tuple[int, str]:
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = call(folder, *words)
    return code, out.getvalue() + err.getvalue()


def _apart(folder: Path, words: Sequence[str]) -> tuple[int, str]:
    config = str(folder / "lake.yaml")
    command = ("-m", "lake_assets.cli", "--config", config)
    done = run_python(*command, *words, timeout=300, cwd=folder, env=environment())
    return done.returncode, done.stdout + done.stderr


def _json(shown: str) -> list[dict[str, Any]]:
    """The list with which the output begins; empty if it has none."""
    try:
        found: list[dict[str, Any]] = json.JSONDecoder().raw_decode(shown)[0]
    except json.JSONDecodeError:
        return []
    return found
