"""JSON lines: what a value's text is, what is refused, and that the members and the texts of a line agree."""

import json
import re
import sys
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lake_assets.bronze.files.json_lines import json_lines, json_members, json_object
from lake_assets_tests.helpers.files.read_folder import Folder
from lake_assets_tests.helpers.oracles import json_grammar


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        (b"{}", {}),
        (b' { "a" : 1 , "b":null } \r\n', {"a": "1", "b": None}),
        (b'{"a": 12345678901234567890.1234567890}', {"a": "12345678901234567890.1234567890"}),
        (b'{"a": 1e400, "b": -0.10}', {"a": "1e400", "b": "-0.10"}),
        (b'{"a": true, "b": "true"}', {"a": "true", "b": "true"}),
        (b'{"a": {"z": 1.0,  "a": [1, 2.50]}, "b": [ ]}', {"a": '{"z": 1.0,  "a": [1, 2.50]}', "b": "[ ]"}),
        (b'{"a": {"x": 1, "x": 2}}', {"a": '{"x": 1, "x": 2}'}),
        (rb'{"a": "\u00e9\ud83d\ude00\n\"\\"}', {"a": 'é😀\n"\\'}),
        (b'{"": ""}', {"": ""}),
    ],
)
def test_texts(line, texts):
    assert json_object(line) == texts


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "not a JSON object"),
        (b"[1]", "not a JSON object"),
        (b'"a"', "not a JSON object"),
        (b'{"a": 1', "not a JSON object"),
        (b'{"a": 1,}', "not a JSON object"),
        (b'{"a" 1}', "not a JSON object"),
        (b"{'a': 1}", "not a JSON object"),
        (b'{"a": 01}', "not a JSON object"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'{"a": 1} {"b": 2}', "not a JSON object"),
        (b'{"a": "x\ty"}', "not a JSON object"),
        (b'{"a": 1, "a": 1}', "a key twice"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (rb'{"a": "\ud83d"}', "surrogate"),
        (b'{"a":' * 5000, "not a JSON object"),
    ],
)
def test_refused(line, reason):
    with pytest.raises(ValueError, match=reason):
        json_object(line)


DEEP = 20_000


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("[" * DEEP + "]" * DEEP, None),
        ('{"a" : ' * DEEP + r'"\u00e9\\"' + "} " * (DEEP - 1) + "}", None),
        ("[ {}, 1.5e5 , [ ] , " * DEEP + "null" + "]" * DEEP, None),
        ('"' + "x" * 20_000_001 + '"', "x" * 20_000_001),
        ("1" * 5000, None),
    ],
    ids=["arrays", "objects", "both", "long text", "long number"],
)
def test_no_limit_but_memory(value, text):
    line = f' {{"a":{value} ,"b":1}} '.encode()
    assert json_object(line) == {"a": value if text is None else text, "b": "1"}
    assert list(json_members(line)) == ["a", "b"]


@pytest.mark.parametrize(
    "value",
    [
        "[" * DEEP + "]" * (DEEP - 1),
        "[" * DEEP + "]" * DEEP + "]",
        "[" * DEEP + "1 2" + "]" * DEEP,
        "[" * DEEP + "1,]" + "]" * (DEEP - 1),
        "[" * DEEP + "'a'" + "]" * DEEP,
        "[" * DEEP + "01" + "]" * DEEP,
        "[" * DEEP + "NaN" + "]" * DEEP,
        "[" * DEEP + '"a\tb"' + "]" * DEEP,
        "[" * DEEP + r'"\x"' + "]" * DEEP,
        "[" * DEEP + '{"a":1,}' + "]" * DEEP,
        "[" * DEEP + '{"a"}' + "]" * DEEP,
        "[" * DEEP + '{"a":1 "b":2}' + "]" * DEEP,
        "[" * DEEP + "{1:2}" + "]" * DEEP,
        "[" * DEEP + "1}" + "]" * DEEP,
        "[" * DEEP + "}" + "]" * DEEP,
        "[" * DEEP + "]" * DEEP + "} {",
        "[" * DEEP + "]" * DEEP + ',"a":1',
    ],
)
def test_a_deep_value_is_read_as_strictly(value):
    with pytest.raises(ValueError, match=r"not a JSON object|a key twice"):
        json_object(f'{{"a":{value}}}'.encode())


@given(st.integers(), st.integers(0, 3))
@settings(max_examples=150, deadline=None)
def test_any_line_is_what_the_grammar_says(seed, depth):
    """The grammar's rules, one by one, are the other opinion: at any depth."""
    (text,) = json_grammar.near_json(seed, 1)
    line = f'{{"a":{"[" * 1000 * depth}{text}{"]" * 1000 * depth}}}'
    with recursion(20_000):
        expected = json_grammar.is_json(line)
    try:
        json_object(line.encode())
    except ValueError as error:
        known = "surrogate" in str(error) or "twice" in str(error)
        assert known or not expected
    else:
        assert expected


@contextmanager
def recursion(limit):
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(limit)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def test_names_may_be_long(tmp_path):
    folder = Folder(tmp_path, {"b": "json"}, ["b"])
    for number, name in enumerate(("x" * 49_000, "x" * 50_001, r"\u00e9" * 50_001)):
        content = f'{{"b": [{{"c": 1, "{name}": "{"y" * 60_000}"}}]}}\n'.encode()
        file = folder.put(f"public/items/LOAD0000000{number}.json", content)
        assert file is not None
        assert (file.rows, file.irregular) == (1, None)


def test_the_lines_of_a_file():
    content = b'\xef\xbb\xbf{"b": 1}\n\n \t\r\n{"a": 2, "b": 3}\nno\n\xef\xbb\xbf{}\n{"c": 1}'
    lines = [b'{"b": 1}\n', b'{"a": 2, "b": 3}\n', b"no\n", b"\xef\xbb\xbf{}\n", b'{"c": 1}']
    assert list(json_lines([content])) == lines
    assert list(json_lines(content[at : at + 1] for at in range(len(content)))) == lines


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (b'\xef\xbb\xbf\n{"b": 1}\n', 1),
        (b'{"b": 1}\n\xef\xbb\xbf\n{"b": 2}\n', 3),
        (b' \xef\xbb\xbf\n{"b": 1}\n', 2),
    ],
)
def test_only_the_first_line_may_have_a_byte_order_mark(tmp_path, content, rows):
    folder = Folder(tmp_path, {"b": "long"}, ["b"])
    file = folder.put("public/items/LOAD00000001.json", content)
    assert file is not None
    assert (file.rows, file.irregular is None) == (rows, rows == 1)


def test_a_file(tmp_path):
    content = b'{"b": 1, "at": "2026-03-01"}\n\n{"a": 2, "b": 3}\nno\n{"c": 1}'
    folder = Folder(tmp_path, {"b": "long"}, ["b"], timestamp_column_name="at")
    file = folder.put("public/items/LOAD00000001.json", content)
    assert file is not None
    assert (file.rows, file.columns) == (4, ("b", "at", "a", "c"))
    assert file.first_commit_ts == datetime(2026, 3, 1, tzinfo=UTC)
    assert file.irregular == "a line in it cannot be read: it is not a JSON object"


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=5,
)


@given(values, st.booleans(), st.integers(0, 300), st.sampled_from(['"', "}", "a", '"a":', ",", "\\", ""]))
@settings(max_examples=1500, deadline=None)
def test_the_members_and_the_texts_agree(value, ascii_only, at, mark):
    text = json.dumps(value, ensure_ascii=ascii_only)
    line = (text[:at] + mark + text[at:]).encode(errors="surrogatepass")
    try:
        members = json_members(line)
    except ValueError as error:
        with pytest.raises(ValueError, match=re.escape(str(error))):
            json_object(line)
        return
    texts = json_object(line)
    assert texts.keys() == members.keys()
    for key, expected in json.loads(line).items():
        found = texts[key]
        if isinstance(expected, str) or expected is None:
            assert found == expected
        else:
            assert found is not None
            assert json.loads(found) == expected
