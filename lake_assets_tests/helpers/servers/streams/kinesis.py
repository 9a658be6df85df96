"""Kinesis Data Streams on this machine: moto's server, with what it does otherwise than AWS put right.

Here: closed shards, their end, and sequence numbers. Not here: the messages (`helpers/files/dms_messages.py`).
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any
from unittest.mock import patch

from botocore.exceptions import ClientError

from lake_assets_tests.helpers.servers.s3 import client, s3_server

_numbers = count(49_590_338_271_490_256_608_559_692_538_361_571_095_921_575_989_136_588_898)
"""Sequence numbers as AWS has them: of 56 digits, rising over all shards."""


@contextmanager
def kinesis_server() -> Iterator[str]:
    """The address of a server that runs inside of the block."""
    from moto.kinesis import models, responses
    from moto.kinesis.utils import decompose_shard_iterator

    split, merge = models.Stream.split_shard, models.Stream.merge_shards

    def split_shard(self: Any, name: str, key: str) -> None:
        """A shard that is closed keeps its records; moto moves them to its children."""
        shard = self.shards[name]
        records, shard.records = shard.records, OrderedDict()
        split(self, name, key)
        shard.records = records

    def merge_shards(self: Any, one: str, other: str) -> None:
        shards = [self.shards[one], self.shards[other]]
        records = [shard.records for shard in shards]
        for shard in shards:
            shard.records = OrderedDict()
        merge(self, one, other)
        for shard, own in zip(shards, records, strict=True):
            shard.records = own

    def shard_for_key(self: Any, partition_key: str, explicit_hash_key: str) -> Any:
        hashed = int(explicit_hash_key or int(hashlib.md5(partition_key.encode()).hexdigest(), 16))
        found = (shard for shard in self.shards.values() if shard.is_open)
        return next(shard for shard in found if shard.starting_hash <= hashed <= shard.ending_hash)

    def put_record(self: Any, partition_key: str, data: str, explicit_hash_key: str) -> str:
        number = next(_numbers)
        self.records[number] = models.Record(partition_key, data, number, explicit_hash_key)
        return str(number)

    answered = responses.KinesisResponse.get_records

    def get_records(self: Any) -> Any:
        answer = answered(self)
        stream, name, last = decompose_shard_iterator(self._get_param("ShardIterator"))
        shard = self.kinesis_backend.streams[stream].shards[name]
        result: Any = answer.result
        if not shard.is_open and not any(number > int(last) for number in shard.records):
            del result["NextShardIterator"]
        return answer

    with (
        patch.object(models.Stream, "split_shard", split_shard),
        patch.object(models.Stream, "merge_shards", merge_shards),
        patch.object(models.Stream, "get_shard_for_key", shard_for_key),
        patch.object(models.Shard, "put_record", put_record),
        patch.object(responses.KinesisResponse, "get_records", get_records),
        s3_server() as address,
    ):
        yield address


def kinesis_client(address: str) -> Any:
    """A boto3 client of such a server."""
    return client("kinesis", address)


def open_shards(aws: Any, stream: str) -> list[dict[str, Any]]:
    """The stream's shards that take messages, by their range."""
    found = aws.list_shards(StreamName=stream)["Shards"]
    still = [shard for shard in found if "EndingSequenceNumber" not in shard["SequenceNumberRange"]]
    return sorted(still, key=lambda shard: int(shard["HashKeyRange"]["StartingHashKey"]))


def split(aws: Any, stream: str, place: int) -> None:
    """Splits one of the open shards in the middle."""
    shard = open_shards(aws, stream)[place]
    begin, end = (int(shard["HashKeyRange"][name]) for name in ("StartingHashKey", "EndingHashKey"))
    middle = str((begin + end) // 2)
    aws.split_shard(StreamName=stream, ShardToSplit=shard["ShardId"], NewStartingHashKey=middle)


def merge(aws: Any, stream: str, place: int) -> None:
    """Merges one of the open shards with the next."""
    one, other = open_shards(aws, stream)[place : place + 2]
    aws.merge_shards(StreamName=stream, ShardToMerge=one["ShardId"], AdjacentShardToMerge=other["ShardId"])


class Refusing:
    """A client of Kinesis whose requests for records are put off, by chance."""

    def __init__(self, client: Any, refuses: Callable[[], str | None]) -> None:
        """`refuses`: the code of the error, or None for an answer."""
        self._client, self._refuses = client, refuses

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def get_records(self, **request: Any) -> Any:
        if (code := self._refuses()) is not None:
            raise ClientError({"Error": {"Code": code, "Message": "later"}}, "GetRecords")
        return self._client.get_records(**request)


PUT_OFF = ("ProvisionedThroughputExceededException", "ExpiredIteratorException")
"""Codes of errors after which a reader asks again."""
