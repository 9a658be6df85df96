"""Sessions of Spark Connect by the APIs of EMR Serverless and of EMR on EC2, which name the same things differently.

Not here: which session a lake uses (`emr_session.py`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

from lake_assets.config.spark import SparkConfig

Client = Callable[[], Any]
"""Returns the current boto3 client."""


@dataclass(frozen=True, slots=True)
class Session:
    """A session as the service reports it."""

    id: str
    name: str
    state: str
    reason: str
    """What the service says of the state; may be empty."""

    def __str__(self) -> str:
        return f"session {self.id}, {self.state}"


class Endpoint(NamedTuple):
    """Where a session is reached, and the token for it with the time of its end."""

    url: str
    token: str
    expires: datetime


class EmrService(Protocol):
    """The calls for sessions of one application or cluster; each may raise what `aws_errors` returns."""

    def sessions(self) -> list[Session]:
        """All sessions that the service still lists."""

    def start(self, name: str, request: str, settings: Mapping[str, str]) -> str:
        """Starts a session with these settings of Spark and returns its id. A repeated `request` starts no other
        one."""

    def session(self, session: str) -> Session: ...

    def endpoint(self, session: str) -> Endpoint: ...

    def end(self, session: str) -> None: ...


class EmrServerless:
    """Sessions of an application of EMR Serverless."""

    def __init__(self, client: Client, spark: SparkConfig) -> None:
        self._client, self._spark = client, spark
        self._in = {"applicationId": spark.application}

    def sessions(self) -> list[Session]:
        pages = self._client().get_paginator("list_sessions").paginate(**self._in)
        return [_of_serverless(found) for page in pages for found in page["sessions"]]

    def start(self, name: str, request: str, settings: Mapping[str, str]) -> str:
        configuration = {"classification": "spark-defaults", "properties": {**settings}}
        answer = self._client().start_session(
            **self._in,
            name=name,
            clientToken=request,
            executionRoleArn=self._spark.role,
            idleTimeoutMinutes=minutes(self._spark),
            configurationOverrides={"runtimeConfiguration": [configuration]},
        )
        return str(answer["sessionId"])

    def session(self, session: str) -> Session:
        return _of_serverless(self._client().get_session(**self._in, sessionId=session)["session"])

    def endpoint(self, session: str) -> Endpoint:
        found = self._client().get_session_endpoint(**self._in, sessionId=session)
        return Endpoint(found["endpoint"], found["authToken"], found["authTokenExpiresAt"])

    def end(self, session: str) -> None:
        self._client().terminate_session(**self._in, sessionId=session)


class EmrOnEc2:
    """Sessions of a cluster of EMR."""

    def __init__(self, client: Client, spark: SparkConfig) -> None:
        self._client, self._spark = client, spark
        self._in = {"ClusterId": spark.application}

    def sessions(self) -> list[Session]:
        pages = self._client().get_paginator("list_sessions").paginate(**self._in)
        return [_of_ec2(found) for page in pages for found in page.get("Sessions", ())]

    def start(self, name: str, request: str, settings: Mapping[str, str]) -> str:
        role = {} if self._spark.role is None else {"ExecutionRoleArn": self._spark.role}
        answer = self._client().start_session(
            **self._in,
            **role,
            Name=name,
            ClientRequestToken=request,
            SessionIdleTimeoutInMinutes=minutes(self._spark),
            EngineConfigurations=[{"Classification": "spark-defaults", "Properties": {**settings}}],
        )
        return str(answer["Id"])

    def session(self, session: str) -> Session:
        return _of_ec2(self._client().get_session(**self._in, SessionId=session)["Session"])

    def endpoint(self, session: str) -> Endpoint:
        found = self._client().get_session_endpoint(**self._in, SessionId=session)
        # A cluster that is reached without EMR's proxy has none.
        end = found.get("AuthTokenExpirationTime", datetime.max.replace(tzinfo=UTC))
        return Endpoint(found["Endpoint"], found.get("AuthToken", ""), end)

    def end(self, session: str) -> None:
        self._client().terminate_session(**self._in, SessionId=session)


def minutes(spark: SparkConfig) -> int:
    """The rest after which EMR ends a session, in whole minutes."""
    return max(1, round(spark.idle.total_seconds() / 60))


def _of_serverless(found: Mapping[str, Any]) -> Session:
    return Session(found["sessionId"], found.get("name", ""), found["state"], found.get("stateDetails", ""))


def _of_ec2(found: Mapping[str, Any]) -> Session:
    return Session(found["Id"], found.get("Name", ""), found["State"], found.get("StateChangeReason", ""))
