"""Damaged files: no crash, no wrong row in silence; every row is there, or bad, or its file is held.

Here: fixed files with one damage each, by a fixed seed, and a reference of its own that says which rows the damaged
bytes still spell. Not here: files as DMS writes them (`test_reading_properties.py`).
"""

import errno
import gzip
import io
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lake_assets.bronze.log.log_record import LoggedFile
from lake_assets.bronze.quarantine.damage import unreadable_files
from lake_assets.config import SchemaChanges
from lake_assets.errors import TableStopped
from lake_assets.schema.contract import contract_of
from lake_assets.schema.evolve import observed
from lake_assets.storage.object_store import StoreError
from lake_assets_tests.helpers.files.read_folder import Folder

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COLUMNS = {"id": "string not null", "name": "string", "note": "string"}
DMS = {"timestamp_column_name": "commit_ts", "add_column_name": True}
HEADER = ["Op", "commit_ts", *COLUMNS]
TS = "2026-03-01 12:00:00.000000"
NAMES = [
    "plain",
    "a,b",
    'say "hi"',
    "two\nlines",
    "Zoë ☕ 😀",
    "",
    '"',
    "x\nI,2026-03-01 12:00:00,9,evil,row\ny",
    ",\n,",
]
ROWS: list[tuple[str, ...]] = [
    ("I", TS, str(number), NAMES[number % len(NAMES)], f"n{number}") for number in range(14)
]
SEED = 20260301
Row = tuple[str | None, ...]


def csv_text(rows: Sequence[tuple[str, ...]], header: bool = True) -> bytes:
    def field(text: str) -> str:
        return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in '",\n') else text

    lines = [tuple(HEADER), *rows] if header else rows
    return "".join(",".join(map(field, line)) + "\n" for line in lines).encode()


def json_text(rows: Sequence[tuple[str, ...]]) -> bytes:
    return "".join(json.dumps(dict(zip(HEADER, row, strict=True))) + "\n" for row in rows).encode()


def parquet_file(rows: Sequence[tuple[str, ...]]) -> bytes:
    sink = io.BytesIO()
    arrays = [pa.array(values, pa.string()) for values in zip(*rows, strict=True)] or [
        pa.array([], pa.string())
    ] * 5
    pq.write_table(
        pa.table(arrays, names=HEADER), sink, compression=random.Random(len(rows)).choice(["none", "gzip"])
    )
    return sink.getvalue()


def damaged(content: bytes, chance: random.Random) -> tuple[str, bytes]:
    """One damage in one place."""
    at = chance.randrange(len(content) + 1)
    until = min(len(content), at + chance.randrange(1, 6))
    kind = chance.choice(["truncated", "bit", "bit", "bit", "bytes", "cut out", "put in", "repeated"])
    if kind == "truncated" or at == len(content):
        return kind, content[:at]
    if kind == "bit":
        return kind, content[:at] + bytes([content[at] ^ (1 << chance.randrange(8))]) + content[at + 1 :]
    if kind == "bytes":
        return kind, content[:at] + chance.randbytes(until - at) + content[until:]
    if kind == "cut out":
        return kind, content[:at] + content[until:]
    if kind == "put in":
        return kind, content[:at] + chance.choice(
            [b'"', b",", b"\n", b'""', b"\r", b"\0", b"\xff", b"\\"]
        ) + content[at:]
    return kind, content[:until] + content[at:]


def spelt_csv(content: bytes) -> Iterator[tuple[bytes, ...] | None]:
    """The reference: RFC 4180 byte by byte. None for the first fault, and then no more."""
    state, fields, field = "start", [], bytearray()
    for code in content:
        byte = bytes([code])
        if state == "quoted":
            if byte == b'"':
                state = "quote"
            else:
                field += byte
        elif state == "quote" and byte == b'"':
            field += byte
            state = "quoted"
        elif byte in b",\n":
            fields.append(bytes(field))
            field.clear()
            state = "start"
            if byte == b"\n":
                yield tuple(fields)
                fields = []
        elif state == "start" and byte == b'"':
            state = "quoted"
        elif state == "quote" or byte == b'"':
            yield None
            return
        else:
            field += byte
            state = "plain"
    if fields or field or state != "start":
        yield None


def row_of_csv(fields: tuple[bytes, ...] | None) -> Row | None:
    """What a reader may make of a record: nothing, if it has another width, no UTF-8, no id or an unknown operation."""
    if fields is None or len(fields) != len(HEADER):
        return None
    try:
        texts = [field.decode() for field in fields]
    except UnicodeDecodeError:
        return None
    return tuple(None if text == "NULL" else text for text in (texts[0], *texts[2:]))


def spelt_json(content: bytes) -> Iterator[Row | None]:
    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in found}) < len(found):
            raise ValueError("doubled")
        return dict(found)

    for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        if line.strip():
            try:
                found = json.loads(line.decode(), object_pairs_hook=pairs, parse_int=str, parse_float=str)
                yield tuple(found.get(name) for name in ("Op", *COLUMNS))
            except (ValueError, AttributeError):
                yield None


def spelt_parquet(content: bytes) -> Iterator[Row | None]:
    table = pq.read_table(io.BytesIO(content)).select(["Op", *COLUMNS])
    for row in zip(*(column.cast(pa.binary()).to_pylist() for column in table.columns), strict=True):
        try:
            yield tuple(None if value is None else value.decode() for value in row)
        except UnicodeDecodeError:
            yield None


def unpacked(name: str, content: bytes) -> bytes:
    return gzip.decompress(content) if name.endswith(".gz") else content


Case = tuple[str, str, bytes]
"""Kind of damage, the file's ending, its bytes."""


def cases(ending: str, count: int) -> Iterator[Case]:
    """Damaged files with this ending, after the ones that anybody would think of."""
    chance = random.Random(f"{SEED} {ending}")
    text = {"csv": csv_text, "jso": json_text, "par": parquet_file}[ending[:3]]
    pack: Callable[[bytes], bytes] = (lambda b: gzip.compress(b, mtime=0)) if ending.endswith("gz") else bytes
    whole = text(ROWS)
    yield "none", ending, pack(whole)
    yield "empty", ending, b""
    yield "zero rows", ending, pack(text([]))
    yield "BOM", ending, pack(b"\xef\xbb\xbf" + whole)
    yield "CRLF", ending, pack(whole.replace(b"\n", b"\r\n"))
    yield "1 MB field", ending, pack(text([*ROWS[:3], ("I", TS, "big", 'x"\n' * 350_000, "n"), *ROWS[3:]]))
    yield "1 MB line", ending, pack(whole + b"," * 1_000_000 + b"\n" + whole)
    yield "wrong codec", ending, whole if ending.endswith("gz") else gzip.compress(whole, mtime=0)
    yield "wrong codec", ending, parquet_file(ROWS) if ending[:3] != "par" else csv_text(ROWS)
    for _ in range(count):
        # Inside of a gzip stream or around it.
        inside = ending.endswith("gz") and chance.random() < 0.5
        kind, content = damaged(whole if inside or not ending.endswith("gz") else pack(whole), chance)
        yield kind, ending, pack(content) if inside else content


REFERENCE: dict[str, Callable[[bytes], list[Row | None]]] = {
    "csv": lambda content: [row_of_csv(row) for row in spelt_csv(content.removeprefix(b"\xef\xbb\xbf"))][1:],
    "jso": lambda content: list(spelt_json(content)),
    "par": lambda content: list(spelt_parquet(content)),
}


@pytest.mark.parametrize(
    ("ending", "count"),
    [
        ("csv", 120),
        ("csv.gz", 40),
        ("json", 60),
        ("parquet", 40),
        *(
            pytest.param(ending, count, marks=pytest.mark.long)
            for ending, count in (("csv", 700), ("csv.gz", 150), ("json", 300), ("parquet", 60))
        ),
    ],
)
def test_no_wrong_row_in_silence(spark: SparkSession, tmp_path: Path, ending: str, count: int) -> None:
    folder = Folder(tmp_path, COLUMNS, ["id"], **DMS)
    told: Counter[str] = Counter()
    contents: dict[str, Case] = {}
    for number, case in enumerate(cases(ending, count)):
        key = (
            f"public/items/20260301-{number // 3600:02d}{number // 60 % 60:02d}{number % 60:02d}000.{ending}"
        )
        contents[key] = case
        file = folder.put(key, case[2])
        if file is None:
            told["held: unreadable"] += 1
        elif not columns_fit(folder, file):
            folder.files.remove(file)
            told["held: columns"] += 1
    try:
        rows = usable(folder, spark)
    except (pa.ArrowException, OSError):
        held = {
            error.key
            for error in unreadable_files(spark, folder.store, folder.files, lambda file: folder.dms)
        }
        assert held, "the batch failed, and no file is to blame"
        told["held: damaged inside"] += len(held)
        folder.files = [file for file in folder.files if file.key not in held]
        rows = usable(folder, spark)
    by_file: dict[str, list[Any]] = {file.key: [] for file in folder.files}
    for row in rows:
        by_file["public/items/" + row["_file"].rsplit("/", 1)[1]].append(row)
    originals: set[Row] = {(op, *rest) for op, _, *rest in ROWS}
    for file in folder.files:
        kind, name, content = contents[file.key]
        spelt = REFERENCE[ending[:3]](unpacked(name, content))
        read = by_file[file.key]
        good = [(row["_op"], *row["_image"]) for row in read if row["_bad"] is None]
        where = f"{kind} {file.key} ({file.irregular})"
        assert len(read) == file.rows, where
        wrong = [row for row in good if row not in originals and row not in spelt]
        assert not wrong, f"{where}: {wrong[:2]} of {content[:2000]!r}"
        if len(good) == len(read):
            assert good == spelt, f"{where}: {content[:2000]!r}"
            told["as the bytes say"] += 1
        else:
            told["with bad rows"] += 1
            told["bad rows"] += len(read) - len(good)
            told["good rows beside them"] += len(good)
    print(ending, dict(told))
    assert sum(told[name] for name in told if "rows" not in name or name == "with bad rows") == len(contents)
    assert told["as the bytes say"] > 0
    assert told["held: unreadable"] > 0


def usable(folder: Folder, spark: SparkSession) -> list[Any]:
    """The changes; of bad rows without their values, which may be no text that Spark Connect's client can read."""
    image = F.when(F.col("_bad").isNull(), F.col("_image")).alias("_image")
    return folder.changes(spark).select("_op", "_bad", "_file", image).collect()


def columns_fit(folder: Folder, file: LoggedFile) -> bool:
    """Whether a table that stops at any change of its columns would take the file."""
    contract = contract_of(folder.table, folder.dms)
    try:
        observed("t", contract, file, SchemaChanges.model_validate("stop"), {})
    except TableStopped:
        return False
    return True


@pytest.mark.parametrize(
    ("fault", "when"),
    [
        ("Spark's", "read"),
        ("the disk's", "inspected"),
        ("the disk's", "read"),
        ("the memory's", "inspected"),
        ("the memory's", "read"),
    ],
)
def test_no_file_is_to_blame_for_what_cannot_be_reached(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, when: str
) -> None:
    """A folder that Spark's machine has not mounted, a disk or a network that fails, a process without memory."""
    folder = Folder(tmp_path, COLUMNS, ["id"], **DMS)
    file = folder.put("public/items/20260301-000000000.parquet", parquet_file(ROWS))
    assert file is not None

    whole, opened = pq.ParquetFile, []

    def fails(stream: Any) -> Any:
        opened.append(stream)
        if len(opened) == (1 if when == "inspected" else 2):
            disk = OSError(errno.EIO, "Input/output error")
            raise disk if fault == "the disk's" else pa.ArrowMemoryError("malloc")
        return whole(stream)

    if fault == "Spark's":
        monkeypatch.setattr(folder.store, "spark_uri", lambda key: f"file:///nowhere/{key}")
    else:
        monkeypatch.setattr(pq, "ParquetFile", fails)
    told = (
        (PySparkException, "nowhere") if fault == "Spark's" else (StoreError, "its content is not at fault")
    )
    with pytest.raises(told[0], match=told[1]):
        unreadable_files(spark, folder.store, folder.files, lambda file: folder.dms)
