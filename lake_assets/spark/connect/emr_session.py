"""The session of Spark Connect that a lake has at Amazon EMR, on a cluster or in an application of EMR Serverless.

All processes of a lake share one, because EMR needs a minute or two to start it, and it costs as long as it runs. A
process finds it by its name, and starts it where there is none. EMR ends it after a rest (`spark.idle`), and so does
`lake-assets spark stop`. Not here: the calls (`emr_services.py`), connecting (`spark/session.py`).
"""

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from lake_assets.config import LakeConfig
from lake_assets.config.secrets import keep_hidden
from lake_assets.errors import LakeError
from lake_assets.spark.connect.connect_address import ConnectAddress
from lake_assets.spark.connect.emr_services import EmrOnEc2, EmrServerless, EmrService, Endpoint, Session
from lake_assets.spark.settings import cluster_conf
from lake_assets.storage.aws_client import Aws
from lake_assets.storage.aws_faults import aws_errors, explained

TOKEN_HEADER = "x-aws-proxy-auth"
"""The header by which EMR's endpoints take the token. They take it with each call, so a new token needs no new
connection."""
COMING = ("SUBMITTED", "STARTING")
READY = ("STARTED", "IDLE", "BUSY")
POLL_SECONDS = 2.0
START_SECONDS = 900.0
RENEWED_BEFORE = timedelta(minutes=5)
"""How long before its end a token is replaced."""
RETRIES = {"mode": "standard", "max_attempts": 8}
_ADVICE = {
    "AccessDeniedException": (
        "grant StartSession, GetSession, ListSessions, GetSessionEndpoint and TerminateSession, and iam:PassRole on "
        "spark.role"
    ),
    "ResourceNotFoundException": "correct spark.application in lake.yaml",
    "ValidationException": (
        "check spark.application and spark.role, that the release is emr-spark-8.0.0 or later, and that it has "
        "interactive sessions enabled"
    ),
    "ServiceQuotaExceededException": "raise the limit of sessions, or end others",
}
_ADVICE["InvalidRequestException"] = _ADVICE["ValidationException"]


class EmrFailed(LakeError):
    """EMR did not start a session or did not answer. The message is one sentence."""


class EmrSession:
    """The lake's session at EMR. Threads may share it."""

    log = None

    def __init__(self, lake: LakeConfig, aws: Aws, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._spark, self._sleep = lake.spark, sleep
        self.place = lake.spark.address
        self.here = f"at {self.place}"
        self._settings = cluster_conf(lake)
        # Another warehouse or other settings need another Spark.
        about = json.dumps([lake.catalog.warehouse, lake.spark.role, self._settings], sort_keys=True)
        digest = hashlib.sha256(about.encode()).hexdigest()[:12]
        self.name = f"lake_assets {lake.catalog.name} {digest}"
        name, kind = (
            ("emr-serverless", EmrServerless) if lake.spark.mode == "emr_serverless" else ("emr", EmrOnEc2)
        )
        self._service: EmrService = kind(
            lambda: aws.client(name, lake.spark.aws, retries=RETRIES), lake.spark
        )
        self._lock = threading.Lock()
        self._id: str | None = None
        self._endpoint: Endpoint | None = None

    def address(self) -> ConnectAddress:
        """Where the session is reached; starts it if there is none, and waits for it. Raises EmrFailed."""
        self.start()
        with self._lock, self._explained():
            parts = urlsplit(self._fresh().url)
            return ConnectAddress(
                f"sc://{parts.hostname}:{parts.port or 443}/;use_ssl=true", None, self._headers
            )

    def start(self) -> Session:
        """The session, which is started if there is none, as soon as it is ready. Raises EmrFailed."""
        with self._lock, self._explained():
            ready = self._ready()
            if ready.id != self._id:
                self._id, self._endpoint = ready.id, None
            return ready

    def running(self) -> Session | None:
        """The session that runs or starts, or None. Raises EmrFailed."""
        with self._explained():
            found = [one for one in self._service.sessions() if one.name == self.name]
            live = [one for one in found if one.state in (*COMING, *READY)]
            return min(live, key=lambda one: one.id, default=None)

    def has_ended(self) -> bool:
        """Whether the session to which the last address led has ended. Raises EmrFailed."""
        with self._lock, self._explained():
            return self._id is not None and self._service.session(self._id).state not in (*COMING, *READY)

    def stop(self) -> bool:
        """Ends the session; returns whether there was one. Running batches are lost; each is published whole or not at
        all. Raises EmrFailed."""
        found = self.running()
        if found is not None:
            with self._explained():
                self._service.end(found.id)
        return found is not None

    def _ready(self) -> Session:
        if self._id is not None and (known := self._service.session(self._id)).state in READY:
            return known
        found, ended = self.running(), time.monotonic() + START_SECONDS
        if found is None:
            found = self._started()
        while found.state in COMING and time.monotonic() < ended:
            self._sleep(POLL_SECONDS)
            found = self._service.session(found.id)
        if found.state not in READY:
            reason = f": {found.reason}" if found.reason else ""
            raise EmrFailed(
                f"{self.place}: the session {found.id} is {found.state}{reason}; look at its log in the "
                "console of EMR, and try again."
            )
        return found

    def _started(self) -> Session:
        """A new session. Processes that start one at the same time get the same: their requests are equal, because they
        are named after the sessions that have ended."""
        ended = self._listed()
        while True:
            request = hashlib.sha256(json.dumps([self.name, ended]).encode()).hexdigest()[:36]
            found = self._service.session(self._service.start(self.name, request, self._settings))
            if found.state in (*COMING, *READY) or found.id in self._listed():
                return found
            # The session of the same request of long ago, which is no longer listed.
            ended = [*ended, found.id]

    def _listed(self) -> list[str]:
        return sorted(one.id for one in self._service.sessions() if one.name == self.name)

    def _headers(self) -> Mapping[str, str]:
        with self._lock, self._explained():
            return {TOKEN_HEADER: self._fresh().token}

    def _fresh(self) -> Endpoint:
        assert self._id is not None, "an address was asked for"
        if self._endpoint is None or self._endpoint.expires - datetime.now(UTC) < RENEWED_BEFORE:
            self._endpoint = self._service.endpoint(self._id)
            keep_hidden(self._endpoint.token)
        return self._endpoint

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except aws_errors() as error:
            raise EmrFailed(explained(error, "EMR", self.place, self.place, _ADVICE, "spark.aws")) from error
