"""What Dagster reads beside a lake.yaml: `workspace.yaml`, the code that it loads, and `dagster.yaml`, its instance.

Here: putting the ones that came with the package there. Not here: what is in them (`beside/`).
"""

import contextlib
from importlib import resources
from pathlib import Path

NAMES = ("workspace.yaml", "dagster.yaml")


def place(folder: Path) -> None:
    """Writes those that the folder does not have. Raises OSError where it cannot."""
    for name in NAMES:
        path = folder / name
        # `x`: nobody's own file is overwritten.
        with contextlib.suppress(FileExistsError), path.open("x", encoding="utf-8") as file:
            shipped = resources.files("lake_assets.commands") / "beside" / name
            file.write(shipped.read_text(encoding="utf-8"))
