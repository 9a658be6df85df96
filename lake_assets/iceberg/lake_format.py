"""The version of what the lake stores: the tables of `lake_ops`, and the positions of silver tables.

Each of them carries it as `lake.format`, a table in its properties and a position in its commit's summary. Here:
writing it, and refusing what a newer release has written. Not here: Iceberg's own format version. Pure.

A release raises FORMAT_VERSION if a former one would misread what it stores. It then reads every version up to its
own.
"""

from collections.abc import Mapping

from lake_assets.errors import LakeError

FORMAT = "lake.format"
FORMAT_VERSION = 1


class NewerFormat(LakeError):
    """A newer release has written a table. This one would misread it, and has written nothing."""


def format_of(properties: Mapping[str, str]) -> int:
    """The version that a table or a position carries; 1 if it was written before there were versions."""
    return int(properties.get(FORMAT, "1"))


def refuse_newer(identifier: str, properties: Mapping[str, str]) -> None:
    """Raises NewerFormat if a newer release has written the table or position with these properties."""
    found = format_of(properties)
    if found > FORMAT_VERSION:
        raise NewerFormat(
            f"{identifier} was written by a newer release of lake_assets: its {FORMAT} is {found}, and this release "
            f"reads up to {FORMAT_VERSION}. Nothing was written. Run the newer release here, too (docs/operations.md, "
            "Upgrading)."
        )
