"""Whether a text is JSON, by the grammar of RFC 8259: one value, with blanks around it.

Here: the one test for columns of type `json`, whatever format they come from. Not here: the lines of JSON-lines files
(`bronze/files/json_lines.py`). DataFrame API only.

Spark's own functions accept single quotes and what follows a document, and refuse long strings, numbers and names.
Its parser is exact about all but what surrounds a document, with two limits lifted by options. So strings, of which
nothing else can limit the length, become empty ones before it: then a document cannot contain the marks by which its
end is found.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F

_ESCAPE = r'\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})'
_STRING = r'"[^"\\\x00-\x1F]*+"'
_NO_LIMIT = str(2**31 - 1)
STRICT = {
    "allowComments": "false",
    "allowUnquotedFieldNames": "false",
    "allowSingleQuotes": "false",
    "allowNumericLeadingZeros": "false",
    "allowNonNumericNumbers": "false",
    "allowBackslashEscapingAnyCharacter": "false",
    "allowUnquotedControlChars": "false",
    # Spark's own limits are 1,000 digits, 1,000 nested values and 20 million characters.
    "maxNumLen": _NO_LIMIT,
    "maxNestingDepth": _NO_LIMIT,
    "maxStringLen": _NO_LIMIT,
}
"""Options with which Spark's JSON parser takes only JSON, of any size. A name of more than 50,000 characters stays
refused, which no option changes."""


def is_json(text: Column) -> Column:
    """Whether the text is one JSON value; false for NULL.

    An escape becomes a letter, which is valid in a string only, and a string an empty one; a broken string stays as it
    is. The parser stops at the end of the outer object and ignores the rest. So the last member shows that it came to
    the end: no text can close the outer object and have that name, which has a letter. The text is once the value of a
    member and once alone in an array: `1,"":2` can only be a part of an object, and `1,2` only of an array.
    """
    plain = F.regexp_replace(F.regexp_replace(text, _ESCAPE, "_"), _STRING, '""')
    twice = F.concat(F.lit('{"":'), plain, F.lit(',"":['), plain, F.lit('],"whole":true}'))
    return F.from_json(twice, "whole boolean", STRICT)["whole"].isNotNull()
