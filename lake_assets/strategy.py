"""How a batch of a table of current rows is written, where there is a choice.

A module of its own: the command line names it, and to import the models of lake.yaml takes as long as to print a help
text. Not here: the choice (`silver/write/batch_context.py`).
"""

from enum import StrEnum


class Strategy(StrEnum):
    """How a batch of a table of current rows can be written, where there is a choice."""

    REWRITE = "rewrite"
    """One commit replaces all of the table's files with its remaining rows and the new ones."""
    DELETE_AND_APPEND = "delete_and_append"
    """One commit marks the rows of the batch's keys as deleted, the next one appends their new rows."""
