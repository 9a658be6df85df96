"""Figures of the values of a CSV file without a header, to decide between layouts.

Here: the figures. Not here: the decision (`bronze/layouts/headerless.py`).
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import pyarrow.compute as pc

from lake_assets.bronze.decode.fields import Fields
from lake_assets.bronze.files.formats import Layout
from lake_assets.bronze.layouts.headerless import FileFacts, differing_places, may_be_shifted
from lake_assets.bronze.values.text_values import values_of
from lake_assets.config import DmsSettings, TableConfig
from lake_assets.local_times import LocalClock

SEQUENCE = r"^\d{4}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])([01]\d|2[0-3])[0-5]\d[0-5]\d\d{21}$"
"""35 digits, of which the first are a time."""


def value_facts(
    pieces: Iterable[Fields], layouts: Sequence[Layout], table: TableConfig, dms: DmsSettings
) -> FileFacts | None:
    """The figures of a file's values at the places where the layouts differ; `pieces`: its rows by the first of the
    layouts. None if no row has the layouts' width."""
    rows = 0
    filled, sequences, unfit = Counter[int](), Counter[int](), Counter[tuple[int, str]]()
    for fields in pieces:
        found = _facts(fields, layouts, table, dms)
        rows += found.rows
        filled.update(found.filled)
        sequences.update(found.sequences)
        unfit.update(found.unfit)
    return FileFacts(rows, filled, sequences, unfit) if rows else None


def _facts(fields: Fields, layouts: Sequence[Layout], table: TableConfig, dms: DmsSettings) -> FileFacts:
    fits = pc.is_null(fields.bad)
    rows = int(pc.sum(fits).as_py() or 0)
    marker = dms.csv_no_sup_value
    columns = [values.filter(fits) for values in fields.values.values()]
    texts = [
        pc.if_else(pc.equal(each, marker), None, each) if marker is not None else each for each in columns
    ]
    filled = [pc.if_else(pc.equal(each, ""), None, each) for each in texts]
    places = differing_places(layouts)
    types = {column.name: column.type for column in table.columns}
    prefix = dms.before_image_prefix
    unfit: dict[tuple[int, str], int] = {}
    for place in places:
        for name in {layout.columns[place] for layout in layouts}:
            if prefix and (image := name.removeprefix(prefix)) in types:
                # In UTC, because the form decides here: a time that the source's clocks show twice may be a before
                # image.
                values = values_of(filled[place], types[image], LocalClock())
                unfit[place, name] = values.null_count - filled[place].null_count
    every = range(len(layouts[0].columns)) if may_be_shifted(layouts, dms) else places
    matches = {place: pc.sum(pc.match_substring_regex(texts[place], SEQUENCE)).as_py() for place in every}
    return FileFacts(
        rows,
        {place: rows - filled[place].null_count for place in places},
        {place: int(number or 0) for place, number in matches.items()},
        unfit,
    )
