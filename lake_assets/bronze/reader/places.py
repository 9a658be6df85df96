"""Addresses of files in one spelling.

Here: that. Not here: how Spark spells them (`storage/spark_paths.py`). Pure.
"""

import re


def plain(address: str) -> str:
    """An unescaped address in normal form: Spark's readers write the scheme with one slash or with three."""
    return re.sub(r"^(\w+):/+", r"\1:/", address)
