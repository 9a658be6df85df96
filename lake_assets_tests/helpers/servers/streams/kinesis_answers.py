"""A server that answers requests for the records of a stream of Kinesis, of which it has all that it will ever have.

Here: its shards, and the limits that AWS has for an answer. Not here: a stream that changes (`kinesis.py`), which no
stand-in serves as fast as AWS does.
"""

import base64
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any

MOST_RECORDS, MOST_BYTES = 10_000, 10 << 20
"""Of one answer. A record that is larger comes alone."""


@dataclass
class Answers:
    """What the server says."""

    shards: Mapping[str, Sequence[bytes]]
    """By shard, its messages."""
    times: int = 1
    """How often a shard has its messages, one after another."""
    delay: float = 0.0
    """Seconds that an answer takes."""
    throttled: frozenset[str] = frozenset()
    """Shards of which it refuses each request."""
    lost: int = 0
    """So many requests for records, the first, get no answer: the server closes their connections."""
    garbled: bool = False
    """Whether the answers with records are no JSON."""
    requests: list[tuple[str, int]] = field(default_factory=list)
    """The shard and the Limit of each request for records."""
    at_once: int = 0
    """The most requests for records that it has answered at the same time."""
    _records: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)
    _open: int = 0

    def __post_init__(self) -> None:
        for shard, values in self.shards.items():
            self._records[shard] = [(len(value), base64.b64encode(value).decode()) for value in values]

    def answer(self, operation: str, request: dict[str, Any]) -> tuple[int, str]:
        """Status and body."""
        if operation == "DescribeStreamSummary":
            return 200, json.dumps(
                {
                    "StreamDescriptionSummary": {
                        "StreamCreationTimestamp": 1_770_000_000,
                        "RetentionPeriodHours": 24,
                    }
                }
            )
        if operation == "ListShards":
            return 200, json.dumps({"Shards": [{"ShardId": shard} for shard in self.shards]})
        if operation == "GetShardIterator":
            after = int(request.get("StartingSequenceNumber", -1))
            return 200, json.dumps({"ShardIterator": f"{request['ShardId']}/{after + 1}"})
        assert operation == "GetRecords", operation
        with self._lock:
            self._open += 1
            self.at_once = max(self.at_once, self._open)
        try:
            return self._page(request)
        finally:
            with self._lock:
                self._open -= 1

    def _page(self, request: dict[str, Any]) -> tuple[int, str]:
        shard, _, begin = request["ShardIterator"].partition("/")
        limit = request.get("Limit", MOST_RECORDS)
        self.requests.append((shard, limit))
        time.sleep(self.delay)
        if shard in self.throttled:
            return 400, json.dumps(
                {"__type": "ProvisionedThroughputExceededException", "message": "Rate exceeded for shard"}
            )
        records, size, at = self._records[shard], 0, int(begin)
        found: list[str] = []
        last = self.times * len(records)
        while at < last and len(found) < min(limit, MOST_RECORDS):
            length, text = records[at % len(records)]
            size += length
            if found and size > MOST_BYTES:
                break
            found.append(
                f'{{"SequenceNumber":"{at}","ApproximateArrivalTimestamp":1.77E9,"Data":"{text}","PartitionKey":"k"}}'
            )
            at += 1
        if self.garbled:
            return 200, '{"Records":[{"Data":"'
        rest = f'"NextShardIterator":"{shard}/{at}","MillisBehindLatest":{last - at}'
        return 200, f'{{"Records":[{",".join(found)}],{rest}}}'


@contextmanager
def answering_server(answers: Answers) -> Iterator[str]:
    """The address of a server in threads of this process, inside of the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            operation = self.headers["X-Amz-Target"].rpartition(".")[2]
            if operation == "GetRecords" and answers.lost:
                answers.lost -= 1
                self.close_connection = True
                return
            status, text = answers.answer(operation, request)
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/x-amz-json-1.1")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
