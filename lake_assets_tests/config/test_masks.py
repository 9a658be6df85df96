"""Masks and their salt in lake.yaml: which are refused, and that no message or text has the salt."""

import pytest

from lake_assets.config import Mask, TableConfig
from lake_assets.config.secrets import hidden_in
from lake_assets_tests.helpers.texts.lake_text import table

SALT = "a salt of many letters"
MASKING = f"masking: {{salt: {SALT}}}\n"
COLUMNS = "{id: long not null, email: string not null, name: string, born: date, code: string}"
AT = 'sources.bikeshare.tables["public.trips"]'


def text(mask: str, masking: str = MASKING, **more: str) -> str:
    keys = {"primary_key": "[id]", "columns": COLUMNS, "mask": mask} | more
    lines = "".join(f"        {key}: {value}\n" for key, value in keys.items())
    return table(lines) + masking


def test_masks_of_each_kind(load):
    lake = load(text("{email: hash, name: redact, born: null, code: 'null'}"))
    masks = lake.sources["bikeshare"].tables["public.trips"].mask
    assert masks == {"email": Mask.HASH, "name": Mask.REDACT, "born": Mask.NULL, "code": Mask.NULL}
    assert lake.masking.salt is not None
    assert lake.masking.salt.get_secret_value() == SALT


@pytest.mark.parametrize(
    ("mask", "more", "expected"),
    [
        ("{emial: hash}", {}, "mask.emial: is not a column; did you mean email?"),
        (
            "{email: null}",
            {},
            "mask.email: is null, and the column is NOT NULL: remove `not null`, or use redact or hash",
        ),
        (
            "{born: hash}",
            {},
            "mask.born: is hash, which gives a text, and the column is of type date: declare it as string, whatever "
            "its type in the source",
        ),
        (
            "{born: redact}",
            {},
            "mask.born: is redact, which gives a text, and the column is of type date: declare it as string, whatever "
            "its type in the source",
        ),
        (
            "{code: redact}",
            {"primary_key": "[id, code]"},
            "mask.code: is redact, and changes find their rows by this column: only hash keeps its values apart",
        ),
        (
            "{code: null}",
            {"primary_key": "[code]"},
            "mask.code: is null, and changes find their rows by this column: only hash keeps its values apart",
        ),
        (
            "{name: redact}",
            {"primary_key": "[]", "mode": "full_row"},
            "mask.name: is redact, and changes find their rows by this column: only hash keeps its values apart",
        ),
        (
            "{name: redact}",
            {"defaults": "{name: nobody}"},
            "mask.name: is masked, and defaults has a value for it, which would not be: remove one of them",
        ),
        ("{name: hide}", {}, "mask.name: expected 'hash', 'redact' or 'null'"),
        (
            "{name: redact}",
            {"checks": "{named_once: {unique: [name]}}"},
            "checks.named_once: names name, whose values mask replaces: only hash keeps them apart",
        ),
    ],
)
def test_masks_that_are_refused(refusal, mask, more, expected):
    assert refusal(text(mask, **more)) == [f"{AT}.{expected}"]


def test_a_reference_between_a_masked_column_and_a_plain_one(refusal):
    checks = "{known: {references: {table: public.trips, columns: {code: name}}}}"
    assert refusal(text("{code: hash}", checks=checks)) == [
        f"{AT}.checks.known: compares code with name of public.trips, and only one of them is masked: mask both with "
        "hash, or neither"
    ]


def test_a_reference_between_two_masked_columns(load):
    load(
        text(
            "{code: hash, name: hash}",
            checks="{known: {references: {table: public.trips, columns: {code: name}}}}",
        )
    )


def test_a_hash_needs_a_salt(refusal, load):
    assert refusal(text("{email: hash}", masking="")) == [
        "masking.salt: is missing, and public.trips has a column with mask: hash; name a secret, as in "
        "${LAKE_MASK_SALT}"
    ]
    load(text("{name: redact, born: null}", masking=""))


def test_a_short_salt_is_refused_and_not_shown(refusal):
    (line,) = refusal(text("{email: hash}", masking="masking: {salt: peppermint}\n"))
    assert line == "masking.salt: is shorter than 16 characters, which can be found by trying"


def test_the_salt_is_in_no_text_of_the_configuration(load):
    lake = load(text("{email: hash}", masking="masking:\n  salt: ${SALT}\n"), SALT=SALT)
    for shown in (repr(lake), str(lake), repr(lake.masking), lake.model_dump_json()):
        assert SALT not in shown
    assert hidden_in(lake, f"who said {SALT}?") == "who said ***?"


def test_a_mask_by_the_model():
    columns = {"id": "long not null", "email": "string"}
    found = TableConfig.model_validate({"columns": columns, "primary_key": ["id"], "mask": {"email": None}})
    assert found.mask == {"email": Mask.NULL}
