"""Settings for a JVM that is about to start, in a file that only its owner can read.

The settings may contain secrets, and every user of a machine can read a command line.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_ESCAPED = str.maketrans({"\\": r"\\", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\f": r"\f"})
_KEY_ESCAPED = str.maketrans({sign: f"\\{sign}" for sign in ":=#! "})


@contextmanager
def properties_file(conf: Mapping[str, str]) -> Iterator[str]:
    """The path of a file of Java properties for `spark-submit --properties-file`; the file is deleted after the
    block."""
    descriptor, name = tempfile.mkstemp(prefix="spark-", suffix=".conf")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.writelines(f"{_key(key)}={value.translate(_ESCAPED)}\n" for key, value in conf.items())
        yield name
    finally:
        Path(name).unlink()


def _key(key: str) -> str:
    return key.translate(_ESCAPED).translate(_KEY_ESCAPED)
