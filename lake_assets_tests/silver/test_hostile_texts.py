"""Texts that would be commands somewhere else are texts: as values, as keys, and where a row is refused.

Here: through the engine to silver, and to the lines that `lake-assets quarantine list` prints. Not here: the board in a
browser (`commands/test_board.py`), consoles (`commands/test_console.py`).
"""

from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from lake_assets.commands.mend import quarantine_cli
from lake_assets_tests.helpers.files.dms_files import NOON, Clock, cdc_file, load_file
from lake_assets_tests.helpers.lakes.bench import Bench

pytestmark = pytest.mark.spark
TABLE = "public.items"
HOSTILE = [
    "'; DROP TABLE silver_shop.items; --",
    '"; rm -rf / #',
    "${LAKE_MASK_SALT}",
    "${secret:prod/db:password}",
    "$(touch taken)",
    "`touch taken`",
    '=HYPERLINK("http://x","y")',
    "{{ 7 * 7 }} {0} {x!r} %s %(a)s",
    "<script>document.title = 'taken'</script>",
    "\x1b]0;taken\x07\x1b[2J",
    "\u202eevil\u2066",
    "../../../../etc/passwd",
    '{"__class__": "os.system"}',
    "!!python/object/apply:os.system [touch taken]",
    "${jndi:ldap://127.0.0.1:9/a}",
]


def test_hostile_texts(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAKE_MASK_SALT", "a secret of the environment")
    table = {"primary_key": ["id"], "columns": {"id": "string not null", "v": "string", "n": "int"}}
    bench, clock = Bench(tmp_path, {TABLE: table | {"also": ["change_log"]}}), Clock(NOON)
    bench.put(load_file(TABLE, [{"id": text, "v": text, "n": 1} for text in HOSTILE[::2]]))
    changes = [clock.change("I", {"id": text, "v": text, "n": 2}) for text in HOSTILE[1::2]]
    changes += [clock.change("U", {"id": HOSTILE[0], "v": HOSTILE[1], "n": 3})]
    bench.put(cdc_file(TABLE, clock.now + timedelta(minutes=1), changes))
    bench.apply()
    assert bench.rows("items") == bench.truth()
    assert bench.rows("items_changes") == bench.truth(shape="change_log")
    assert {row["id"] for row in bench.stored("items")} == {*HOSTILE}
    assert not [*tmp_path.rglob("taken*")]


def test_a_hostile_row_that_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = {"primary_key": ["id"], "columns": {"id": "long not null", "v": "string"}}
    bench, clock = Bench(tmp_path, {TABLE: table}), Clock(NOON)
    bench.put(load_file(TABLE, [{"id": 1, "v": "good"}]))
    bench.put(
        cdc_file(TABLE, clock.now + timedelta(minutes=1), [clock.change("I", {"id": HOSTILE[9], "v": "x"})])
    )
    bench.apply()
    (held,) = bench.lake.runtime.quarantine.open()
    assert held.raw is not None
    assert HOSTILE[9] in held.raw, "the text is kept as it came"
    monkeypatch.setattr(quarantine_cli, "lake_to_show", lambda context: bench.lake)
    for arguments in (["list"], ["show", held.id]):
        printed = CliRunner().invoke(quarantine_cli.quarantine, arguments)
        assert printed.exit_code == 0
        assert "\x1b" not in printed.output
        assert "\x07" not in printed.output
        assert r"\x1b]0;taken\x07\x1b[2J" in printed.output
