"""Whether an existing silver table has the shape that lake.yaml asks for.

A table keeps the shape it was made with: rows of two shapes in one table would be neither. Here: how a table says which
one it has. Not here: building it anew in another.
"""

from pyiceberg.table import Table

from lake_assets.config import SHAPE_COLUMNS, Mode
from lake_assets.errors import TableStopped
from lake_assets.silver.targets import Target

SHAPE = "lake.shape"
"""Table property: the mode that the table was created with."""


def refuse_other_shape(target: Target, table: Table | None) -> None:
    """Raises TableStopped when the table was made with another mode than the target's."""
    if table is None:
        return
    found = _shape(target, table)
    if found in (None, target.mode):
        return
    raise TableStopped(
        target.table,
        f"{target.identifier} was made with mode: {found}, and lake.yaml says {target.mode}.",
        f"Run `lake-assets rebuild {target.table}` to have it built in the new shape from its files, or set the mode "
        "back.",
    )


def _shape(target: Target, table: Table) -> str | None:
    """None where nobody can tell: a table of an earlier version, without a property, that has no columns of a shape is
    current or an append log."""
    if (said := table.properties.get(SHAPE)) is not None:
        return said
    names = {field.name for field in table.schema().fields}
    own = {column.name for column in target.image_columns}
    for mode, columns in SHAPE_COLUMNS.items():
        wanted = {column.name for column in columns}
        if wanted <= names and not wanted & own:
            return mode
    plain = target.mode not in SHAPE_COLUMNS
    return None if plain else f"{Mode.CURRENT} or {Mode.APPEND_LOG}"
