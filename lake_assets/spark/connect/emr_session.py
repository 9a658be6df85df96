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
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from lake_assets.config import LakeConfig
from lake_assets.config.secrets import keep_hidden
from lake_assets.spark.connect.connect_address import ConnectAddress, SparkRefused
from lake_assets.spark.connect.emr_services import EmrOnEc2, EmrServerless, EmrService, Endpoint, Session
from lake_assets.spark.preflight import PreflightError
from lake_assets.spark.settings import cluster_conf
from lake_assets.storage.aws_client import Aws
from lake_assets.storage.aws_faults import aws_errors, error_code, explained

TOKEN_HEADER = "x-aws-proxy-auth"
"""The header by which EMR's endpoints take the token. They take it with each call, so a new token needs no new
connection."""
COMING = ("SUBMITTED", "STARTING")
READY = ("STARTED", "IDLE", "BUSY")
LIVE = (*COMING, *READY)
POLL_SECONDS = 2.0
START_SECONDS = 900.0
RENEWED_BEFORE = timedelta(minutes=5)
"""How long before its end a token is replaced."""
RETRIES = {"mode": "standard", "max_attempts": 8}
_RIGHTS = (
    "grant StartSession, GetSession, ListSessions, GetSessionEndpoint and TerminateSession, and iam:PassRole for "
    "spark.role"
)
_CHECK = (
    "check spark.application and spark.role, that the release is emr-spark-8.0.0 or later, and that it has interactive "
    "sessions enabled"
)
_ADVICE = {
    "AccessDeniedException": _RIGHTS,
    "ResourceNotFoundException": "correct spark.application in lake.yaml",
    "ValidationException": _CHECK,
    "InvalidRequestException": _CHECK,
}
"""By error code of an answer that stays as it is until somebody does this."""


class EmrSession:
    """The lake's session at EMR. Threads may share it."""

    log = None

    def __init__(self, lake: LakeConfig, aws: Aws, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self._sleep = sleep
        self.place = lake.spark.address
        self.here = f"at {self.place}"
        self._settings = cluster_conf(lake)
        # Another warehouse or other settings need another Spark.
        about = json.dumps([lake.catalog.warehouse, lake.spark.role, self._settings], sort_keys=True)
        digest = hashlib.sha256(about.encode()).hexdigest()[:12]
        self.name = f"lake_assets {lake.catalog.name} {digest}"
        name, kind = ("emr", EmrOnEc2) if lake.spark.mode == "emr" else ("emr-serverless", EmrServerless)
        self._service: EmrService = kind(
            lambda: aws.client(name, lake.spark.aws, retries=RETRIES), lake.spark
        )
        self._starting = threading.Lock()
        self._known: _Token | None = None

    def address(self) -> ConnectAddress:
        """Where the session is reached; starts it if there is none, and waits for it. Raises PreflightError."""
        ready = self.start()
        with self._explained():
            known = self._known
            if known is None or known.session != ready.id:
                self._known = known = _Token(self._service, ready.id)
            parts = urlsplit(known.current().url)

        def headers() -> Mapping[str, str]:
            with self._explained():
                return {TOKEN_HEADER: known.current().token}

        return ConnectAddress(f"sc://{parts.hostname}:{parts.port or 443}/;use_ssl=true", None, headers)

    def start(self) -> Session:
        """The session, which is started if there is none, as soon as it is ready. Raises PreflightError."""
        with self._starting, self._explained():
            found, ended = self._found(), time.monotonic() + START_SECONDS
            while found.state in COMING and time.monotonic() < ended:
                self._sleep(POLL_SECONDS)
                found = self._service.session(found.id)
        if found.state not in READY:
            reason = f": {found.reason}" if found.reason else ""
            raise PreflightError(
                f"{self.place}: the session {found.id} is {found.state}{reason}; look at its log in the console of "
                "EMR, and try again."
            )
        return found

    def running(self) -> Session | None:
        """The session that runs or starts, or None. Raises PreflightError."""
        with self._explained():
            return next(iter(_live(self._own())), None)

    def forget(self) -> None:
        """Asks for all again, because what is known does not lead to Spark any more."""
        self._known = None

    def stop(self) -> bool:
        """Ends the session; returns whether there was one. Running batches are lost; each is published whole or not at
        all. Raises PreflightError."""
        with self._explained():
            found = _live(self._own())
            for one in found:
                self._service.end(one.id)
        return bool(found)

    def _found(self) -> Session:
        if (known := self._known) is not None:
            with suppress(*aws_errors()):  # EMR may have forgotten it
                if (session := self._service.session(known.session)).state in READY:
                    return session
        own = self._own()
        return next(iter(_live(own)), None) or self._started([one.id for one in own])

    def _own(self) -> list[Session]:
        return sorted(
            (one for one in self._service.sessions() if one.name == self.name), key=lambda one: one.id
        )

    def _started(self, ended: list[str]) -> Session:
        """A new session, after those that have ended. Processes that start one at the same time have listed the same,
        make equal requests, and get the same session."""
        while True:
            request = hashlib.sha256(json.dumps([self.name, ended]).encode()).hexdigest()[:36]
            found = self._service.session(self._service.start(self.name, request, self._settings))
            if found.state in LIVE or found.id in (one.id for one in self._own()):
                return found
            # The session of the same request of long ago, which is no longer listed.
            ended = [*ended, found.id]

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except aws_errors() as error:
            said = explained(error, "EMR", self.place, self.place, _ADVICE, "spark.aws")
            kind = SparkRefused if error_code(error) in _ADVICE else PreflightError
            raise kind(said) from error


class _Token:
    """The endpoint of one session with its token, which is replaced before its end."""

    def __init__(self, service: EmrService, session: str) -> None:
        self._service, self.session = service, session
        self._endpoint: Endpoint | None = None
        # Not a plain lock: the garbage collector may run during a request, and a frame that it collects calls the
        # server, for which it needs the token.
        self._lock = threading.RLock()

    def current(self) -> Endpoint:
        with self._lock:
            found = self._endpoint
            if found is None or found.expires - datetime.now(UTC) < RENEWED_BEFORE:
                self._endpoint = found = self._service.endpoint(self.session)
                keep_hidden(found.token)
            return found


def _live(sessions: list[Session]) -> list[Session]:
    return [one for one in sessions if one.state in LIVE]
