"""What a JVM that is about to start gets: its settings, in a file that only its owner can read, and its environment.

The settings may contain secrets, and every user of a machine can read a command line.
"""

import locale
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


def java_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables for a JVM, with a locale in UTF-8. Java takes the encoding of file names from the locale alone, and
    cron, systemd and containers set none: it would find no file whose path is not ASCII."""
    if locale.nl_langinfo(locale.CODESET).upper() == "UTF-8":
        return {**environ}
    return {**environ, "LC_ALL": "C.UTF-8"}
