"""Sessions of Spark Connect at Amazon EMR: which one a lake uses, how it is started, renewed and ended.

The API is botocore's with answers of `helpers/servers/emr`; the endpoint is a proxy with TLS before a real Spark
Connect server.
"""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest
from pydantic import SecretStr

from lake_assets.config import LakeConfig
from lake_assets.config.config_file import ConfigError, load_lake
from lake_assets.config.secrets import hidden_in
from lake_assets.spark.connect.connect_address import SparkRefused
from lake_assets.spark.connect.connect_server import ConnectServer
from lake_assets.spark.connect.connect_token import token_at
from lake_assets.spark.connect.emr_services import Session
from lake_assets.spark.connect.emr_session import EmrSession
from lake_assets.spark.preflight import PreflightError, free_port
from lake_assets.storage.aws_client import Aws
from lake_assets_tests.helpers.lakes.command_lake import command_lake
from lake_assets_tests.helpers.lakes.small_lakes import lake_config
from lake_assets_tests.helpers.processes.child import PATIENCE, environment, output_of, run_python
from lake_assets_tests.helpers.servers.emr.emr_api import EmrApi
from lake_assets_tests.helpers.servers.emr.tls_proxy import ROOTS, tls_proxy

ROLE = "arn:aws:iam::123456789012:role/lake"
EMR = {
    "emr-serverless": {"mode": "emr_serverless", "application": "00f1", "role": ROLE, "idle": "30m"},
    "emr": {"mode": "emr", "application": "j-1"},
}
SERVICES = sorted(EMR)


@pytest.fixture
def api() -> EmrApi:
    return EmrApi()


def session(
    api: EmrApi, service: str, folder: Path, slept: list[float] | None = None, **more: Any
) -> EmrSession:
    lake: LakeConfig = lake_config(folder, spark=EMR[service] | more)
    # Otherwise each lake of the tests has a name of its own.
    lake = lake.model_copy(update={"catalog": lake.catalog.model_copy(update={"name": "lake"})})
    aws = Aws()
    aws.use(service, lambda: api.client(service))
    return EmrSession(lake, aws, sleep=(slept if slept is not None else []).append)


@pytest.mark.parametrize("service", SERVICES)
def test_a_session_is_started_once(api: EmrApi, service: str, tmp_path: Path) -> None:
    own = session(
        api, service, tmp_path, conf={"spark.executor.memory": "6g", "spark.hadoop.fs.s3a.secret.key": "k"}
    )
    assert own.running() is None
    assert own.address().remote == "sc://session.example:443/;use_ssl=true"
    assert own.address().remote == "sc://session.example:443/;use_ssl=true"
    other = session(
        api, service, tmp_path, conf={"spark.executor.memory": "6g", "spark.hadoop.fs.s3a.secret.key": "k"}
    )
    assert other.address().headers is not None
    (found,) = api.sessions.values()
    assert found["name"] == own.name
    given = json.dumps(found["given"])
    assert "IcebergSparkSessionExtensions" in given
    assert "iceberg-spark-runtime" in given
    assert '"spark.executor.memory": "6g"' in given
    assert "secret.key" not in given, "whoever may describe the session would read it"
    assert "30" in given if service == "emr-serverless" else "15" in given
    running = own.running()
    assert str(running) == f"session {found['id']}, IDLE"


@pytest.mark.parametrize("service", SERVICES)
def test_other_settings_need_another_session(api: EmrApi, service: str, tmp_path: Path) -> None:
    for setting in ({"spark.executor.cores": 2}, {"spark.executor.cores": 4}):
        session(api, service, tmp_path, conf=setting).start()
    of_sessions = {"spark.sql.catalog.lake.cache-enabled": "false", "spark.hadoop.fs.s3a.attempts.maximum": 3}
    session(api, service, tmp_path, conf={"spark.executor.cores": 4, **of_sessions}).start()
    assert len(api.sessions) == 2, "a setting of a session of Spark Connect needs none"


def test_processes_that_start_at_once_share_a_session(api: EmrApi, tmp_path: Path) -> None:
    together, found = Barrier(4, timeout=20), []
    api_sessions = api.sessions

    def start() -> None:
        own = session(api, "emr-serverless", tmp_path)
        assert own.running() is None
        together.wait()
        found.append(own.start().id)

    threads = [Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["s1"] * 4
    assert len(api_sessions) == 1


@pytest.mark.parametrize("service", SERVICES)
def test_a_session_that_has_ended_is_replaced(api: EmrApi, service: str, tmp_path: Path) -> None:
    own = session(api, service, tmp_path)
    for number in (1, 2, 3):
        assert own.start().id == f"s{number}"
        assert own.stop()
        assert own.running() is None
        assert not own.stop(), "there is none"
    # The service lists them for some time only.
    for one in api.sessions.values():
        one["name"] = "of another lake"
    assert own.start().id == "s4"


def test_a_session_is_waited_for(api: EmrApi, tmp_path: Path) -> None:
    slept: list[float] = []
    states = iter(["SUBMITTED", "STARTING", "STARTING", "STARTED"])
    api.first_state = "SUBMITTED"
    api.became = lambda found: next(states)
    assert session(api, "emr-serverless", tmp_path, slept).start().state == "STARTED"
    assert len(slept) == 3


def test_a_session_that_fails_is_reported(api: EmrApi, tmp_path: Path) -> None:
    api.first_state, api.became = "SUBMITTED", lambda found: "FAILED"
    with pytest.raises(
        PreflightError, match=r"EMR Serverless 00f1: the session s1 is FAILED: of itself; look at its log"
    ):
        session(api, "emr-serverless", tmp_path).start()


@pytest.mark.parametrize(
    ("code", "kind", "advice"),
    [
        ("AccessDeniedException", SparkRefused, "grant StartSession, GetSession"),
        ("ValidationException", SparkRefused, "interactive sessions enabled"),
        ("ResourceNotFoundException", SparkRefused, "correct spark.application"),
        ("ThrottlingException", PreflightError, "look the code up in the EMR API reference"),
    ],
)
def test_a_refused_request_is_explained(
    api: EmrApi, tmp_path: Path, code: str, kind: type[Exception], advice: str
) -> None:
    """What stays so until somebody acts is not tried again."""
    api.refuses = code
    with pytest.raises(PreflightError, match=f"EMR j-1: EMR answered {code}; .*{advice}") as refused:
        session(api, "emr", tmp_path).address()
    assert type(refused.value) is kind


@pytest.mark.parametrize("service", SERVICES)
def test_a_session_that_another_process_has_started_meanwhile(
    api: EmrApi, service: str, tmp_path: Path
) -> None:
    """Both have seen that there is none; the requests are equal."""
    own, other = session(api, service, tmp_path), session(api, service, tmp_path)
    seen = own._own

    def seen_first() -> list[Session]:
        found = seen()
        if not api.sessions:
            other.start()
        return found

    own._own = seen_first  # type: ignore[method-assign]
    assert own.start().id == "s1"
    assert len(api.sessions) == 1


def test_a_token_that_is_asked_for_while_it_is_fetched(api: EmrApi, tmp_path: Path) -> None:
    """The garbage collector may run at any time, and what it collects calls the server. A session that is ready is used
    while another one is started."""
    own = session(api, "emr", tmp_path)
    headers = own.address().headers
    assert headers is not None
    answer, nested = api._endpoint, list[str]()

    def endpoint(*given: Any) -> dict[str, Any]:
        if not nested:
            nested.append("began")
            nested.append(headers()["x-aws-proxy-auth"])
        return answer(*given)

    api._endpoint = endpoint  # type: ignore[assignment,method-assign]
    assert own._known is not None
    own._known._endpoint = None
    with own._starting:
        assert headers()["x-aws-proxy-auth"] == "token-of-emr-3"
    assert nested == ["began", "token-of-emr-2"]


def test_a_catalog_whose_address_is_a_secret(api: EmrApi, tmp_path: Path) -> None:
    lake = lake_config(tmp_path, spark=EMR["emr"])
    catalog = lake.catalog.model_copy(update={"type": "jdbc", "uri": SecretStr("${secret:database:uri}")})
    aws = Aws()
    aws.use("emr", lambda: api.client("emr"))
    assert EmrSession(lake.model_copy(update={"catalog": catalog}), aws).start().id == "s1"


def test_a_token_is_replaced_before_its_end(tmp_path: Path) -> None:
    for valid, tokens in ((timedelta(hours=1), 1), (timedelta(minutes=4), 4)):
        api = EmrApi(valid=valid)
        headers = session(api, "emr", tmp_path).address().headers
        assert headers is not None
        found = [headers()["x-aws-proxy-auth"] for _ in range(3)]
        assert found[-1] == f"token-of-emr-{tokens}"
        assert len(api.tokens) == tokens
    assert "token-of-emr-1" not in hidden_in(lake_config(tmp_path), "refused: token-of-emr-1")


@pytest.mark.parametrize(
    ("spark", "said"),
    [
        ({"mode": "emr"}, "spark.application: is needed with mode: emr"),
        (
            {"mode": "emr_serverless", "application": "00f1"},
            "spark.role: is needed with mode: emr_serverless",
        ),
        ({"mode": "connect", "application": "00f1"}, "spark.application: is for mode: emr or emr_serverless"),
        ({"mode": "emr", "application": "j-1", "role": "me"}, "spark.role: 'me' is no role"),
        ({"mode": "emr", "application": ""}, "spark.application: '' is no id of an application"),
        (
            {"mode": "emr", "application": "j-1", "conf": {"spark.executorEnv.KEY": "${secret:k}"}},
            r"spark.conf.*KEY.*: cannot be a secret with EMR",
        ),
    ],
)
def test_what_lake_yaml_lacks_for_emr(tmp_path: Path, spark: dict[str, Any], said: str) -> None:
    command_lake(tmp_path, spark=spark)
    with pytest.raises(ConfigError, match=said):
        load_lake(tmp_path / "lake.yaml")


@pytest.mark.parametrize("spark", [{}, *EMR.values()])
def test_a_dump_of_the_configuration_is_one(tmp_path: Path, spark: dict[str, Any]) -> None:
    config = lake_config(tmp_path, spark=spark)
    assert LakeConfig.model_validate(config.model_dump()) == config


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """`host:port` and token of a Spark Connect server."""
    folder = tmp_path_factory.mktemp("server")
    conf = {"spark.driver.memory": "700m"}
    lake = lake_config(
        folder, spark={"mode": "connect", "remote": f"sc://127.0.0.1:{free_port()}", "conf": conf}
    )
    found = ConnectServer(lake, folder)
    found.start()
    yield f"localhost:{found.port}", token_at(found.port) or ""
    found.stop()


@pytest.mark.spark
def test_a_lake_on_emr_serverless(server: tuple[str, str], tmp_path: Path) -> None:
    """Its commands, a token that ends during a session of Spark, and a session that EMR ends."""
    command_lake(tmp_path, spark=EMR["emr-serverless"] | {"aws": {"region": "eu-west-1"}})
    program = "lake_assets_tests.helpers.processes.emr_process"
    done = output_of(run_python("-m", program, tmp_path, *server, timeout=PATIENCE))
    found = json.loads(done.splitlines()[-1])
    assert found["sync"] == 0
    assert found["sessions"] == 1
    assert found["tokens"] >= 2
    assert found["lost"].startswith("Spark at EMR Serverless 00f1 was lost during a test")
    assert found["started"] == ["TERMINATED", "IDLE"]
    assert found["again"] == 0
    assert found["stopped"] == [0, 1]
    assert found["states"] == ["TERMINATED", "TERMINATED"]


REACHED = """
import sys
from pathlib import Path
from lake_assets.spark.session import SparkSessions
from lake_assets_tests.helpers.lakes.small_lakes import lake_config
for remote in sys.argv[2:]:
    try:
        found = SparkSessions(lake_config(Path(sys.argv[1]), spark={"mode": "connect", "remote": remote})).root()
        print(f"{found.range(3).count()} rows")
    except Exception as error:
        print(error)
"""


@pytest.mark.spark
def test_a_server_behind_tls_takes_a_token(server: tuple[str, str], tmp_path: Path) -> None:
    """By `spark.remote`, as for a cluster's server behind a load balancer."""
    behind, token = server
    certificate = tmp_path / "certificate.pem"
    given = (f"use_ssl=true;token={token}", "use_ssl=true;token=guessed", f"token={token}")
    with tls_proxy(behind, certificate, lambda headers: "authorization" in headers) as port:
        remotes = [f"sc://localhost:{port}/;{parameters}" for parameters in given]
        env = environment(**{ROOTS: str(certificate)})
        done = run_python("-c", REACHED, tmp_path, *remotes, timeout=PATIENCE, env=env)
    right, wrong, without_tls = output_of(done).splitlines()
    assert right == "3 rows"
    assert wrong.startswith(f"The Spark Connect server at localhost:{port} refuses this user's token")
    assert without_tls.startswith(
        f"What listens at localhost:{port} does not answer as a Spark Connect server"
    )
    assert token not in done.stdout + done.stderr
