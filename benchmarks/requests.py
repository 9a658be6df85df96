"""`python -m benchmarks.requests`: how many requests S3 gets for each batch of a small table, and for each scan.

Files and tables are in a bucket of moto's, the catalog in SQLite or, with `--glue`, in moto's Glue, and Spark in this
process; each file has 200 changes.
`--delay-ms` delays every answer, as a distant bucket does, and `--paths` prints each request of the last batch with its
second and its client. `lake-assets advise` calculates with these figures. With `--minutes`, it does not count, but
measures what `latency.py` measures, for tables in the bucket. Here: the counting, and the seconds. Not here: prices
(`commands/setup/advise.py`), latency of tables on a disk (`latency.py`).
"""

import argparse
import logging
import multiprocessing
import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from statistics import median
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from tenacity import Retrying, stop_after_delay, wait_fixed
from werkzeug.serving import make_server

from benchmarks.latency import MART, Feed, lake_config, measure
from lake_assets.config import LakeConfig
from lake_assets.iceberg.publish import KeptBranches
from lake_assets.orchestration.lake_definitions import Lake, open_lake
from lake_assets.rounds.arrivals import Arrivals
from lake_assets.silver.apply.engine import apply_tables
from lake_assets.spark.preflight import free_port
from lake_assets_tests.helpers.servers.glue import strict_glue, tables_in_glue
from lake_assets_tests.helpers.servers.s3 import ACCESS, client, credentials, files_in_s3

BUCKET = "lake"
CLIENTS = ("Hadoop", "s3fileio", "aws-sdk-java", "aws-sdk-cpp", "Boto3")
"""The names by which requests tell their clients: Spark's files, Iceberg, PyIceberg, the lake."""
WARM_UP = 5
"""Batches that are not counted."""


class Counted:
    """moto's application, which counts requests by method and by what they are for."""

    def __init__(self, delay: float) -> None:
        """`delay`: seconds before each answer."""
        self._app = DomainDispatcherApplication(create_backend_app)
        self._delay = delay
        self.seen: Counter[str] = Counter()
        self.requests: list[str] = []
        self._began = time.monotonic()

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        query, path = environ["QUERY_STRING"], environ["PATH_INFO"]
        method = "LIST" if "list-type" in query else environ["REQUEST_METHOD"]
        if target := environ.get("HTTP_X_AMZ_TARGET"):
            self.seen[target.replace("AWSGlue.", "Glue ")] += 1
            body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
            environ["wsgi.input"] = BytesIO(body)
            path = f"{target} {body[:100].decode()}"
        else:
            self.seen[f"{'tables' if 'warehouse' in f'{path}{query}' else 'files'} {method}"] += 1
        agent = environ.get("HTTP_USER_AGENT", "")
        client = next((name for name in CLIENTS if name in agent), agent)
        at = time.monotonic() - self._began
        self.requests.append(
            f"{at:6.3f} {method:7}{client:14}{environ.get('HTTP_RANGE', ''):20}{path}?{query}"
        )
        time.sleep(self._delay)
        return self._app(environ, start)

    def clear(self) -> None:
        """Forgets the requests so far."""
        self.seen.clear()
        self.requests.clear()
        self._began = time.monotonic()


def config(folder: Path, endpoint: str, given: argparse.Namespace) -> dict[str, Any]:
    """Its lake.yaml."""
    found = lake_config(folder, given.tables, remote=None)
    found["catalog"] |= {"warehouse": f"s3://{BUCKET}/warehouse"} | files_in_s3(endpoint)
    if given.glue:
        found["catalog"] = tables_in_glue(endpoint, f"s3://{BUCKET}/warehouse")
        os.environ |= credentials(endpoint)  # Spark's client of Glue takes no keys from the catalog
    access = ACCESS | {"endpoint": endpoint, "path_style": True}
    found["sources"]["bench"] |= {"location": f"s3://{BUCKET}/dms", "s3": access}
    return found


class BucketFeed(Feed):
    """A feed whose files are in the bucket."""

    client: Any

    def _put(self, table: int, name: str, lines: list[str]) -> None:
        body, key = "\n".join(["Op,ts,id,n,seq,BI_id", *lines, ""]), f"public/t{table}/{name}"
        self.client.put_object(Bucket=BUCKET, Key=f"dms/{key}", Body=body.encode())
        self.written[key] = time.time()


def _serve(port: int, app: Counted) -> None:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with strict_glue():
        make_server("127.0.0.1", port, app, threaded=True).serve_forever()


def _serve_alone(port: int, delay: float) -> None:
    _serve(port, Counted(delay))


@contextmanager
def _server(counted: Counted, delay: float, *, alone: bool) -> Iterator[str]:
    """The server's address. `alone`: it runs in a separate process, which does not count, but takes no time of the
    lake's process."""
    port = free_port()
    if alone:
        process = multiprocessing.get_context("spawn").Process(target=_serve_alone, args=(port, delay))
        process.start()
    else:
        threading.Thread(target=_serve, args=(port, counted), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        if alone:
            process.terminate()


def run(folder: Path, given: argparse.Namespace) -> None:
    """Starts the server, and counts requests or measures the latency."""
    delay = given.delay_ms / 1000
    counted = Counted(delay)
    with _server(counted, delay, alone=bool(given.minutes)) as endpoint:
        s3 = client("s3", endpoint)
        for attempt in Retrying(stop=stop_after_delay(30), wait=wait_fixed(0.2)):
            with attempt:  # until the server listens
                s3.create_bucket(Bucket=BUCKET)
        settings = config(folder, endpoint, given)
        settings["automation"] = {"apply_threads": given.threads}
        settings["automation"] |= {"rewrite_below_mb": 0} if given.large else {}
        feed = BucketFeed(folder, given.tables, 2000)
        feed.client = s3
        lake = open_lake(LakeConfig.model_validate(settings), marts=(MART,) if given.minutes else ())
        if given.minutes:
            measure(lake, feed, given.minutes, folder)
        else:
            count(lake, feed, counted, given)


def count(lake: Lake, feed: BucketFeed, counted: Counted, given: argparse.Namespace) -> None:
    """Prints the requests of each kind, and the seconds."""
    if given.continuous:
        lake.runtime.branches = KeptBranches()
    feed.load()
    arrivals = Arrivals(lake.runtime, "bench")
    steps: dict[str, Callable[[], object]] = {
        "a look with a file": arrivals.scan,
        "a batch": lambda: _apply(lake),
        "a look without": arrivals.scan,
    }
    totals: Counter[str] = Counter()
    seconds: dict[str, list[float]] = {step: [] for step in steps}
    for number in range(-WARM_UP, given.batches):
        feed.one(0)
        for step, take in steps.items():
            counted.clear()
            began = time.monotonic()
            take()
            if number >= 0:
                seconds[step].append(time.monotonic() - began)
                totals.update({f"{step}: {kind}": times for kind, times in counted.seen.items()})
            if given.paths and number == given.batches - 1:
                print(f"{step}:", *counted.requests, sep="\n  ")
    strategy = "rows marked" if given.large else "table rewritten"
    kept = ", branches kept" if given.continuous else ""
    print(f"{strategy}{kept}, {given.batches} batches, {given.delay_ms} ms a request, requests of each:")
    for kind, times in sorted(totals.items()):
        print(f"{times / given.batches:8.1f}  {kind}")
    for step, taken in seconds.items():
        print(f"{median(taken):8.2f}  seconds, {step} (median)")


def _apply(lake: Lake) -> None:
    (result,) = apply_tables(lake.runtime, lake.targets)
    assert result.error is None, result.error


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--glue", action="store_true", help="the catalog is moto's Glue")
    parser.add_argument("--large", action="store_true", help="no table is rewritten whole")
    parser.add_argument("--continuous", action="store_true", help="keep branches, as the continuous run does")
    parser.add_argument("--delay-ms", type=int, default=0, help="before each answer")
    parser.add_argument("--paths", action="store_true", help="print each request of the last batch")
    parser.add_argument("--minutes", type=float, default=0, help="measure the latency for so long instead")
    parser.add_argument("--tables", type=int, default=1)
    parser.add_argument("--threads", type=int, default=6, help="tables at a time")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        run(Path(place), given)


if __name__ == "__main__":
    main()
