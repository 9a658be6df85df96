"""`python -m benchmarks.requests`: how many requests S3 gets for each batch of a small table, and for each look.

Files and tables in a bucket of moto's, the catalog in SQLite, Spark in this process; a file of 200 changes at a time.
`lake-assets advise` reckons with these figures. Here: the counting. Not here: prices (`commands/setup/advise.py`),
latency.
"""

import argparse
import logging
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from benchmarks.latency import Feed, lake_config
from lake_assets.config import LakeConfig
from lake_assets.orchestration.lake_definitions import open_lake
from lake_assets.rounds.arrivals import Arrivals
from lake_assets.silver.apply.engine import apply_tables
from lake_assets_tests.helpers.servers.s3 import ACCESS, client, files_in_s3

BUCKET = "lake"


class Counted:
    """moto's application, which counts requests by method and by what they are for."""

    def __init__(self) -> None:
        self._app = DomainDispatcherApplication(create_backend_app)
        self.seen: Counter[str] = Counter()

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        query, path = environ["QUERY_STRING"], environ["PATH_INFO"]
        method = "LIST" if "list-type" in query else environ["REQUEST_METHOD"]
        self.seen[f"{'tables' if 'warehouse' in f'{path}{query}' else 'files'} {method}"] += 1
        return self._app(environ, start)


def config(folder: Path, endpoint: str) -> dict[str, Any]:
    """Its lake.yaml."""
    found = lake_config(folder, 1, remote=None)
    found["catalog"] |= {"warehouse": f"s3://{BUCKET}/warehouse"} | files_in_s3(endpoint)
    access = ACCESS | {"endpoint": endpoint, "path_style": True}
    found["sources"]["bench"] |= {"location": f"s3://{BUCKET}/dms", "s3": access}
    return found


class BucketFeed(Feed):
    """Its files are in the bucket."""

    client: Any

    def _put(self, table: int, name: str, lines: list[str]) -> None:
        body = "\n".join(["Op,ts,id,n,seq,BI_id", *lines, ""])
        self.client.put_object(Bucket=BUCKET, Key=f"dms/public/t{table}/{name}", Body=body.encode())


def run(folder: Path, batches: int, large: bool) -> None:
    """Prints a line per kind of request."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    counted = Counted()
    server = make_server("127.0.0.1", 0, counted, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    s3 = client("s3", endpoint)
    s3.create_bucket(Bucket=BUCKET)
    given = config(folder, endpoint)
    given["automation"] = {"rewrite_below_mb": 0} if large else {}
    lake = open_lake(LakeConfig.model_validate(given))
    feed = BucketFeed(folder, 1, 2000)
    feed.client = s3
    feed.load()
    arrivals = Arrivals(lake.runtime, "bench")
    totals: Counter[str] = Counter()
    for number in range(-5, batches):
        feed.one(0)
        counted.seen.clear()
        arrivals.scan()
        totals.update(
            {f"a look with a file: {kind}": times for kind, times in counted.seen.items() if number >= 0}
        )
        counted.seen.clear()
        (result,) = apply_tables(lake.runtime, lake.targets)
        assert result.error is None, result.error
        totals.update({f"a batch: {kind}": times for kind, times in counted.seen.items() if number >= 0})
        counted.seen.clear()
        arrivals.scan()
        totals.update(
            {f"a look without: {kind}": times for kind, times in counted.seen.items() if number >= 0}
        )
    print(f"{'rows marked' if large else 'table rewritten'}, {batches} batches, requests of each:")
    for kind, times in sorted(totals.items()):
        print(f"{times / batches:8.1f}  {kind}")
    server.shutdown()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--large", action="store_true", help="no table is rewritten whole")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        run(Path(place), given.batches, given.large)


if __name__ == "__main__":
    main()
