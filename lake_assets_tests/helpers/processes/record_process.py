"""Recording the batches of a lake in a separate process, which is killed before or after the append.

`silver/batch_log/test_recorded_once.py` starts `python -m lake_assets_tests.helpers.processes.record_process '<JSON>'`
with the result of `same_lake`, and `kill`: `before` or `after`.
"""

import json
import sys
from typing import Any

from lake_assets.iceberg.file_io.pyiceberg_private import append_rows
from lake_assets.outputs.batch_log_output import BatchLogOutput
from lake_assets.silver.batch_log import batches_table
from lake_assets_tests.helpers.processes.faults import die
from lake_assets_tests.helpers.processes.same_lake import open_same_lake


def main(arguments: dict[str, Any]) -> None:
    def dies(table: Any, rows: Any) -> None:
        if arguments["kill"] == "after":
            append_rows(table, rows)
        die()

    setattr(batches_table, "append_rows", dies)  # noqa: B010  (it is imported there)
    BatchLogOutput(open_same_lake(arguments)).follow()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
