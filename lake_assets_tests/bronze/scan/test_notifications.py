"""S3's notifications through moto's S3 and SQS: hints that find files sooner, and change nothing else.

Here: queues, standard and FIFO, and looks with them. Not here: what a message says (`test_s3_events.py`), which
prefixes a look asks for (`bronze/scan/test_listing.py`).
"""

import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from lake_assets.bronze.files.keys import FileKind
from lake_assets.bronze.scan.notifications import Notifications, QueueUnavailable
from lake_assets.bronze.scan.object_listing import Listing
from lake_assets.bronze.scan.vanished import Removal
from lake_assets.config import LakeConfig, NotificationsConfig, S3Config
from lake_assets.rounds.arrivals import Arrivals
from lake_assets.runtime import LakeRuntime
from lake_assets_tests.helpers.lakes.small_lakes import lake_config
from lake_assets_tests.helpers.servers.s3 import ACCESS, client
from lake_assets_tests.helpers.servers.s3_messages import event_bridge, notification

HEADER = b"Op,commit_ts,id,name,price,at,change_seq,BI_id\n"


class Aws:
    """Clients of moto's server, and queues of a test's own."""

    def __init__(self, s3: S3Config) -> None:
        self.access = ACCESS | {"endpoint": s3.endpoint}
        self.sqs = client("sqs", s3.endpoint)
        self.s3 = client("s3", s3.endpoint)
        self.queues: list[str] = []

    def queue(self, fifo: bool = False, **attributes: str) -> str:
        name = f"files-{uuid4().hex}" + (".fifo" if fifo else "")
        given = {"FifoQueue": "true", "ContentBasedDeduplication": "true"} if fifo else {}
        url: str = self.sqs.create_queue(QueueName=name, Attributes=given | attributes)["QueueUrl"]
        self.queues.append(url)
        return url

    def send(self, url: str, *bodies: Any) -> None:
        for body in bodies:
            text = body if isinstance(body, str) else json.dumps(body)
            group = {"MessageGroupId": uuid4().hex} if url.endswith(".fifo") else {}
            self.sqs.send_message(QueueUrl=url, MessageBody=text, **group)

    def left(self, url: str) -> list[str]:
        """What nobody has taken or deleted."""
        found = []
        while messages := self.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
            found += [message["Body"] for message in messages]
        return found

    def hidden(self, url: str) -> int:
        name = "ApproximateNumberOfMessagesNotVisible"
        answer = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=[name])
        return int(answer["Attributes"][name])


@pytest.fixture
def aws(s3: S3Config) -> Iterator[Aws]:
    found = Aws(s3)
    yield found
    for url in found.queues:
        found.sqs.delete_queue(QueueUrl=url)


def notifications(aws: Aws, url: str, location: str = "s3://lake/landing", **config: Any) -> Notifications:
    return Notifications(
        NotificationsConfig.model_validate({"queue_url": url} | aws.access | config), location
    )


@pytest.mark.parametrize("fifo", [False, True])
def test_messages_are_taken_and_deleted(aws: Aws, fifo: bool) -> None:
    url, letters = aws.queue(fifo), aws.queue(fifo)
    queue = notifications(aws, url, dead_letter_queue_url=letters)
    aws.send(
        url,
        {"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": "lake"},
        {"Records": [notification("ObjectCreated:Put", "landing/public/items/1.csv")]},
        {"Records": [notification("ObjectCreated:Put", "elsewhere/public/items/1.csv")]},
        event_bridge("PutObject", "Object Created", key="landing/public/items/2.csv"),
        {"Records": [notification("ObjectRemoved:Delete", "landing/public/items/3.csv")]},
        "no JSON at all",
        {"Records": [{"eventName": "ObjectCreated:Put"}]},
    )
    received = queue.receive()
    assert set(received.created) == {"public/items/1.csv", "public/items/2.csv"}
    assert {key: gone.why for key, gone in received.removals.items()} == {
        "public/items/3.csv": Removal.DELETED
    }
    assert (len(received.handles), received.malformed) == (5, 2)
    assert aws.hidden(url) == 5
    assert queue.receive().handles == ()
    queue.done(received)
    assert aws.hidden(url) == 0
    assert sorted(aws.left(letters)) == [
        "no JSON at all",
        '{"Records": [{"eventName": "ObjectCreated:Put"}]}',
    ]


def test_what_was_not_deleted_comes_again(aws: Aws) -> None:
    url = aws.queue()
    queue = notifications(aws, url)
    aws.send(url, *({"Records": [notification("ObjectCreated:Put", f"landing/{n}.csv")]} for n in range(25)))
    first = queue.receive()
    assert len(set(first.created)) == 25
    assert queue.receive().handles == ()
    queue.keep(first, 0)
    again = queue.receive()
    assert set(again.created) == set(first.created)
    queue.keep(again, 60)
    queue.done(again)
    assert aws.left(url) == []


def test_without_a_dead_letter_queue_a_malformed_message_is_left_to_the_queue(aws: Aws) -> None:
    url = aws.queue()
    aws.send(url, "no JSON")
    assert notifications(aws, url).receive().malformed == 1
    assert aws.hidden(url) == 1


def test_a_queue_that_cannot_be_asked(aws: Aws) -> None:
    gone = notifications(aws, f"{aws.access['endpoint']}/123456789012/nobody-made-this")
    with pytest.raises(
        QueueUnavailable, match=r"nobody-made-this: SQS answered .*; correct notifications\.queue_url"
    ):
        gone.receive()
    deaf = notifications(aws, aws.queue(), endpoint="http://127.0.0.1:9")
    with pytest.raises(QueueUnavailable, match="cannot be reached") as error:
        deaf.receive()
    assert str(aws.access["secret_access_key"]) not in str(error.value)


@pytest.fixture
def bucket(aws: Aws) -> Iterator[str]:
    name = f"lake-{uuid4().hex}"
    aws.s3.create_bucket(Bucket=name)
    yield name
    for entry in aws.s3.list_objects_v2(Bucket=name).get("Contents", []):
        aws.s3.delete_object(Bucket=name, Key=entry["Key"])
    aws.s3.delete_bucket(Bucket=name)


@pytest.fixture
def opened(
    aws: Aws, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str | None], LakeRuntime]:
    for name, number in {"WHOLE_BELOW": 0, "TAILS": 1, "PAGES": 1}.items():
        monkeypatch.setattr(f"lake_assets.bronze.scan.object_listing.{name}", number)

    def make(url: str | None) -> LakeRuntime:
        source = {
            "location": f"s3://{bucket}/landing",
            "s3": aws.access | {"path_style": True},
            "notifications": None if url is None else aws.access | {"queue_url": url},
        }
        tables = {
            f"public.t{n:02d}": {"columns": {"id": "long not null"}, "primary_key": ["id"]} for n in range(20)
        }
        config: LakeConfig = lake_config(tmp_path, tables, source=source)
        return LakeRuntime(config)

    return make


def of(bucket: str, event: str, key: str) -> dict[str, Any]:
    """A message about an object of the source."""
    record = notification(event, f"landing/{key}")
    record["s3"]["bucket"]["name"] = bucket
    record["eventTime"] = datetime.now(UTC).isoformat()
    return {"Records": [record]}


def put(aws: Aws, bucket: str, table: int, minute: int) -> str:
    key = f"public/t{table:02d}/20260301-12{minute:02d}00000.csv"
    aws.s3.put_object(Bucket=bucket, Key=f"landing/{key}", Body=HEADER)
    return key


def test_s3_tells_of_a_file_through_its_queue(
    aws: Aws, bucket: str, opened: Callable[[str | None], LakeRuntime], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bucket's own notifications, its test event among them; the pass is switched off, so that nothing else finds
    the file so soon."""
    url = aws.queue()
    arn = aws.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    aws.s3.put_bucket_notification_configuration(
        Bucket=bucket,
        NotificationConfiguration={
            "QueueConfigurations": [{"QueueArn": arn, "Events": ["s3:ObjectCreated:*", "s3:ObjectRemoved:*"]}]
        },
    )
    put(aws, bucket, 0, 0)
    arrivals = Arrivals(opened(url), "shop")
    assert len(arrivals.scan().logged) == 1
    monkeypatch.setattr(Listing, "_continue_pass", lambda self: ([], None))
    key = put(aws, bucket, 17, 1)
    assert [file.key for file in arrivals.scan(wait_seconds=1).logged] == [key]
    assert (aws.left(url), aws.hidden(url)) == ([], 0)


def test_hints_change_nothing_but_when_a_file_is_found(
    aws: Aws, bucket: str, opened: Callable[[str | None], LakeRuntime]
) -> None:
    """Lost, doubled, disordered, of files that are not there: the log has each file once."""
    url = aws.queue()
    put(aws, bucket, 0, 0)
    arrivals = Arrivals(opened(url), "shop")
    arrivals.scan()
    keys = [put(aws, bucket, table, 5) for table in (3, 9, 12, 19)]
    told = [of(bucket, "ObjectCreated:Put", key) for key in reversed(keys[:3])]
    nowhere = of(bucket, "ObjectCreated:Put", "public/t05/20260301-120900000.csv")
    aws.send(url, *told, *told, nowhere, "nothing of the kind")
    found = [file.key for file in arrivals.scan().logged]
    assert set(found) >= set(keys[:3]), "what S3 tells of is found first"
    found += [file.key for _ in range(25) for file in arrivals.scan().logged]
    assert sorted(found) == sorted(keys)
    aws.send(url, *told)
    assert arrivals.scan().logged == []


def test_a_queue_that_is_down_is_told_once(
    aws: Aws, bucket: str, opened: Callable[[str | None], LakeRuntime], caplog: pytest.LogCaptureFixture
) -> None:
    url = aws.queue()
    arrivals = Arrivals(opened(url), "shop")
    aws.sqs.delete_queue(QueueUrl=aws.queues.pop())
    put(aws, bucket, 4, 1)
    assert len(arrivals.scan().logged) == 1
    arrivals.scan()
    told = [record for record in caplog.records if "SQS answered" in record.getMessage()]
    assert len(told) == 1


def test_s3_s_word_that_a_file_was_deleted(
    aws: Aws, bucket: str, opened: Callable[[str | None], LakeRuntime]
) -> None:
    """What is gone may have been expired, where nothing as old is left: only S3 knows."""
    url = aws.queue()
    gone, runtime = put(aws, bucket, 1, 5), opened(url)
    arrivals = Arrivals(runtime, "shop")
    arrivals.scan()
    time.sleep(1.1)  # S3 tells times by the second
    put(aws, bucket, 2, 6)
    aws.s3.delete_object(Bucket=bucket, Key=f"landing/{gone}")
    unconfirmed = arrivals.scan()
    assert "public.t01" in unconfirmed.unconfirmed
    aws.send(url, of(bucket, "ObjectRemoved:Delete", gone))
    (mark,) = arrivals.scan().logged
    assert (mark.kind, mark.qualified_table) == (FileKind.VANISHED, "public.t01")


def test_s3_s_word_of_deletions_that_comes_in_parts(
    aws: Aws, bucket: str, opened: Callable[[str | None], LakeRuntime]
) -> None:
    """A table has vanished with the last of them; each look before that completed a pass."""
    url = aws.queue()
    keys = [put(aws, bucket, 1, minute) for minute in range(4)]
    arrivals = Arrivals(opened(url), "shop")
    arrivals.scan()
    time.sleep(1.1)  # as above
    put(aws, bucket, 2, 9)
    aws.s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": f"landing/{key}"} for key in keys]})
    for key in keys[:-1]:
        aws.send(url, of(bucket, "ObjectRemoved:Delete", key))
        assert "public.t01" in arrivals.scan().unconfirmed
    aws.send(url, of(bucket, "ObjectRemoved:Delete", keys[-1]))
    (mark,) = arrivals.scan().logged
    assert (mark.kind, mark.qualified_table) == (FileKind.VANISHED, "public.t01")
    assert arrivals._removals == {}
    # Each is told once more; one of them is written again, and S3's word of that is lost.
    aws.send(url, *(of(bucket, "ObjectRemoved:Delete", key) for key in keys))
    put(aws, bucket, 1, 0)
    aws.send(url, of(bucket, "ObjectCreated:Put", keys[1]))
    for _ in range(25):
        arrivals.scan()
    assert sorted(arrivals._removals) == keys[2:], "what is there is not gone"


def test_a_queue_of_something_else_is_read_in_parts(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the first ones would come again before the last one was read."""
    monkeypatch.setattr("lake_assets.bronze.scan.notifications.MAX_MESSAGES", 20)
    url, letters = aws.queue(), aws.queue()
    aws.send(url, *(f"none of S3's {number}" for number in range(45)))
    queue = notifications(aws, url, dead_letter_queue_url=letters)
    assert [queue.receive().malformed for _ in range(4)] == [20, 20, 5, 0]
    assert len(aws.left(letters)) == 45
