"""Figures of the values of CSV files without a header, to decide between layouts.

Here: one Spark query over the places where the layouts differ. Not here: the decision (`headerless.py`). DataFrame API
only.
"""

from collections.abc import Sequence
from urllib.parse import unquote

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from lake_assets.bronze.decode.value_facts import SEQUENCE
from lake_assets.bronze.files.formats import Layout
from lake_assets.bronze.layouts.headerless import FileFacts, differing_places, may_be_shifted
from lake_assets.bronze.reader.casts import exactly
from lake_assets.bronze.reader.places import plain
from lake_assets.config import DmsSettings, TableConfig
from lake_assets.local_times import LocalClock


def file_facts(
    rows: DataFrame, layouts: Sequence[Layout], table: TableConfig, dms: DmsSettings
) -> dict[str, FileFacts]:
    """By file (`places.plain`), the figures of the values at the places where the layouts differ; `rows` are those of
    `null_tokens.csv_values`. A file without a row of the layouts' width is left out."""
    places = differing_places(layouts)
    types = {column.name: column.type for column in table.columns}
    images = {
        (place, name): types[name.removeprefix(dms.before_image_prefix)]
        for place in places
        for name in {layout.columns[place] for layout in layouts}
        if dms.before_image_prefix and name.removeprefix(dms.before_image_prefix) in types
    }
    texts = {place: F.nullif(F.col(f"_{place}"), F.lit("")) for place in places}
    every = range(len(layouts[0].columns)) if may_be_shifted(layouts, dms) else places
    figures = [F.count(F.lit(1)).alias("rows")]
    figures += [F.count(text).alias(f"filled_{place}") for place, text in texts.items()]
    figures += [F.count_if(F.col(f"_{place}").rlike(SEQUENCE)).alias(f"sequences_{place}") for place in every]
    for number, ((place, _), declared) in enumerate(images.items()):
        # In UTC, because the form decides here: a time that the source's clocks show twice may be a before image.
        value = exactly(texts[place], StringType(), declared, LocalClock())
        figures.append(F.count_if(texts[place].isNotNull() & value.isNull()).alias(f"unfit_{number}"))
    found = rows.filter(F.col("_bad").isNull()).groupBy("_file").agg(*figures).collect()
    return {
        plain(unquote(row["_file"])): FileFacts(
            row["rows"],
            {place: row[f"filled_{place}"] for place in places},
            {place: row[f"sequences_{place}"] for place in every},
            {image: row[f"unfit_{number}"] for number, image in enumerate(images)},
        )
        for row in found
    }
