"""The landings of a source's stream, as scans of its bucket are for a source with files.

Here: opening the reader, and the warnings for a user. Not here: a landing (`bronze/stream/landing.py`).
"""

import logging
from collections import Counter
from datetime import UTC, datetime

from lake_assets.bronze.files.keys import UnknownKey
from lake_assets.bronze.quarantine.quarantine_log import IN_NO_FILE, Quarantined
from lake_assets.bronze.scan.discovery import NOT_CONFIGURED, Discovery
from lake_assets.bronze.stream.clients import Message
from lake_assets.bronze.stream.clients.stream_client import opened_client
from lake_assets.bronze.stream.landed_objects import CARRIER
from lake_assets.bronze.stream.landing import Fault, Landed, Landing
from lake_assets.config import REDACTED
from lake_assets.runtime import LakeRuntime
from lake_assets.silver.table.targets import Target, source_targets
from lake_assets.words import many

MOST_WARNINGS = 20
SHOWN_BYTES = 4096
"""Bytes of a message that the quarantine shows, which is in memory."""

logger = logging.getLogger(__name__)


class StreamArrivals:
    """A process's repeated landings of one source, with their reader and past warnings."""

    def __init__(self, runtime: LakeRuntime, source: str) -> None:
        config = runtime.lake.sources[source]
        assert config.stream is not None
        self._runtime, self._source = runtime, source
        self._client = opened_client(config.stream, runtime.aws)
        store, log = runtime.store(source), runtime.file_log
        self._landing = Landing(source, config, store, log, self._client, self._quarantine)
        self._targets = source_targets(source, config)
        self._seconds = config.stream.interval.total_seconds()
        self._warned: set[str] = set()

    def skip_expired(self) -> None:
        """Goes on with the messages that the stream still has. Raises StoreError, and Overtaken if another process has
        landed meanwhile."""
        self._landing.skip_expired()

    def scan(self, wait_seconds: float = 0.0) -> Discovery:
        """One landing. `wait_seconds`: for the first message, at most the source's interval. Raises StoreError."""
        try:
            landed = self._landing.land(min(wait_seconds, self._seconds))
        except Exception as error:
            self._runtime.scan_failures.note(self._source, error)
            raise
        self._runtime.scan_failures.note(self._source, None)
        self._warn(landed)
        return Discovery(
            landed.logged,
            [UnknownKey(_place(fault.message), fault.reason) for fault in landed.faults],
            dict(landed.unconfigured),
            landed.controls,
            landed.messages,
        )

    def catch_up(self) -> Discovery:
        """Landings of everything that the stream has at this moment. Raises as `scan`."""
        found = [self.scan(self._seconds)]
        while not self._client.is_current():
            found.append(self.scan(self._seconds))
        unconfigured: Counter[str] = Counter()
        for one in found:
            unconfigured.update(one.unconfigured)
        return Discovery(
            [file for one in found for file in one.logged],
            [key for one in found for key in one.unknown],
            dict(unconfigured),
            sum(one.ignored for one in found),
            sum(one.listed for one in found),
        )

    def close(self) -> None:
        self._client.close()

    def _quarantine(self, faults: list[Fault]) -> None:
        """Quarantines what cannot be read of the lake's tables, up to the limit of rows of each; a message that is read
        again is quarantined once. `_stream/` has all of them, whole."""
        head, quarantine = self._runtime.file_log.head(), self._runtime.quarantine
        held: list[Quarantined] = []
        for target in self._targets:
            own = [fault for fault in faults if fault.table == target.table]
            if own:
                room = max(1, target.config.quarantine.max_rows) - len(quarantine.open(target.identifier))
                held += [self._held(fault, target, head) for fault in own[: max(0, room)]]
        if held:
            quarantine.add(held)

    def _held(self, fault: Fault, target: Target, head: int) -> Quarantined:
        return Quarantined(
            silver_table=target.identifier,
            source=self._source,
            table=target.table,
            key=_place(fault.message),
            version=IN_NO_FILE,
            log_offset=head,
            row=None,
            line=None,
            raw=_text(fault.message.value, target),
            reason=fault.reason,
            batch="",
            at=datetime.now(UTC),
        )

    def _warn(self, landed: Landed) -> None:
        for fault in landed.faults[:MOST_WARNINGS]:
            logger.warning("%s: %s is no change: %s", self._source, _place(fault.message), fault.reason)
        if len(landed.faults) > MOST_WARNINGS:
            logger.warning(
                "%s: and %s", self._source, many(len(landed.faults) - MOST_WARNINGS, "more message")
            )
        if landed.gap is not None:
            logger.warning(
                "%s: %s. Compare the tables with the source, or have DMS reload them.",
                self._source,
                landed.gap,
            )
        for record in sorted(landed.unclear):
            logger.warning(
                "%s: DMS reports %s, and not which columns: the record is kept, and the next row shows its own columns",
                self._source,
                record,
            )
        for table, count in sorted(landed.unconfigured.items()):
            if table not in self._warned:
                logger.warning(
                    "%s: %s of %s, which %s", self._source, many(count, "row"), table, NOT_CONFIGURED
                )
                self._warned.add(table)


def _place(message: Message) -> str:
    return f"message {message.position} of {message.shard}"


def _text(value: bytes | None, target: Target) -> str:
    if target.config.mask:
        return REDACTED
    text = (value or b"")[:SHOWN_BYTES].decode(errors="replace")
    return text if len(value or b"") <= SHOWN_BYTES else f"{text}… (the whole message is in {CARRIER}/)"
