"""Several senders of the same alarms, in processes of their own: one at a time, at once, killed.

Not here: which alarms are due (`test_alarms.py`), the daemon (`orchestration/test_daemon.py`).
"""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Self

import pytest

from lake_assets.alarms import alarm_claims
from lake_assets.alarms.alarm_claims import AlarmClaims
from lake_assets.alarms.alarm_log import AlarmLog
from lake_assets.iceberg.ops_table import MOST_REPLACED
from lake_assets_tests.helpers.marts.alarm_lake import lake_of, rack, raw, sent, write
from lake_assets_tests.helpers.processes.child import ROOT, environment, output_of, run_python
from lake_assets_tests.helpers.servers.webhook import Webhook, webhook_server

ROUND = """
import json, sys
from lake_assets.alarms import alarm_log, send_alarms
from lake_assets.config import LakeConfig
from lake_assets.lake import open_lake
lake = open_lake(LakeConfig.model_validate(json.loads(sys.argv[1])))
if "wait" in sys.argv:
    print("ready", flush=True)
    sys.stdin.readline()
done = send_alarms.send_alarms(lake.runtime, alarm_log.AlarmLog(lake.runtime.catalog))
print(json.dumps([len(done.sent), len(done.left_to_others), done.problems]))
"""
"""A process that sends a round; with `wait`, when it is told to."""
DIES = """
import json, os, signal, sys
from lake_assets.alarms import alarm_log, send_alarms
from lake_assets.config import LakeConfig
from lake_assets.lake import open_lake
alarm_log.AlarmLog.record = lambda *anything: os.kill(os.getpid(), signal.SIGKILL)
lake = open_lake(LakeConfig.model_validate(json.loads(sys.argv[1])))
send_alarms.send_alarms(lake.runtime, alarm_log.AlarmLog(lake.runtime.catalog))
"""
"""A process that is killed after the webhook has accepted an alarm, and before that is recorded."""
RACKS = 6


class Later(datetime):
    """A clock that is two minutes ahead: claims that are under way have ended."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return super().now(tz) + timedelta(minutes=2)


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    with webhook_server() as found:
        yield found


@pytest.mark.slow
def test_of_senders_at_once_one_sends_each_alarm(tmp_path: Path, webhook: Webhook) -> None:
    lake = lake_of(tmp_path, webhook.address)
    write(lake, *(rack(number) for number in range(RACKS)))
    # So slow that both have read what is due before the first alarm is recorded.
    webhook.silent_seconds = 0.6
    given = json.dumps(raw(tmp_path, webhook.address))
    senders = [
        subprocess.Popen(
            [sys.executable, "-c", ROUND, given, "wait"],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for sender in senders:
        assert sender.stdout is not None
        while (line := sender.stdout.readline()) != "ready\n":
            assert line, "it has ended before its round"
    for sender in senders:
        assert sender.stdin is not None
        sender.stdin.write("go\n")
        sender.stdin.flush()
    found = []
    for sender in senders:
        out, error = sender.communicate(timeout=200)
        assert sender.returncode == 0, error
        found.append(json.loads(out.splitlines()[-1]))
    assert sorted(webhook.ids) == sorted(set(webhook.ids))
    assert len(webhook.ids) == webhook.requests == RACKS, found
    assert sum(count for count, _, _ in found) == RACKS
    assert not any(problems for _, _, problems in found), found
    assert any(left for _, left, _ in found), "they were not at once, so that the test shows nothing"
    assert sent(lake).sent == []


@pytest.mark.slow
def test_a_sender_after_another_sends_nothing(tmp_path: Path, webhook: Webhook) -> None:
    lake = lake_of(tmp_path, webhook.address)
    write(lake, rack(1))
    assert len(sent(lake).sent) == 1
    done = run_python("-c", ROUND, json.dumps(raw(tmp_path, webhook.address)), timeout=200)
    assert json.loads(output_of(done).splitlines()[-1]) == [0, 0, []]
    assert webhook.keys == webhook.ids, "a receiver can drop an alarm by its header alone"


@pytest.mark.slow
def test_a_process_killed_between_sending_and_recording_sends_the_same_id_again(
    tmp_path: Path, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = lake_of(tmp_path, webhook.address)
    write(lake, rack(1))
    died = run_python("-c", DIES, json.dumps(raw(tmp_path, webhook.address)), timeout=200)
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert len(webhook.ids) == 1
    done = sent(lake)
    assert (done.sent, done.unsent, len(done.left_to_others)) == ([], [], 1), "it may still be sending"
    monkeypatch.setattr(alarm_claims, "datetime", Later)
    done = sent(lake)
    assert (len(done.sent), done.problems) == (1, []), "its claim has ended"
    assert webhook.ids == [webhook.ids[0]] * 2, "the receiver can drop the second one"
    assert sent(lake).sent == []


@pytest.mark.slow
def test_what_a_dead_webhook_did_not_take_is_left_to_the_next_sender(
    tmp_path: Path, webhook: Webhook
) -> None:
    lake = lake_of(tmp_path, webhook.address)
    write(lake, rack(1))
    webhook.status = 503
    assert len(sent(lake).unsent) == 1
    webhook.status = 200
    done = run_python("-c", ROUND, json.dumps(raw(tmp_path, webhook.address)), timeout=200)
    assert json.loads(output_of(done).splitlines()[-1]) == [1, 0, []]


def test_an_alarm_that_another_has_sent_meanwhile_is_not_sent(
    tmp_path: Path, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one sends, and gives its claims back, between this one's reading and its claim."""
    lake, other = lake_of(tmp_path, webhook.address), lake_of(tmp_path, webhook.address)
    write(lake, rack(1))
    take = AlarmClaims.take

    def late(claims: AlarmClaims, ids: set[str]) -> set[str]:
        monkeypatch.setattr(AlarmClaims, "take", take)
        assert len(sent(other).sent) == 1
        other.runtime.catalog.drop_table("lake_ops.alarm_claims")
        return take(claims, ids)

    monkeypatch.setattr(AlarmClaims, "take", late)
    assert len(sent(lake).left_to_others) == 1
    assert len(webhook.ids) == 1


def test_claims(tmp_path: Path) -> None:
    catalog = lake_of(tmp_path, None).runtime.catalog
    one, other = (AlarmClaims(catalog, timedelta(seconds=60)) for _ in range(2))
    assert one.take(["a", "b"]) == {"a", "b"}
    assert other.take(["b", "c"]) == {"c"}
    assert one.take(["a", "b", "c"]) == {"a", "b"}, "its own ones again"
    one.give_back()
    assert other.take(["a", "b", "c"]) == {"a", "b", "c"}
    short = AlarmClaims(catalog, timedelta(seconds=1))
    other.give_back()
    assert short.take(["a"]) == {"a"}
    assert one.take(["a"]) == set()
    time.sleep(1.2)
    assert one.take(["a"]) == {"a"}, "a claim ends by itself"


def test_the_history_of_claims_stays_short(tmp_path: Path) -> None:
    catalog = lake_of(tmp_path, None).runtime.catalog
    claims = AlarmClaims(catalog, timedelta(seconds=60))
    for _ in range(MOST_REPLACED // 2):
        claims.take(["a"])
        claims.give_back()
    table = catalog.load_table("lake_ops.alarm_claims")
    assert len(table.metadata.snapshots) <= MOST_REPLACED + 2
    files = list((tmp_path / "warehouse").rglob("alarm_claims/metadata/*.metadata.json"))
    assert len(files) <= 12


def test_the_log_keeps_when_an_alarm_was_sent(tmp_path: Path, webhook: Webhook) -> None:
    lake = lake_of(tmp_path, webhook.address)
    write(lake, rack(1))
    sent(lake)
    (found,) = AlarmLog(lake.runtime.catalog).sent().values()
    assert found.id == webhook.ids[0]
    assert abs(datetime.now(UTC) - found.sent_at) < timedelta(minutes=1)
