"""Settings of an endpoint's CSV that could not be read are refused with a reason."""

import pytest
from pydantic import ValidationError

from lake_assets.config import DmsSettings


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"csv_row_delimiter": ""}, "neither one character nor"),
        ({"csv_row_delimiter": "\n\n"}, "neither one character nor"),
        ({"csv_delimiter": "\n"}, "fields and rows could not be told apart"),
        ({"csv_delimiter": "\r", "csv_row_delimiter": "\r\n"}, "fields and rows could not be told apart"),
        ({"csv_delimiter": '"'}, "is the quote of RFC 4180"),
        ({"csv_row_delimiter": '"'}, "is the quote of RFC 4180"),
        ({"csv_null_value": "a,b"}, "has a delimiter in it"),
        ({"csv_no_sup_value": ""}, "is empty"),
        ({"csv_no_sup_value": "NULL"}, "is csv_null_value too"),
    ],
)
def test_refused(settings, reason):
    with pytest.raises(ValidationError, match=reason):
        DmsSettings.model_validate(settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"csv_row_delimiter": "\r\n"},
        {"csv_row_delimiter": "|", "csv_delimiter": "\t"},
        {"csv_delimiter": '"', "rfc_4180": False},
        {"csv_delimiter": "\\"},
        {"csv_delimiter": "😀", "csv_row_delimiter": "¶"},
        {"csv_no_sup_value": "(none)", "csv_null_value": ""},
    ],
)
def test_taken(settings):
    assert DmsSettings.model_validate(settings).csv_null_value is not None
