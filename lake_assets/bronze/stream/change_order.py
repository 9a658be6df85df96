"""The order of changes from a stream, as the change sequence of 35 digits that DMS's files have.

Here: the sequence of one change, by its source's engine, and the change before it. Not here: what the sequence decides
(`silver/`), what is missing (`bronze/log/streams/transaction_chain.py`). Pure.

Neither the order of arrival nor the time of a message is the order of the source: DMS sends messages again, and in
parallel. MySQL's transaction id is the place of the transaction in the binary log, whose order is that of the commits,
whatever the clocks say. PostgreSQL has microseconds of the commit. Oracle and SQL Server need DMS's own sequence.
"""

import re
from datetime import UTC, datetime

from lake_assets.bronze.log.streams.transaction_chain import Linked
from lake_assets.bronze.stream.messages import Change, Metadata, Unreadable

CHANGE_SEQUENCE = "$AR_H_CHANGE_SEQ"
MYSQL_RECORD, POSTGRESQL_RECORD = 19, 15
"""Digits of the place in a transaction."""
_SEQUENCE = re.compile(r"[0-9]{35}")


def change_sequence(engine: str, column: str | None, change: Change) -> str:
    """The change's place among all changes of its source. `engine`: mysql, postgresql, oracle or sqlserver. `column`:
    the column that the task's mapping adds for `$AR_H_CHANGE_SEQ`; it wins where it is given. Raises Unreadable."""
    if column is not None:
        return _own(change.values.get(column), column)
    metadata = change.metadata
    if metadata.transaction_id is None or metadata.transaction_record_id is None:
        raise Unreadable(
            "its metadata has no transaction-id and transaction-record-id, so that its order is unknown: set "
            "IncludeTransactionDetails of the endpoint to true"
        )
    if metadata.transaction_id <= 0:
        raise Unreadable(f"its transaction-id is {metadata.transaction_id}, which orders nothing")
    most = 10 ** (MYSQL_RECORD if engine == "mysql" else POSTGRESQL_RECORD)
    if not 0 <= metadata.transaction_record_id < most:
        raise Unreadable(
            f"its transaction-record-id is {metadata.transaction_record_id}, which is no place in a transaction"
        )
    if engine == "mysql":
        return _of_binary_log(metadata.transaction_id, metadata.transaction_record_id)
    if engine == "postgresql":
        return _of_commit(metadata, metadata.transaction_record_id)
    raise Unreadable(f"changes of {engine} have no order without a column for {CHANGE_SEQUENCE}")


def linked(metadata: Metadata, sequence: str, at: datetime | None) -> Linked | None:
    """The change as one of its source's chain; None if DMS does not say its place in the transaction. `at`: when it was
    committed."""
    transaction, record = metadata.transaction_id, metadata.transaction_record_id
    if transaction is None or record is None or at is None:
        return None
    earlier, its_record = metadata.prev_transaction_id, metadata.prev_transaction_record_id
    before = None if earlier is None or its_record is None else (earlier, its_record)
    if record > 1 and earlier != transaction:
        before = transaction, record - 1
    return Linked(sequence, (transaction, record), before, at)


def _own(value: str | None, column: str) -> str:
    if value is None or not _SEQUENCE.fullmatch(value):
        shown = "absent" if value is None else f"{len(value)} characters"
        raise Unreadable(
            f"its {column} is {shown}, and not 35 digits: have the task's mapping add the column with the expression "
            f"{CHANGE_SEQUENCE}"
        )
    return value


def _of_binary_log(transaction: int, record: int) -> str:
    """The upper half of MySQL's transaction id is the number of the binary log's file, the lower one the position in
    it at which the transaction begins."""
    file, position = transaction >> 32, transaction & 0xFFFFFFFF
    if file >= 10**6:
        raise Unreadable(f"its transaction-id {transaction} is no place in a binary log of MySQL")
    return f"{file:06d}{position:010d}{record:0{MYSQL_RECORD}d}"


def _of_commit(metadata: Metadata, record: int) -> str:
    """The first 16 digits are the commit's time in centiseconds, as in DMS's own sequence."""
    at = commit_time(metadata)
    if at is None:
        raise Unreadable(
            "its metadata has no commit-timestamp: set IncludeTransactionDetails of the endpoint to true"
        )
    centiseconds, rest = divmod(at.microsecond, 10_000)
    return f"{at:%Y%m%d%H%M%S}{centiseconds:02d}{rest:04d}{record:0{POSTGRESQL_RECORD}d}"


def commit_time(metadata: Metadata) -> datetime | None:
    """When the transaction was committed, UTC; None if the record does not say it. Raises Unreadable if it is no
    time."""
    return _time("commit-timestamp", metadata.commit_timestamp)


def built_time(metadata: Metadata) -> datetime | None:
    """When DMS built the message; otherwise as `commit_time`."""
    return _time("timestamp", metadata.timestamp)


def _time(name: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
        if found.tzinfo is UTC:
            return found
        return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise Unreadable(f"its {name} is {text!r}, which is no time") from error


def time_of(sequence: str) -> datetime | None:
    """The time in DMS's own change sequence, to the centisecond, UTC; None if it has none."""
    try:
        return datetime.strptime(f"{sequence[:16]}0000Z", "%Y%m%d%H%M%S%f%z")
    except ValueError:
        return None
