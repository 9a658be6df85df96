"""Single settings of an endpoint's CSV that could not be read are refused with a reason.

Not here: settings that do not go together (`config/test_dms_rules.py`).
"""

import pytest
from pydantic import ValidationError

from lake_assets.config import DmsSettings


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"csv_row_delimiter": ""}, "at least 1 character"),
        ({"csv_row_delimiter": "\n\n"}, "neither one character nor"),
        ({"csv_no_sup_value": ""}, "at least 1 character"),
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
