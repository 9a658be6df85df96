"""The demonstration on AWS's services, as moto has them on this machine: files in S3, S3's events in a queue, tables in
Glue. `make demo-aws` runs it. Where `make test-long` has installed Trino, it reads the tables in the end.

Here: the services, lake.yaml for them, a history, and a live feed whose files the queue names. Not here: the stack that
sets this up in an account (`deploy/test_stack.py`), every value that Trino reads (`outputs/test_trino.py`).
"""

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from lake_assets.config.config_file import load_lake
from lake_assets.lake import open_lake
from lake_assets_tests.helpers.processes.child import ROOT
from lake_assets_tests.helpers.servers.glue import demonstration_in_glue, glue_server
from lake_assets_tests.helpers.servers.s3 import ACCESS, client, credentials
from lake_assets_tests.helpers.warehouses.trino import TRINO, catalog_at_moto, trino_server

BUCKET, SOURCE = "bikeshare-lake", "bikeshare"
FEED = ("demo", "feed", "--rate", "50", "--duration", "10", "--flush-seconds", "2")


def main(folder: Path, changes: int) -> int:
    """Runs the demonstration in a new folder, prints what it does, and returns 0 if silver equals the source."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line for each request
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with services() as (endpoint, queue):
        path = lake_file(folder, endpoint, queue)

        def run(module: str, *arguments: str) -> int:
            env = {**os.environ, **credentials(endpoint), "LAKE_CONFIG": str(path), "PYTHONPATH": str(ROOT)}
            return subprocess.run(
                [sys.executable, "-m", module, *arguments], env=env, cwd=folder, check=False
            ).returncode

        def command(*arguments: str) -> int:
            print(f"\n$ lake-assets {' '.join(arguments)}", flush=True)
            return run("lake_assets.cli", *arguments)

        print(f"S3, SQS and Glue answer at {endpoint}; Glue refuses stale commits.")
        codes = [
            command("validate", "--online"),
            command("demo", "run", "--changes", str(changes), "--days", "2"),
            command(*FEED),
        ]
        arrived = waiting(endpoint, queue)
        print(f"\nThe queue has the events of {arrived} new files; Dagster's sensor takes them.", flush=True)
        codes.append(run("lake_assets_tests.helpers.orchestration.sensor_run", str(path)))
        codes += [command("demo", "run"), command("status")]
        left = waiting(endpoint, queue)
        tables = client("glue", endpoint).get_tables(DatabaseName=f"silver_{SOURCE}")["TableList"]
        print(f"\nMessages left in the queue: {left}. Tables of silver in Glue: {len(tables)}.", flush=True)
        if TRINO.exists():
            os.environ |= credentials(endpoint)
            codes.append(read_by_trino(path, folder, endpoint))
        else:
            print("Trino is not here to read them: `make test-long` installs it.")
    return max(*codes, int(not arrived or bool(left)))


def read_by_trino(path: Path, folder: Path, endpoint: str) -> int:
    """Prints how many rows of each table of silver Trino finds; 1 if PyIceberg finds others."""
    command = [sys.executable, "-m", "lake_assets.cli", "--config", str(path), "warehouse", "trino"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    lake, unequal = open_lake(load_lake(path)), 0
    with trino_server(folder / "trino", catalog_at_moto(printed, endpoint)) as connection:
        print("\nTrino, with the catalog file of `lake-assets warehouse trino`:")
        for target in lake.targets:
            cursor = connection.cursor()
            cursor.execute(f"SELECT count(*) FROM {target.identifier}")
            (found,) = cursor.fetchone()
            rows = lake.runtime.catalog.load_table(target.identifier).scan().to_arrow().num_rows
            unequal += found != rows
            print(
                f"  {target.identifier:40} {found:8,} rows{'' if found == rows else f', and PyIceberg {rows:,}'}"
            )
    return int(unequal > 0)


@contextmanager
def services() -> Iterator[tuple[str, str]]:
    """The address of S3, SQS and Glue, and that of the queue with the events of the bucket."""
    with glue_server() as endpoint:
        s3, queues = client("s3", endpoint), client("sqs", endpoint)
        s3.create_bucket(Bucket=BUCKET)
        queue = queues.create_queue(QueueName="dms-files")["QueueUrl"]
        attributes = queues.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]
        prefix = {"Key": {"FilterRules": [{"Name": "prefix", "Value": "bronze/"}]}}
        s3.put_bucket_notification_configuration(
            Bucket=BUCKET,
            NotificationConfiguration={
                "QueueConfigurations": [
                    {"QueueArn": attributes["QueueArn"], "Events": ["s3:ObjectCreated:*"], "Filter": prefix}
                ]
            },
        )
        # S3 sends a message to see whether it may.
        queues.purge_queue(QueueUrl=queue)
        yield endpoint, queue


def lake_file(folder: Path, endpoint: str, queue: str) -> Path:
    """The demonstration's lake.yaml for the services."""
    text = demonstration_in_glue(endpoint, BUCKET)
    text["sources"][SOURCE]["notifications"] = {"queue_url": queue, "endpoint": endpoint, **ACCESS}
    if TRINO.exists():
        text["format_version"] = 2  # Trino 476 reads no deletion vectors
    del text["automation"]["continuous"]  # the sensor of files, which reads the queue, requests a run
    path = folder / "lake.yaml"
    path.write_text(yaml.safe_dump(text, sort_keys=False), encoding="utf-8")
    return path


def waiting(endpoint: str, queue: str) -> int:
    """The messages in the queue, of which S3's name one file each."""
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    found = client("sqs", endpoint).get_queue_attributes(QueueUrl=queue, AttributeNames=names)["Attributes"]
    return sum(int(found[name]) for name in names)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute(), int(sys.argv[2])))
