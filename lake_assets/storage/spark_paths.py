"""How Spark spells the addresses of files.

Here: paths for its readers, and the addresses that they return. Not here: where a source's files are
(`object_store.py`).
"""

import re
from urllib.parse import quote


def literal_path(path: str) -> str:
    """A path in which Spark finds nothing to expand."""
    return re.sub(r"([{}\[\]*?\\])", r"\\\1", path)


def spark_address(uri: str) -> str:
    """A path in the spelling of `_metadata.file_path`: rows of one table must sort by file, whichever reader read the
    file."""
    # The characters of a path that java.net.URI escapes: some of ASCII, and Unicode's spaces and controls.
    return re.sub(
        r"[^A-Za-z0-9_\-!.~'()*:@&=+$,;/\u00a1-\U0010ffff]|[\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]",
        lambda found: quote(found[0], safe=""),
        # Hadoop lists local files without the empty host.
        re.sub("^file:/+", "file:/", uri),
    )
