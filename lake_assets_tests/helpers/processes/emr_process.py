"""A lake whose Spark is a session of EMR Serverless: its commands, tokens that end, and a session that ends.

`python -m lake_assets_tests.helpers.processes.emr_process <folder> <server> <token>`, with the lake's folder, and
`host:port` and token of the Spark Connect server that is behind EMR's endpoint. Prints what happened as JSON. A process
of its own, because gRPC reads its root certificates once.
"""

import json
import os
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from grpc import StatusCode

from lake_assets.config.config_file import load_lake
from lake_assets.spark.connect import emr_session
from lake_assets.spark.session import SparkSessions
from lake_assets.storage.aws_client import Aws
from lake_assets_tests.helpers.lakes.command_lake import call, write_items
from lake_assets_tests.helpers.servers.emr.emr_api import EmrApi
from lake_assets_tests.helpers.servers.emr.tls_proxy import ROOTS, tls_proxy

SECONDS = 3.0
"""How long a token is good before the lake replaces it."""


def main(folder: Path, server: str, token: str) -> None:
    seen: list[str] = []

    def accepts(headers: Any) -> bool:
        given = headers.get(emr_session.TOKEN_HEADER)
        seen.append(given)
        return api.accepts(given)

    certificate = folder / "certificate.pem"
    os.environ[ROOTS] = str(certificate)
    with tls_proxy(server, certificate, accepts, token, StatusCode.PERMISSION_DENIED) as port:
        api = EmrApi(f"https://localhost:{port}", timedelta(seconds=SECONDS))
        # The rest of a token's life is not waited for.
        emr_session.RENEWED_BEFORE = timedelta(seconds=1)
        Aws.client = lambda self, service, *given, **more: api.client(service)  # type: ignore[method-assign]
        write_items(folder)
        done: dict[str, Any] = {"sync": call(folder, "sync"), "sessions": len(api.sessions)}
        done["tokens"] = _outlives_a_token(folder, seen)
        done["lost"] = _outlives_a_session(folder, api)
        done["started"] = [one["state"] for one in api.sessions.values()]
        write_items(folder, "others")
        done["again"] = call(folder, "sync")
        done["stopped"] = [call(folder, "spark", "stop"), call(folder, "spark", "status")]
        done["states"] = [one["state"] for one in api.sessions.values()]
        print(json.dumps(done))


def _outlives_a_token(folder: Path, seen: list[str]) -> int:
    """The number of tokens with which one session of Spark has asked."""
    lake = load_lake(folder / "lake.yaml")
    session = SparkSessions(lake).root()
    before = len(seen)
    assert session.range(3).count() == 3
    time.sleep(SECONDS + 0.5)
    assert session.range(3).count() == 3
    return len(set(seen[before:]))


def _outlives_a_session(folder: Path, api: EmrApi) -> str:
    """What the lake says when EMR has ended its session; afterwards it has another one."""
    sessions = SparkSessions(load_lake(folder / "lake.yaml"))
    lost = sessions.root()
    for session in api.sessions.values():
        session["state"] = "TERMINATED"
    try:
        lost.range(3).count()
    except Exception as error:  # noqa: BLE001  (of whatever kind: it is classified)
        said = str(sessions.lost("a test", error))
    assert sessions.root().range(4).count() == 4
    return said


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
