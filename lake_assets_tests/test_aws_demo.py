"""`make demo-aws` on a shorter history. Not here: the main job on Glue (`test_glue_end_to_end.py`)."""

import re
from pathlib import Path

import pytest

from lake_assets_tests.helpers.processes.child import PATIENCE, environment, output_of, run_python
from lake_assets_tests.helpers.warehouses.trino import TRINO


@pytest.mark.long
def test_files_come_by_the_queue_and_every_table_is_equal(tmp_path: Path) -> None:
    output = output_of(
        run_python(
            "-m",
            "lake_assets_tests.aws_demo",
            tmp_path / "aws",
            "2000",
            timeout=3 * PATIENCE,
            env=environment(),
        )
    )
    assert output.count(" yes ") == 14, "seven tables, before and after the live changes"
    assert "Messages left in the queue: 0. Tables of silver in Glue: 8." in output
    if TRINO.exists():
        assert len(re.findall(r"  silver_bikeshare\.\w+ +[\d,]+ rows$", output, re.MULTILINE)) == 8
