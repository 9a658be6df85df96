"""Sends the alarms that are due and not sent yet to the webhook.

An alarm is claimed before it is sent, and recorded after the webhook has accepted it. So of two senders at the same
moment only one sends it. It is delivered at least once: if a process is killed between the two, the next one sends the
alarm again, with the same id. Here: which process sends it. Not here: which are due (`due_alarms.py`), the claims
(`alarm_claims.py`), the request (`webhook.py`), which have been sent (`alarm_log.py`).
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from lake_assets.alarms.alarm_claims import AlarmClaims
from lake_assets.alarms.alarm_log import AlarmLog
from lake_assets.alarms.due_alarms import Alarm, due_alarms
from lake_assets.alarms.webhook import Refused, Unreachable, Webhook
from lake_assets.config.secrets import hidden_in
from lake_assets.runtime import LakeRuntime
from lake_assets.spark.causes import root_cause
from lake_assets.words import many

MARGIN = timedelta(seconds=10)
"""Added to a claim's duration, for a slow commit and for clocks that differ."""


@dataclass(slots=True)
class AlarmRound:
    """What a round did."""

    sent: list[Alarm] = field(default_factory=list)
    unsent: list[Alarm] = field(default_factory=list)
    left_to_others: list[Alarm] = field(default_factory=list)
    """Another process is sending them, or has sent them meanwhile."""
    problems: list[str] = field(default_factory=list)
    """Why alarms are unsent, or unknown; without secrets."""


def send_alarms(runtime: LakeRuntime, log: AlarmLog) -> AlarmRound:
    """Sends what is due. Never raises: an alarm that fails must not fail the pipeline."""
    done, config = AlarmRound(), runtime.lake
    if config.alarms.webhook is None or not config.alarms.marts:
        return done
    try:
        done.unsent, done.problems = unsent_alarms(runtime, log)
        if done.unsent:
            with Webhook(config, runtime.aws.secrets) as webhook:
                _send(webhook, runtime, log, done)
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


def _send(webhook: Webhook, runtime: LakeRuntime, log: AlarmLog, done: AlarmRound) -> None:
    waiting, done.unsent = done.unsent, []
    lease = 2 * webhook.longest + MARGIN
    claims, claimed = AlarmClaims(runtime.catalog, lease), set[str]()
    claim_again = datetime.min.replace(tzinfo=UTC)
    for place, alarm in enumerate(waiting):
        if (now := datetime.now(UTC)) >= claim_again:
            # By now the log has what another sender sent before it gave its claims back.
            claimed = claims.take({later.id for later in waiting[place:]}) - log.sent().keys()
            claim_again = now + webhook.longest
        if alarm.id not in claimed:
            done.left_to_others.append(alarm)
            continue
        try:
            webhook.post(alarm)
        except Refused as error:
            done.unsent.append(alarm)
            done.problems.append(_problem(error, f"alarm {alarm.id} waits"))
        except Unreachable as error:
            # One wait for a dead webhook in each round, however many alarms there are.
            done.unsent += [later for later in waiting[place:] if later.id in claimed]
            done.problems.append(_problem(error, many(len(done.unsent), "alarm", "wait")))
            break
        else:
            log.record([alarm])
            done.sent.append(alarm)
    if done.unsent:
        claims.give_back()


def _problem(error: Exception, what: str) -> str:
    return f"{error}, and {what} for the next round. Check alarms.webhook in lake.yaml, and the receiver"
