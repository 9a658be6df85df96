"""What a person reads who made mistakes in lake.yaml, and that it holds no secret. Not here: reading a good one
(`test_file.py`)."""

import traceback

import pytest

from lake_assets.config.config_file import ConfigError
from lake_assets_tests.helpers.texts.lake_text import GOOD, table


def test_duplicate_keys_are_refused_at_every_depth(refusal):
    text = GOOD.replace("          fare:", "          trip_id: int\n          fare:") + "gold: {}\n"
    at = text.splitlines()
    first, second = (n for n, line in enumerate(at, 1) if line.strip().startswith("trip_id:"))
    gold, again = (n for n, line in enumerate(at, 1) if line.startswith("gold:"))
    assert refusal(text) == [
        f'sources.bikeshare.tables["public.trips"].columns.trip_id: is given twice, on lines {first} and {second}; '
        "keep one",
        f"gold: is given twice, on lines {gold} and {again}; keep one",
    ]


def test_aliases_cannot_nest_in_themselves(refusal):
    (line,) = refusal(GOOD + "  settings: &s {again: *s}\n")
    assert line == "gold.settings.again: contains itself through an alias"


def test_tags_keys_and_merges_that_mean_nothing(refusal):
    line = len(GOOD.splitlines()) + 1
    assert refusal(GOOD + "  settings: {a: !python/name:os.system x, [1]: 2, <<: 3}\n") == [
        "gold.settings.a: has a YAML tag, which is not supported; quote a value that begins with !",
        f"gold.settings: line {line}: a key must be a single word or text",
        f"gold.settings: line {line}: << takes an alias of a mapping",
    ]


# --- the settings are wrong


def test_every_mistake_is_a_line_in_the_order_of_the_file(refusal):
    text = (
        GOOD.replace("warehouse:", "wharehouse:")
        .replace("csv_null_value", "cvs_null_value")
        .replace("[trip_id]", "[trip_idd]")
        .replace("2026-01-01", "January")
        + "automaton: {}\n"
    )
    assert refusal(text) == [
        "catalog.warehouse: is missing; is it misspelt as wharehouse?",
        "sources.bikeshare.dms.cvs_null_value: is not a known key; did you mean csv_null_value?",
        'sources.bikeshare.tables["public.trips"].primary_key: names trip_idd, which columns does not have; '
        "did you mean trip_id?",
        "gold.start_date: expected a date such as 2026-01-31",
        "automaton: is not a known key; did you mean automation?",
    ]


def test_partitions_begin_within_a_century(refusal):
    """Marts take earlier days for markers, and would not compute those between two of them."""
    (said,) = refusal(GOOD.replace("2026-01-01", "1900-01-01"))
    assert said.startswith("gold.start_date: is more than a century ago: name a day from 19")


def test_several_mistakes_of_one_table(refusal):
    text = table(
        """        primary_key: [id]
        columns: {trip_id: long, Trip_ID: int}
        partition_by: [day(trip_id)]
        also: [append_log]
"""
    )
    at = 'sources.bikeshare.tables["public.trips"]'
    assert refusal(text) == [
        f"{at}.primary_key: names id, which columns does not have",
        f"{at}.columns.Trip_ID: differs from trip_id only in case, which Spark does not distinguish: "
        "give it another name, and set its name in the files in renamed_from",
        f"{at}.partition_by: day(trip_id) needs a column of type timestamp or timestamptz or date, and trip_id is "
        "of type long",
        f"{at}.also: append_log is no further shape of a table with mode: current",
    ]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("primary_key: [id]", ["names bodi, which columns does not have; did you mean body?"]),
        (
            "primary_key: [body]",
            ["names bodi", "names body, which is in the primary key, and a key is never NULL"],
        ),
        ("mode: append_log", ["concerns updates, and mode: append_log has inserts only", "names bodi"]),
        ("mode: full_row", ["cannot be combined with mode: full_row", "names bodi"]),
        ("mode: change_log", ["names bodi"]),
        ("primary_key: [id]\n        mode: soft_delete\n        also: [history]", ["names bodi"]),
    ],
)
def test_columns_that_are_kept_when_null(refusal, shape, expected):
    rows = f"        {shape}\n        columns: {{id: long, body: string}}\n"
    at = 'sources.bikeshare.tables["public.trips"].kept_when_null: '
    lines = refusal(table(rows + "        kept_when_null: [bodi, body]\n"))
    found = [line.removeprefix(at) for line in lines if line.startswith(at)]
    assert len(found) == len(expected)
    assert all(line.startswith(start) for line, start in zip(found, expected, strict=True)), found


def test_each_wrong_column_is_named(refusal):
    text = table(
        """        primary_key: [a]
        columns: {a: bigint, b: "decimal(99, 1)", c: string, d: }
"""
    )
    lines = refusal(text)
    at = 'sources.bikeshare.tables["public.trips"].columns'
    assert [line.split(": ")[0] for line in lines] == [f"{at}.a", f"{at}.b", f"{at}.d"]
    assert lines[0].startswith(f"{at}.a: 'bigint' is not a type; use boolean, int, long")


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ("spark: {mode: connected}", "spark.mode: expected 'embedded', 'connect', 'emr' or 'emr_serverless'"),
        ("spark: {conf: {a: [1]}}", "spark.conf.a: expected a single value"),
        ("spark: {conf: {a: }}", "spark.conf.a: has no value; expected a single value"),
        ("spark: local", "spark: expected a mapping of keys to values"),
        ("spark: {master: 4}", "spark.master: expected a string; text such as NULL, 12 or true needs quotes"),
        (
            "spark: {master: }",
            "spark.master: has no value; expected a string; text such as NULL, 12 or true needs quotes",
        ),
        (
            "automation: {apply_threads: 0}",
            "automation.apply_threads: input should be greater than or equal to 1",
        ),
        ("automation: {apply_threads: many}", "automation.apply_threads: expected a whole number"),
        (
            "automation: {poll_interval: soon}",
            "automation.poll_interval: expected a duration such as 30s, 5m, 2h or 1d, found 'soon'",
        ),
        (
            "automation: {poll_interval: [1]}",
            "automation.poll_interval: expected a duration such as 30s, 5m, 2h or 1d",
        ),
        (
            "spark: {zone: 1}",
            "spark.zone: is not a known key; known are mode, master, remote, application, role, idle, aws, "
            "jars, conf",
        ),
        ("spark: {conf: {}, 'master:x': 1}", "spark.master: is not a known key; put a space after the colon"),
    ],
)
def test_what_was_expected(refusal, extra, expected):
    assert refusal(GOOD + extra + "\n") == [expected]


def test_nothing_in_required_mappings(refusal):
    assert refusal("catalog: {warehouse: w}\nsources: {}\n") == [
        "catalog.uri: is missing; a catalog of type sqlite needs it",
        "sources: must not be empty",
    ]


def test_short_forms_are_located_where_they_are_written(refusal):
    at = 'sources.bikeshare.tables["public.trips"].full_load_complete'
    rows = "        primary_key: [a]\n        columns: {a: int}\n"
    assert refusal(table(rows + "        full_load_complete: soon\n"))[0].startswith(
        f"{at}: expected 'first_cdc'"
    )
    (line,) = refusal(table(rows + "        full_load_complete: {quiet_period: soon}\n"))
    assert line.startswith(f"{at}: expected a duration")


# --- secrets

SECRET = "hunter2-correct-horse"


@pytest.mark.parametrize(
    "text",
    [
        GOOD.replace("uri: ${LAKE_HOME:-.lake}/catalog.db", f"uri: [{SECRET}]"),
        GOOD.replace("uri: ${LAKE_HOME:-.lake}/catalog.db", f"uri: {{{SECRET}: 1}}"),
        GOOD.replace("warehouse:", f"token: {SECRET}\n  warehose:"),
        GOOD.replace("type: sqlite", f"type: oracle\n  password: {SECRET}"),
        GOOD.replace("dms:", f"s3: {{secret_access_key: {SECRET}}}\n    dms:"),
        GOOD.replace("dms:", f"s3: {{secret_access_key: [{SECRET}], access_key_id: 7}}\n    dms:"),
        GOOD.replace("dms:", f"s3: {{secret_access_key:{SECRET}}}\n    dms:"),
        GOOD.replace("dms:", f"s3: {SECRET}\n    dms:"),
        GOOD.replace("dms:", f"s3: {{secret_access_key: *{SECRET}}}\n    dms:"),
        GOOD.replace("dms:", f"s3: {{secret_access_key: !{SECRET}}}\n    dms:"),
        GOOD.replace("dms:", f"s3: {{secret_access_key: !{SECRET}!x y}}\n    dms:"),
        GOOD.replace("dms:", f"s3: {{secret_access_key: {SECRET}: x}}\n    dms:"),
        GOOD.replace("dms:", f's3: {{secret_access_key: "{SECRET}\\j"}}\n    dms:'),
        GOOD.replace("dms:", f"s3: {{secret_access_key: @{SECRET}}}\n    dms:"),
        GOOD.replace("dms:", f"s3: {{a: &{SECRET} b, c: &{SECRET} d}}\n    dms:"),
        GOOD.replace("name: lake", f"name: lake\n  password: {SECRET}\x07"),
    ],
)
def test_no_secret_in_a_message_or_traceback(load, text):
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert SECRET not in str(caught.value)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    # Dagster serializes causes and contexts too.
    chained: BaseException | None = caught.value
    while chained is not None:
        assert SECRET not in str(chained)
        chained = chained.__cause__ or chained.__context__


def test_no_secret_from_the_environment_in_a_message(refusal):
    text = GOOD.replace("dms:", "s3: {access_key_id: '${KEY}', region: [], foo: '${KEY}'}\n    dms:")
    assert SECRET not in "\n".join(refusal(text, KEY=SECRET))


def test_no_secret_in_the_representation(load):
    text = GOOD.replace("name: lake", f"name: lake\n  token: {SECRET}").replace("catalog.db", f"{SECRET}.db")
    text = text.replace("dms:", f"s3: {{access_key_id: a, secret_access_key: {SECRET}}}\n    dms:")
    lake = load(text)
    assert lake.catalog.properties["token"] == SECRET
    assert SECRET not in repr(lake)
    assert SECRET not in str(lake)
    assert "token" in repr(lake)
