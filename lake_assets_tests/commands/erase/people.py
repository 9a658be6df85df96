"""A table of people, one of whom is to be forgotten, and a search for what is left of her.

The search shares no code with the package's own. Here: the files of the table, and the search. Not here: the erasure.
"""

import gzip
import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyiceberg.avro.file import AvroFile
from pyiceberg.io.pyarrow import PyArrowFileIO

from lake_assets.commands.erase.erase import Erased, Followers, erase
from lake_assets.commands.erase.erasure_plan import ErasurePlan, erasure_plan
from lake_assets_tests.helpers.files.dms_files import (
    NOON,
    Clock,
    DmsFile,
    cdc_file,
    load_file,
    transaction_file,
)
from lake_assets_tests.helpers.lakes.bench import Bench

TABLE = "public.people"
PEOPLE: dict[str, Any] = {
    "columns": {"id": "long not null", "name": "string", "mail": "string", "phone": "long", "city": "string"},
    "primary_key": ["id"],
    "also": ["change_log", "history"],
}
HERS = re.compile(rb"Adelheid|Hollerbach|a\.hollerbach|491701234567")
"""What nobody else has. She lives in the city of others."""


def person(number: int, version: int = 0) -> dict[str, Any]:
    """A row; 1 is the person who is forgotten."""
    name = f"Adelheid Hollerbach-{version}" if number == 1 else f"Person {number} ({version})"
    mail = f"a.hollerbach{version}@example.org" if number == 1 else f"p{number}@example.org"
    return {
        "id": number,
        "name": name,
        "mail": mail,
        "phone": 491701234560 + 6 + number,
        "city": "Musterstadt",
    }


def people_bench(folder: Path, **more: Any) -> Bench:
    """An empty lake with the table."""
    return Bench(folder, {TABLE: PEOPLE | more.pop("table", {})}, **more)


def history_of(extension: str = "csv", clock: Clock | None = None) -> list[list[DmsFile]]:
    """Batches of files: a load of six people, changes of theirs, and the deletion of the person."""
    clock = clock or Clock()

    def changes(*rows: dict[str, Any]) -> DmsFile:
        clock.now += timedelta(minutes=1)
        if extension == "transactions":
            return transaction_file(clock.now, [(TABLE, row) for row in rows])
        return cdc_file(TABLE, clock.now, rows, extension)

    loaded = extension if extension != "transactions" else "csv"
    return [
        [load_file(TABLE, [person(number) for number in range(1, 7)], at=NOON, extension=loaded)],
        [
            changes(
                clock.change("U", person(2, 1)), clock.change("U", person(1, 1)), clock.change("I", person(7))
            )
        ],
        [changes(clock.change("U", person(1, 2)), clock.change("U", person(3, 2)))],
        [changes(clock.change("D", person(1, 2)), clock.change("U", person(4, 3)))],
    ]


def apply_all(bench: Bench, batches: Sequence[Sequence[DmsFile]], types: Any = None) -> None:
    """Lands and applies the batches, one after the other."""
    for files in batches:
        bench.put(*files, types=types)
        bench.apply()


def plan_of(bench: Bench, *keys: str, **more: Any) -> ErasurePlan:
    """The plan of an erasure of the table."""
    return erasure_plan(bench.lake, bench.lake.targets, keys or ("1",), **more)


def erased(bench: Bench, *keys: str, **more: Any) -> Erased:
    """Erases from the table; nothing may be left."""
    done = erase(bench.lake, plan_of(bench, *keys), Followers(), **more)
    assert not done.left, done.left
    return done


def forget(bench: Bench, *keys: int) -> None:
    """Takes the rows of the keys out of the files that the oracle knows."""
    for key, file in bench.bucket.items():
        bench.bucket[key] = DmsFile(key, tuple(row for row in file.rows if row["id"] not in keys))


def left_of_her(*folders: Path) -> list[str]:
    """The files that have something of hers, decoded in every way."""
    return left_of(HERS, *folders)


def left_of(values: "re.Pattern[bytes]", *folders: Path) -> list[str]:
    """The files that have one of the values, decoded in every way."""
    found = {path for folder in folders for path in folder.rglob("*") if path.is_file()}
    return sorted(
        str(path) for path in found if any(values.search(text) for text in _texts(path, path.read_bytes()))
    )


def _texts(path: Path, content: bytes) -> Iterator[bytes]:
    yield content
    if content.startswith(b"\x1f\x8b"):
        yield gzip.decompress(content)
    elif content.startswith(b"PAR1"):
        yield str(pq.read_table(path).to_pylist()).encode()
    elif content.startswith(b"Obj\x01"):
        with AvroFile[Any](PyArrowFileIO().new_input(str(path))) as records:
            yield str([[record[place] for place in range(len(record))] for record in records]).encode()
