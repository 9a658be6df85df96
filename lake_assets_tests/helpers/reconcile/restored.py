"""A lake that is made once, and that each test finds as it was made: making it anew takes Spark longer than most tests.

Here: a folder that is restored, in the same place because Iceberg's metadata names its files by their paths. Not here:
the lakes, of which those that can be restored have a method `again`.
"""

from collections.abc import Callable
from pathlib import Path
from shutil import copytree, rmtree
from typing import Protocol, TypeVar


class Restorable(Protocol):
    """A lake with all of its files in one folder."""

    @property
    def folder(self) -> Path: ...

    def again(self: "Made") -> "Made":
        """The same lake, as another process would open it in the restored folder."""
        ...


Made = TypeVar("Made", bound=Restorable)


def restorer(made: Made) -> Callable[[], Made]:
    """Restores the folder as it is now, and opens the lake in it, at each call. What was opened before is of no more
    use."""
    original = made.folder.with_name(f"{made.folder.name}-original")
    copytree(made.folder, original, symlinks=True)

    def restored() -> Made:
        rmtree(made.folder)
        # With the times of modification, by which a lake knows its files.
        copytree(original, made.folder, symlinks=True)
        return made.again()

    return restored
