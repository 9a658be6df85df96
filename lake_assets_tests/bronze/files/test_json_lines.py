"""JSON lines: what a value's text is, what is refused, and that the quick way and the strict one agree."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lake_assets.bronze.files.json_lines import JsonScan, json_lines, json_object


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


def test_a_file():
    content = b'{"b": 1}\n\n{"a": 2, "b": 3}\nno\n{"c": 1}'
    scan = JsonScan()
    for at in range(len(content)):
        scan.feed(content[at : at + 1])
    scan.finish()
    assert (scan.rows, scan.keys, scan.first) == (4, ("b", "a", "c"), {"b": "1"})
    assert scan.irregular == "it has an empty line"
    assert [found for _, _, found in json_lines(content)] == [
        {"b": "1"},
        {"a": "2", "b": "3"},
        "it is not a JSON object",
        {"c": "1"},
    ]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=5,
)


@given(values, st.booleans(), st.integers(0, 300), st.sampled_from(['"', "}", "a", '"a":', ",", "\\", ""]))
@settings(max_examples=1500, deadline=None)
def test_the_quick_way_and_the_strict_one_agree(value, ascii_only, at, mark):
    text = json.dumps(value, ensure_ascii=ascii_only)
    line = (text[:at] + mark + text[at:]).encode(errors="surrogatepass")
    scan = JsonScan()
    scan.feed(line)
    scan.finish()
    try:
        found = json_object(line)
    except ValueError:
        assert scan.irregular
    else:
        assert scan.irregular is None
        assert scan.keys == tuple(found)
