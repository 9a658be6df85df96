"""EMR's API for sessions of Spark Connect, which moto lacks: boto3's own clients, with answers from here.

Botocore checks the requests, and here the answers, against its model of the service. Not here: the endpoint of a
session (`tls_proxy.py`).
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import boto3
from botocore.exceptions import ClientError
from botocore.validate import ParamValidator

ARN = "arn:aws:emr-serverless:eu-west-1:123456789012:/applications/00f1/sessions/"
DEAD = ("TERMINATING", "TERMINATED", "FAILED")
READY = ("STARTED", "IDLE", "BUSY")


class EmrApi:
    """Sessions of any application or cluster, by their ids; `emr-serverless` and `emr` show the same ones."""

    def __init__(
        self, endpoint: str = "https://session.example:443", valid: timedelta = timedelta(hours=1)
    ) -> None:
        """`endpoint`: the address of each session. `valid`: how long a token is."""
        self.endpoint, self._valid = endpoint, valid
        self.sessions: dict[str, dict[str, Any]] = {}
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.tokens: dict[str, tuple[str, datetime]] = {}
        """By token, its session and its end."""
        self.first_state = "IDLE"
        self.refuses: str | None = None
        """The error code of every answer."""
        self.became: Callable[[dict[str, Any]], str] = lambda found: str(found["state"])
        """The state of a session when it is asked for."""

    def client(self, service: str) -> Any:
        """A client of boto3 that reaches this."""
        client = boto3.client(
            service, region_name="eu-west-1", aws_access_key_id="key", aws_secret_access_key="not a secret"
        )
        events, given = client.meta.events, {}

        def ask(params: dict[str, Any], model: Any, **rest: Any) -> None:
            given[model.name] = dict(params)

        def answer(model: Any, **rest: Any) -> Any:
            found = self._answer(service, model.name, given[model.name])
            report = ParamValidator().validate(found, model.output_shape)
            assert not report.has_errors(), report.generate_report()
            return SimpleNamespace(status_code=200, headers={}), found

        events.register_last(f"before-parameter-build.{service}.*", ask)
        events.register_last(f"before-call.{service}.*", answer)
        return client

    def accepts(self, token: str | None) -> bool:
        """Whether the endpoint lets a caller with this token in."""
        session, end = self.tokens.get(token or "", ("", datetime.min.replace(tzinfo=UTC)))
        return datetime.now(UTC) < end and self.sessions[session]["state"] in READY

    def _answer(self, service: str, operation: str, given: dict[str, Any]) -> dict[str, Any]:
        self.asked.append((operation, given))
        if self.refuses is not None:
            raise ClientError({"Error": {"Code": self.refuses, "Message": "no"}}, operation)
        lower = {name.lower(): value for name, value in given.items()}
        if operation == "ListSessions":
            return self._listed(service, int(lower.get("nexttoken") or 0))
        if operation == "StartSession":
            found = self._started(lower)
        else:
            found = self.sessions[lower["sessionid"]]
        if operation == "GetSession":
            found["state"] = self.became(found)
            return {"session" if service == "emr-serverless" else "Session": self._shown(service, found)}
        if operation == "TerminateSession":
            found["state"] = "TERMINATED"
        if operation == "GetSessionEndpoint":
            if found["state"] not in READY:
                raise ClientError({"Error": {"Code": "ConflictException", "Message": "no"}}, operation)
            return self._endpoint(service, found)
        if service == "emr":
            return {"Id" if operation == "StartSession" else "SessionId": found["id"], "ClusterId": "j-1"} | (
                {"State": found["state"]}
            )
        ids = {"applicationId": "00f1", "sessionId": found["id"]}
        return ids | ({"arn": ARN + found["id"]} if operation == "StartSession" else {})

    def _listed(self, service: str, place: int) -> dict[str, Any]:
        """A page of one session, from that place on."""
        every = [self._shown(service, found) for found in self.sessions.values()]
        names = ("sessions", "nextToken") if service == "emr-serverless" else ("Sessions", "NextToken")
        more = {names[1]: str(place + 1)} if place + 1 < len(every) else {}
        return {names[0]: every[place : place + 1]} | more

    def _started(self, given: dict[str, Any]) -> dict[str, Any]:
        request = given.get("clienttoken") or given.get("clientrequesttoken")
        for found in self.sessions.values():
            if found["request"] == request:
                return found
        number = f"s{len(self.sessions) + 1}"
        self.sessions[number] = {
            "id": number,
            "name": given["name"],
            "state": self.first_state,
            "request": request,
            "given": given,
        }
        return self.sessions[number]

    def _endpoint(self, service: str, found: dict[str, Any]) -> dict[str, Any]:
        token, end = f"token-of-emr-{len(self.tokens) + 1}", datetime.now(UTC) + self._valid
        self.tokens[token] = found["id"], end
        if service == "emr":
            return {"Endpoint": self.endpoint, "AuthToken": token, "AuthTokenExpirationTime": end}
        ids = {"applicationId": "00f1", "sessionId": found["id"]}
        return ids | {"endpoint": self.endpoint, "authToken": token, "authTokenExpiresAt": end}

    def _shown(self, service: str, found: dict[str, Any]) -> dict[str, Any]:
        now, why = datetime.now(UTC), "of itself" if found["state"] in DEAD else "as asked"
        if service == "emr":
            ids = {"Id": found["id"], "ClusterId": "j-1", "Arn": ARN + found["id"]}
            return ids | {"Name": found["name"], "State": found["state"], "StateChangeReason": why}
        return {
            "applicationId": "00f1",
            "sessionId": found["id"],
            "arn": ARN + found["id"],
            "name": found["name"],
            "state": found["state"],
            "stateDetails": why,
            "releaseLabel": "emr-spark-8.0.0",
            "executionRoleArn": "arn:aws:iam::123456789012:role/lake",
            "createdBy": "arn:aws:iam::123456789012:user/me",
            "createdAt": now,
            "updatedAt": now,
        }
