"""The files beside lake.yaml that Dagster reads: `workspace.yaml` (the code to load), `dagster.yaml` (its instance).

Here: copying them from the package. Not here: their content (`beside/`).
"""

import contextlib
from importlib import resources
from pathlib import Path

NAMES = ("workspace.yaml", "dagster.yaml")


def place(folder: Path) -> None:
    """Writes the files that the folder does not have. Raises OSError."""
    for name in NAMES:
        path = folder / name
        # `x`: never overwrites a file of the user.
        with contextlib.suppress(FileExistsError), path.open("x", encoding="utf-8") as file:
            shipped = resources.files("lake_assets.commands") / "beside" / name
            file.write(shipped.read_text(encoding="utf-8"))
