"""Kinesis Data Streams on this machine: moto's server, with what it does otherwise than AWS put right.

Here: closed shards, their end, and sequence numbers. Not here: the messages (`helpers/files/dms_messages.py`).
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any
from unittest.mock import patch

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
