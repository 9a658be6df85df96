"""Messages of five tables as AWS DMS writes them: one line, with all transaction details.

Here: their text and sizes. Not here: the servers that have them.
"""

import json
from collections.abc import Iterator, Sequence

TABLES = 5
SIZE = 627
"""Bytes of a message; 450 of them are metadata, as in real ones."""
OPERATIONS = ("insert", "update", "update", "delete")


def messages(
    count: int,
    size: int = SIZE,
    transaction_rows: int = 10,
    text: str = "x",
    operations: Sequence[str] = OPERATIONS,
) -> Iterator[bytes]:
    """So many messages of this size, about, with so many rows in a transaction. `text`: what fills a row."""
    for number in range(count):
        transaction, record = divmod(number, transaction_rows)
        operation = operations[number % len(operations)]
        at = f"2026-11-28T10:{number // 60_000 % 60:02d}:{number // 1000 % 60:02d}"
        place = (157832 << 32) + 1000 + transaction * 977
        said = {
            "timestamp": f"{at}.{number % 1_000_000:06d}Z",
            "record-type": "data",
            "operation": operation,
            "partition-key-type": "primary-key",
            "partition-key-value": f"shop.t{number % TABLES}.{number}",
            "schema-name": "shop",
            "table-name": f"t{number % TABLES}",
            "transaction-id": place,
            "transaction-record-id": record + 1,
            "prev-transaction-id": place - 977,
            "prev-transaction-record-id": transaction_rows,
            "commit-timestamp": f"{at}.000000Z",
            "stream-position": f"mysql-bin-changelog.157832:{1000 + transaction * 977}:0:{2000 + transaction * 977}",
        }
        data = {
            "id": number,
            "customer_id": number % 10_007,
            "total": 553597.25,
            "status": "shipped",
            "note": None,
            "changed_at": f"{at}Z",
            "text": "",
        }
        found: dict[str, object] = {"data": data}
        if operation == "update":
            found["before-image"] = {"id": number}
        found["metadata"] = said
        length = len(json.dumps(found, separators=(",", ":")))
        data["text"] = text * ((size - length) // len(json.dumps(text, ensure_ascii=False)[1:-1].encode()))
        yield json.dumps(found, separators=(",", ":"), ensure_ascii=False).encode()
