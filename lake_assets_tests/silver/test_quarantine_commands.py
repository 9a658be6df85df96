"""What `lake-assets quarantine` prints of rows that are quarantined.

Not here: what becomes of the rows (`test_quarantine.py`).
"""

import json
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lake_assets_tests.helpers.lakes.narrow_shop import LONG, TABLE, WIDE, NarrowShop, config

pytestmark = pytest.mark.spark


def test_what_the_command_line_says(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from typer.testing import CliRunner

    from lake_assets.commands.mend import quarantine_cli

    shop = NarrowShop(tmp_path, also=[])
    shop.put(shop.change("U", 1, "bad", LONG))
    shop.bench.apply()
    for name in ("lake_of", "lake_to_show"):
        monkeypatch.setattr(quarantine_cli, name, lambda context: shop.bench.lake)

    def call(*arguments: str) -> str:
        result = CliRunner().invoke(quarantine_cli.quarantine, [*arguments])
        assert result.exit_code == 0, result.output
        return result.output

    (row,) = json.loads(call("list", "--json"))
    assert (row["table"], row["row"], row["line"], row["state"]) == (TABLE, 0, 2, "held")
    assert row["id"] in call("list")
    assert "raw: U," in call("show", row["id"][:6])
    assert call("retry", "--later", row["id"]).startswith("1 row is to be read again from 1 file")
    assert call("discard", "--table", TABLE) == "1 row was discarded.\n"
    assert call("list") == "Nothing is quarantined.\n"
    assert "discarded" in call("list", "--all")
    assert CliRunner().invoke(quarantine_cli.quarantine, ["retry"]).exit_code == 2


def test_a_retry_says_what_became_of_each_row(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from typer.testing import CliRunner

    from lake_assets.commands.mend import quarantine_cli

    shop = NarrowShop(tmp_path, also=[])
    key = shop.put(
        shop.change("U", 1, "[/x] bad", LONG),
        shop.change("U", 2, "worse", Decimal("12345.6")),
        *[shop.change("U", n, "good") for n in (3, 4, 5)],
    )
    shop.bench.apply()
    _, second = shop.held()
    monkeypatch.setattr(quarantine_cli, "lake_of", lambda context: shop.bench.lake)

    def retried(*arguments: str) -> tuple[int, list[str]]:
        result = CliRunner().invoke(quarantine_cli.quarantine, ["retry", *arguments])
        return result.exit_code, result.stdout.splitlines()

    shop.bench.edit(config(WIDE, also=[]))
    code, told = retried("--table", TABLE)
    assert code == 1
    assert told == [
        f"{second.id} of silver_shop.items is held again: {key}, line 3: n is not a valid decimal(4, 1): '12345.6'",
        "applied: 1, held again: 1, superseded: 0, still to be read: 0",
    ]
    assert shop.values()[1] == "[/x] bad"
    shop.bench.edit(config(WIDE | {"n": "decimal(6, 1)"}, also=[]))
    assert retried("--table", TABLE) == (
        0,
        ["applied: 1, held again: 0, superseded: 0, still to be read: 0"],
    )
    # A table that stops says why, and its rows wait.
    shop.put(shop.change("U", 1, "bad again", Decimal("1234567.8")))
    shop.bench.apply()
    (third,) = shop.held()
    shop.put(shop.change("U", 2, "bad as well", Decimal("1234567.8")))
    shop.bench.look()
    shop.bench.edit(config(WIDE | {"n": "decimal(6, 1)"}, also=[], quarantine={"max_rows": 0}))
    code, told = retried(third.id)
    assert (code, told) == (1, ["applied: 0, held again: 0, superseded: 0, still to be read: 1"])
