"""The disturbances and their times: one after the other at random, several at once.

Here: their kinds and their order. Not here: causing them (`storage.py`, `processes.py`).
"""

import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable

import psutil

from lake_assets_tests.chaos.processes import Daemon, WatchedServer
from lake_assets_tests.chaos.storage import Storage, Trouble

PAUSES = (2.0, 14.0)
"""Seconds from one disturbance to the next."""
S3_KINDS = ("500", "503", "500 after")
SQS_KINDS = ("500", "503", "503 after", "slow")


class Disturbances:
    """All of them, by a seed."""

    def __init__(
        self,
        seed: int,
        storage: Storage,
        daemon: Daemon,
        server: WatchedServer,
        report: Callable[[str], None],
    ) -> None:
        self._random = random.Random(seed)
        self._storage, self._daemon, self._server, self._report = storage, daemon, server, report
        self._ends: dict[str, float] = {}
        """By service, Spark and the daemon: when its disturbance ends, by the process's clock."""
        self.done: Counter[str] = Counter()
        self._kinds: dict[str, Callable[[], str]] = {
            "Spark killed": self._spark,
            "Spark hangs": self._spark_hangs,
            "daemon killed": self._daemon_alone,
            "daemon and all its processes killed": self._daemon_whole,
            "run killed": self._run,
            "S3 refuses": self._s3_refuses,
            "S3 is slow": self._s3_slow,
            "SQS is down": self._sqs,
        }

    def go_on(self, seconds: float) -> None:
        """Runs disturbances for this time; each kind at least once if there is enough."""
        end = time.monotonic() + seconds
        bag: list[str] = []
        due = time.monotonic() + self._random.uniform(*PAUSES)
        while time.monotonic() < end:
            time.sleep(0.1)
            self._end_what_is_over()
            if time.monotonic() < due:
                continue
            if not bag:
                bag = sorted(self._kinds)
                self._random.shuffle(bag)
            kind = bag.pop()
            self._report(f"{kind}{self._kinds[kind]()}")
            self.done[kind] += 1
            due = time.monotonic() + self._random.uniform(*PAUSES)

    def over(self) -> None:
        """Ends all disturbances."""
        self._ends = dict.fromkeys(self._ends, 0.0)
        self._end_what_is_over()
        self._daemon.start()

    def _end_what_is_over(self) -> None:
        for what, end in list(self._ends.items()):
            if time.monotonic() >= end:
                del self._ends[what]
                if what == "daemon":
                    self._daemon.start()
                elif what == "Spark":
                    self._server.wake()
                else:
                    self._storage.troubles.pop(what, None)

    def _trouble(self, service: str, trouble: Trouble, seconds: float) -> str:
        self._storage.troubles[service] = trouble
        self._ends[service] = time.monotonic() + seconds
        return f": {trouble.share:.0%} of the requests, {seconds:.0f} s"

    def _spark(self) -> str:
        rest = self._random.choice((0.0, self._random.uniform(0, 8)))
        self._server.kill(rest)
        return f", started again after {rest:.1f} s"

    def _spark_hangs(self) -> str:
        self._server.hang()
        seconds = self._random.uniform(2, 20)
        self._ends["Spark"] = time.monotonic() + seconds
        return f", for {seconds:.1f} s"

    def _daemon_alone(self) -> str:
        self._daemon.kill()
        return self._away()

    def _daemon_whole(self) -> str:
        self._daemon.kill_all()
        return self._away()

    def _away(self) -> str:
        seconds = self._random.uniform(0, 10)
        self._ends["daemon"] = time.monotonic() + seconds
        return f", started again after {seconds:.1f} s"

    def _run(self) -> str:
        runs = self._daemon.runs()
        if not runs:
            return ": there was none"
        with contextlib.suppress(psutil.NoSuchProcess):
            self._random.choice(runs).kill()
        return f", of {len(runs)}"

    def _s3_refuses(self) -> str:
        share = self._random.choice((0.02, 0.1, 0.3, 1.0))
        return self._trouble("s3", Trouble(share, S3_KINDS), self._random.uniform(3, 15))

    def _s3_slow(self) -> str:
        slow = Trouble(self._random.uniform(0.1, 0.6), ("slow",), self._random.uniform(0.5, 5))
        return self._trouble("s3", slow, self._random.uniform(5, 20))

    def _sqs(self) -> str:
        return self._trouble(
            "sqs", Trouble(self._random.choice((0.3, 1.0)), SQS_KINDS, 5.0), self._random.uniform(5, 40)
        )
