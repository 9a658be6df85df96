"""Masks that change: tables stop until they are rebuilt, and no table is ever partly masked.

Not here: rows under one mask (`test_masking.py`).
"""

from pathlib import Path

import pytest
from pydantic import SecretStr
from pyspark.sql import SparkSession

from lake_assets.config.columns import MaskingConfig
from lake_assets.errors import TableStopped
from lake_assets.orchestration.lake_definitions import open_lake
from lake_assets.silver.apply.rebuild import rebuild, replay
from lake_assets.silver.reconcile.compare_slices import at_position
from lake_assets_tests.helpers.lakes.masked_items import COLUMNS, Masked, row
from lake_assets_tests.helpers.oracles.masks import SALT, hashed

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_masks_that_change(spark: SparkSession, tmp_path: Path) -> None:
    """Masks added, of another kind, and removed: no table is ever partly masked, and the rebuilt one is as if it had
    been so from the beginning."""
    plain = Masked(tmp_path, {"email": "hash"})
    bench = plain.bench
    for number, (mask, said) in enumerate(
        [
            (
                {"id": "hash", "email": "redact"},
                [
                    "lake.yaml has mask: hash for id, and the table has its plain values",
                    "lake.yaml has mask: redact for email, and the table was made with hash",
                ],
            ),
            ({"id": "hash"}, ["the values of email are masked by redact, and lake.yaml has no mask for it"]),
        ]
    ):
        plain.edit(mask)
        plain.change("U", row("one", f"change {number}"))
        plain.stopped(*said)
        items = bench.lake.targets[0]
        with pytest.raises(TableStopped, match="lake-assets rebuild"):
            rebuild(bench.lake.runtime, items, publish=False)
        with pytest.raises(TableStopped, match="lake-assets rebuild"):
            replay(bench.lake.runtime, items, plain.first)
        with pytest.raises(TableStopped, match="lake-assets rebuild"):
            at_position(bench.lake.runtime, items, lambda context: None)
        assert all(found.reshaped and found.published is not None for found in plain.rebuilt())
        bench.apply()
        assert bench.rows() == bench.truth()
        assert bench.rows("items_changes") == bench.truth(shape="change_log")
    assert all(found.equal for found in plain.rebuilt())


def test_another_salt(spark: SparkSession, tmp_path: Path) -> None:
    shop = Masked(tmp_path, {"email": "hash"})
    assert SALT not in str(shop.bench.summary())
    other = MaskingConfig(salt=SecretStr("quite another salt of the lake"))
    config = shop.bench.lake.config.model_copy(update={"masking": other})
    shop.bench.lake = open_lake(config, marts=())
    shop.stopped("the hashes of email were made with another masking.salt")
    shop.rebuilt()
    emails = {row["email"] for row in shop.bench.stored()}
    assert emails == {
        hashed(f"{key}@example.org", "quite another salt of the lake") for key in ("one", "two")
    }


def test_a_column_that_is_masked_from_its_beginning(spark: SparkSession, tmp_path: Path) -> None:
    """It needs no rebuild: no row has a plain value of it."""
    shop = Masked(tmp_path, {"email": "hash"})
    columns = COLUMNS | {"phone": "string"}
    shop.edit({"email": "hash", "phone": "redact"}, columns=columns)
    shop.change("U", row("one", phone="0123"))
    shop.bench.apply()
    assert {row["phone"] for row in shop.bench.stored()} == {"***", None}
    assert all(found.equal for found in shop.rebuilt())


def test_a_masked_column_with_another_name(spark: SparkSession, tmp_path: Path) -> None:
    """The mask goes with it, into files with its former name, too."""
    shop = Masked(tmp_path, {"email": "hash", "name": "redact"})
    columns = {"mail" if name == "email" else name: kind for name, kind in COLUMNS.items()}
    shop.edit({"mail": "hash", "name": "redact"}, columns=columns, renamed_from={"mail": "email"})
    image = row("one", "renamed", mail="one@example.org")
    image.pop("email")
    shop.change("U", image)
    shop.bench.apply()
    assert {row["mail"] for row in shop.bench.stored()} == {
        hashed(f"{key}@example.org") for key in ("one", "two")
    }
    assert all(found.equal for found in shop.rebuilt())
    assert "mail" in shop.bench.summary()["lake.masks"]


def test_a_masked_column_that_is_declared_no_more(spark: SparkSession, tmp_path: Path) -> None:
    """Silver keeps it; read again without its mask, its values would be plain."""
    shop = Masked(tmp_path, {"name": "hash"})
    shop.edit({}, columns={name: kind for name, kind in COLUMNS.items() if name != "name"})
    for result in shop.bench.turn().values():
        assert "has masked values in name, and lake.yaml does not declare that column any more" in str(
            result.error
        )
    with pytest.raises(TableStopped, match="Declare it again, with its mask"):
        shop.rebuilt()
    assert {row["name"] for row in shop.bench.stored()} == {hashed("Name of one"), hashed("Name of two")}
