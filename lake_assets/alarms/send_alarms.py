"""Sends the alarms that are due and not sent yet to the webhook.

An alarm is recorded after the webhook has accepted it. So it is delivered at least once: a process that is killed
between the two sends it again, with the same id. Here: what is sent, and how often it is tried. Not here: which are due
(`due_alarms.py`), which have been sent (`alarm_log.py`).
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import urlsplit

import urllib3
from urllib3.exceptions import HTTPError, MaxRetryError
from urllib3.util import Retry, Timeout

from lake_assets.alarms.alarm_log import AlarmLog
from lake_assets.alarms.due_alarms import Alarm, due_alarms
from lake_assets.config import LakeConfig
from lake_assets.config.secrets import hidden_in
from lake_assets.runtime import LakeRuntime
from lake_assets.spark.causes import root_cause
from lake_assets.words import many

RETRIES = Retry(
    total=2,
    backoff_factor=0.2,
    status_forcelist=(429, 500, 502, 503, 504),
    allowed_methods=None,
    redirect=False,
    respect_retry_after_header=False,
    raise_on_status=False,
)
"""Of one round; the next round tries again. A server's wish to wait for minutes must not hold up the round."""


@dataclass(slots=True)
class AlarmRound:
    """What a round did."""

    sent: list[Alarm] = field(default_factory=list)
    unsent: list[Alarm] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Why alarms are unsent, or unknown; without secrets."""


class Refused(Exception):
    """The webhook has answered that it does not want this alarm; it may want the next one."""


class Unreachable(Exception):
    """The webhook has not answered, or has a fault of its own."""


def send_alarms(runtime: LakeRuntime, log: AlarmLog) -> AlarmRound:
    """Sends what is due. Never raises: no failure of an alarm may be one of the pipeline."""
    done, config = AlarmRound(), runtime.lake
    webhook = config.alarms.webhook
    if webhook is None or not config.alarms.marts:
        return done
    try:
        done.unsent, done.problems = unsent_alarms(runtime, log)
        _send(webhook.get_secret_value(), config, log, done)
    except Exception as error:  # noqa: BLE001  (no failure of an alarm may be one of the pipeline)
        done.problems.append(hidden_in(config, root_cause(error)))
    return done


def unsent_alarms(runtime: LakeRuntime, log: AlarmLog) -> tuple[list[Alarm], list[str]]:
    """The alarms that are due and not sent, and the marts that cannot be read, with the reason."""
    found, problems, sent = list[Alarm](), list[str](), log.sent()
    for mart in runtime.lake.alarms.marts:
        try:
            found += (
                alarm for alarm in due_alarms(runtime.catalog, runtime.lake, mart) if alarm.id not in sent
            )
        except Exception as error:  # noqa: BLE001  (the alarms of the other marts are sent)
            problems.append(f"gold.{mart} cannot be read: {hidden_in(runtime.lake, root_cause(error))}")
    return found, problems


def _send(address: str, config: LakeConfig, log: AlarmLog, done: AlarmRound) -> None:
    seconds = config.alarms.timeout.total_seconds()
    waiting, done.unsent = done.unsent, []
    with urllib3.PoolManager(timeout=Timeout(connect=seconds, read=seconds), retries=RETRIES) as pool:
        for place, alarm in enumerate(waiting):
            try:
                _post(pool, address, alarm)
            except Refused as error:
                done.unsent.append(alarm)
                done.problems.append(_problem(address, error, f"alarm {alarm.id} waits"))
                continue
            except Unreachable as error:
                # One wait for a dead webhook in each round, however many alarms there are.
                done.unsent += waiting[place:]
                done.problems.append(_problem(address, error, many(len(done.unsent), "alarm", "wait")))
                return
            log.record([alarm])
            done.sent.append(alarm)


def _problem(address: str, error: Exception, what: str) -> str:
    # Only the host: the rest of the address may be a token.
    host = urlsplit(address).hostname
    return (
        f"the webhook at {host} {error}, and {what} for the next round. Check alarms.webhook in lake.yaml, and the "
        "receiver"
    )


def _post(pool: urllib3.PoolManager, address: str, alarm: Alarm) -> None:
    """Returns if the webhook has accepted the alarm; else raises Refused or Unreachable."""
    body = {
        "id": alarm.id,
        "mart": alarm.mart,
        "text": alarm.text,
        "row": dict(alarm.row),
        "sent_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    try:
        answer = pool.request("POST", address, json=body)
    except HTTPError as error:
        reason = error.reason if isinstance(error, MaxRetryError) else error
        # Its message would have the whole address.
        raise Unreachable(f"did not answer ({type(reason).__name__})") from None
    if not 200 <= answer.status < 300:
        fault = Refused if 400 <= answer.status < 500 and answer.status != 429 else Unreachable
        raise fault(f"answered {answer.status}")
