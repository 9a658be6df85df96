"""Columns of type json take exactly the JSON of RFC 8259, in every kind of file, of any size.

Here: the test of a text, and files with such columns. Not here: the lines of JSON-lines files (`test_json_lines.py`).
"""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lake_assets.bronze.files.json_lines import is_json
from lake_assets_tests.helpers.files.items import Items
from lake_assets_tests.helpers.oracles import json_grammar

pytestmark = pytest.mark.spark
LARGE = {
    "a string of 20 million characters": '"' + "x" * 20_000_001 + '"',
    "a million escapes": '"' + r"\n\u00e9" * 500_000 + '"',
    "1,200 nested arrays": "[" * 1200 + "]" * 1200,
    "a hundred thousand nested objects": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "a number of 1,500 digits": "1" * 1500,
    "a number of a million digits": "-0." + "1" * 1_000_000 + "e-5",
    "a name of 60,000 characters": '{"' + "n" * 60_000 + '":{"' + "m" * 60_000 + '":1}}',
    "a hundred thousand strings": json.dumps(['a"b'] * 100_000),
}
BROKEN = {
    "one bracket too few": "[" * 1200 + "]" * 1199,
    "one quote too few": '"' + "x" * 2_000_000,
    "one name without quotes": "[" * 1200 + "{a:1}" + "]" * 1200,
    "a long name without its value": '{"' + "n" * 60_000 + '"}',
}


def test_the_border() -> None:
    texts = [*json_grammar.VALID, *json_grammar.INVALID, *json_grammar.near_json(45, 20_000)]
    assert all(map(json_grammar.is_json, json_grammar.VALID))
    assert not any(map(json_grammar.is_json, json_grammar.INVALID))
    expected = [json_grammar.is_json(text) for text in texts]
    assert 2000 < sum(expected) < 18_000
    assert [text for text, valid in zip(texts, expected, strict=True) if is_json(text) is not valid] == []


def test_every_kind_of_file_says_the_same(spark: SparkSession, tmp_path: Path) -> None:
    files = Items(tmp_path, {"doc": "json"})
    # A CSV field cannot have a NUL, nor a text of this process: such a file is not regular, and is another test's.
    texts = [text for text in (*json_grammar.VALID, *json_grammar.INVALID) if text and "\x00" not in text]
    quoted = ['"' + text.replace('"', '""') + '"' for text in texts]
    files.csv(*quoted)
    files.csv(*quoted, '5" pipe')
    files.json(*({"doc": text} for text in texts))
    files.parquet({"doc": pa.array(texts)})
    expected = [text if json_grammar.is_json(text) else "doc is not a valid json" for text in texts]
    found = [row if isinstance(row, str) else row[-1] for row in files.rows()]
    assert [row for row in found if not row.startswith("a quote in it neither")] == expected * 4


@pytest.mark.parametrize(
    "form",
    ["csv", "json value", *(pytest.param(form, marks=pytest.mark.long) for form in ("json", "parquet"))],
)
def test_any_size(spark: SparkSession, tmp_path: Path, form: str) -> None:
    files = Items(tmp_path, {"doc": "json"})
    texts = [*LARGE.values(), *(BROKEN.values() if form != "json value" else [])]
    if form == "csv":
        files.csv(*('"' + text.replace('"', '""') + '"' for text in texts))
    elif form == "parquet":
        files.parquet({"doc": pa.array(texts)})
    elif form == "json":
        files.json(*({"doc": text} for text in texts))
    else:
        files.json(*(b'"doc":' + text.encode() for text in texts))
    expected: list[Any] = [*LARGE.values()]
    if form == "json value":
        # A value that is a string is its characters.
        expected = [json.loads(text) if text[0] == '"' else text for text in expected]
        names = [name for name, text in LARGE.items() if text[0] == '"']
        assert [name for name, a, b in zip(LARGE, files.values(), expected, strict=True) if a != b] == names
        return
    found = files.values()
    assert [name for name, a, b in zip(LARGE, found, expected, strict=False) if a != b] == []
    assert found[len(LARGE) :] == ["doc is not a valid json"] * len(BROKEN)
