"""The program of a job: applies tables or computes a mart, as its request says, and sends what it has done.

EMR Serverless and Glue start it by `spark-submit`, with the request in the context of Dagster Pipes. `LAKE_CONFIG`
names the lake.yaml; without it, the one of the working directory counts. Here: doing a request. Not here: making one
(`job_client.py`), the forms of both (`job_messages.py`).
"""

import sys
from dataclasses import replace
from typing import Any

import dagster as dg
from dagster_pipes import (
    PipesCliArgsParamsLoader,
    PipesContext,
    PipesS3ContextLoader,
    PipesS3MessageWriter,
    open_dagster_pipes,
)

from lake_assets.config import AwsAccess
from lake_assets.config.config_file import ConfigError, lake_path, load_lake
from lake_assets.config.secrets import secrets_hidden
from lake_assets.errors import LakeError
from lake_assets.gold.mart import Mart
from lake_assets.gold.write.write_mart import Computed
from lake_assets.lake import Lake, open_lake
from lake_assets.logs import print_json_if_asked
from lake_assets.orchestration.assets.mart_lineage import LINEAGE, Lineage
from lake_assets.orchestration.assets.mart_output import planned_output
from lake_assets.orchestration.io_managers.iceberg_io_manager import TableIOManager
from lake_assets.orchestration.jobs.job_messages import (
    REQUEST,
    STORED,
    JobRequest,
    StoredMart,
    written_error,
    written_result,
)
from lake_assets.silver.apply.engine import apply_tables
from lake_assets.spark.preflight import PreflightError
from lake_assets.storage.aws_client import Aws

SECONDS = 5
"""How long messages wait to be sent together."""


def main() -> None:
    """Does what the run has asked for. Errors of the lake are sent, and the program ends well: the run raises them."""
    s3 = Aws().client("s3", AwsAccess())
    by_arguments: Any = PipesCliArgsParamsLoader()  # type: ignore[no-untyped-call]  # of Glue; EMR Serverless sets variables
    found = by_arguments.is_dagster_pipes_process()
    with open_dagster_pipes(
        params_loader=by_arguments if found else None,
        context_loader=PipesS3ContextLoader(s3) if found else None,
        message_writer=PipesS3MessageWriter(s3, interval=SECONDS),
    ) as pipes:
        try:
            sent = _done(REQUEST.validate_python(pipes.extras["request"]), pipes)
        except (LakeError, ConfigError, PreflightError) as error:
            pipes.report_custom_message({"error": written_error(error)})
        else:
            # The run sees whether all have arrived.
            pipes.report_custom_message({"sent": sent})


def _done(request: JobRequest, pipes: PipesContext) -> int:
    """Does the request, and returns the number of messages about it."""
    print_json_if_asked()
    file = lake_path(None).absolute()
    sys.path.insert(0, str(file.parent))  # the project's modules
    lake = open_lake(load_lake(file))
    with secrets_hidden(lake.config):
        return _do(lake, request, pipes)


def _do(lake: Lake, request: JobRequest, pipes: PipesContext) -> int:
    if not request.mart:
        lake.runtime.run_id = request.run_id
        targets = [target for target in lake.targets if target.identifier in request.tables]
        for result in apply_tables(lake.runtime, targets, as_of=request.as_of):
            pipes.report_custom_message({"result": written_result(result)})
        if lacking := sorted({*request.tables} - {target.identifier for target in targets}):
            raise LakeError(_lacking(lake, ", ".join(lacking)))
        return len(targets)
    mart = next((mart for mart in lake.marts if mart.name == request.mart), None)
    if mart is None:
        raise LakeError(_lacking(lake, f"gold.{request.mart}"))
    stored = STORED.dump_python(_stored(lake, mart, request), mode="json")
    pipes.report_custom_message({"stored": stored})
    return 1


def _lacking(lake: Lake, names: str) -> str:
    return " ".join([f"The project of the job lacks {names}: package it again.", *lake.broken])


def _stored(lake: Lake, mart: Mart, request: JobRequest) -> StoredMart:
    tables = TableIOManager(lake.runtime)
    # The run needs no lineage that it knows.
    known: Lineage = {} if request.lineage else {LINEAGE: dg.TableColumnLineage({})}
    output = planned_output(lake.runtime, tables.read, mart, request.partitions, known)
    assert isinstance(output.rows, Computed), "nobody else has stored them"
    done = tables.store(mart.identifier, replace(output.rows, run_id=request.run_id))
    columns = output.lineage[LINEAGE].deps_by_column if output.lineage and request.lineage else None
    return StoredMart(
        figures=output.figures,
        done=done,
        source_now=output.source_now,
        outside=output.outside,
        lineage=None
        if columns is None
        else {
            name: [(dep.asset_key.path, dep.column_name) for dep in deps] for name, deps in columns.items()
        },
    )


if __name__ == "__main__":
    main()
