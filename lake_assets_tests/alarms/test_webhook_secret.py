"""`alarms.webhook` from Secrets Manager, by moto's real server: read, rotated, hidden.

Not here: references in other places (`config/test_secret_references.py`), reading secrets (`storage/`).
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lake_assets.config import LakeConfig, S3Config
from lake_assets.lake import Lake, open_lake
from lake_assets.orchestration.lake_definitions import build_definitions
from lake_assets.spark.preflight import free_port
from lake_assets_tests.helpers.marts.alarm_lake import lake_of, rack, raw, sent, write
from lake_assets_tests.helpers.servers.s3 import ACCESS
from lake_assets_tests.helpers.servers.secrets import Secret
from lake_assets_tests.helpers.servers.webhook import TOKEN, Webhook, webhook_server

NEXT = "N3XT-token-of-the-webhook"


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    with webhook_server() as found:
        yield found


def secret_lake(folder: Path, s3: S3Config, webhook: str) -> Lake:
    """A lake with this reference, and one rack that is close to its limit."""
    given = raw(folder, webhook) | {"secrets": {"endpoint": s3.endpoint, **ACCESS}}
    lake = open_lake(LakeConfig.model_validate(given))
    write(lake, rack(1))
    return lake


def host(webhook: Webhook) -> str:
    return webhook.address.removesuffix(f"/hooks/{TOKEN}")


@pytest.mark.parametrize("whole", [True, False])
def test_a_rotated_address_is_used_without_a_restart(
    tmp_path: Path, s3: S3Config, webhook: Webhook, whole: bool
) -> None:
    def content(token: str) -> Any:
        return f"{host(webhook)}/hooks/{token}\n" if whole else {"token": token}

    secret = Secret(s3, content(TOKEN))
    written = (
        f"${{secret:{secret.name}}}" if whole else f"{host(webhook)}/hooks/${{secret:{secret.name}:token}}"
    )
    lake = secret_lake(tmp_path, s3, written)
    assert len(sent(lake).sent) == 1
    webhook.token = NEXT
    secret.rotate(content(NEXT))
    write(lake, rack(2))
    assert len(sent(lake).sent) == 1, "the former one is still kept, and refused"
    assert len(webhook.bodies) == 2
    assert webhook.requests == 3
    webhook.token = "another"
    write(lake, rack(3))
    assert "answered 403, and alarm" in sent(lake).problems[0]
    assert webhook.requests == 4, "the same address is not tried twice"


def test_no_text_shows_the_address(
    tmp_path: Path, s3: S3Config, webhook: Webhook, caplog: pytest.LogCaptureFixture
) -> None:
    secret = Secret(s3, f"http://127.0.0.1:{free_port()}/hooks/{TOKEN}")
    lake = secret_lake(tmp_path, s3, f"${{secret:{secret.name}}}")
    with caplog.at_level(logging.DEBUG):
        done = sent(lake)
        secret.rotate(webhook.address)
        webhook.status = 500
        (sensor,) = [one for one in build_definitions(lake).sensors or () if one.name == "alarms"]
        lake.runtime.aws.secrets.forget()
        assert isinstance(sensor, dg.SensorDefinition)
        with dg.instance_for_test() as instance, pytest.raises(dg.Failure) as failed:
            sensor(dg.build_sensor_context(instance=instance))
    assert "did not answer (NewConnectionError), and 1 alarm waits" in done.problems[0]
    assert "answered 500" in str(failed.value)
    assert "urllib3.connectionpool" in {record.name for record in caplog.records}, "which logs the path"
    # moto logs and answers in this process; its records are not the lake's.
    logged = [record.getMessage() for record in caplog.records if record.name.startswith(("urllib3", "lake"))]
    for text in (*logged, str(done), str(failed.value), repr(lake.config), str(lake.config.alarms.webhook)):
        assert TOKEN not in text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "hooks.example.org/T0K3N-of-nobody",
            "alarms.webhook: with its secret it is not the address of a webhook",
        ),
        (None, "Secrets Manager"),
    ],
)
def test_a_secret_that_is_no_address_or_gone_is_reported(
    tmp_path: Path, s3: S3Config, content: str | None, message: str
) -> None:
    secret = Secret(s3, content or "x")
    if content is None:
        secret.delete()
    lake = secret_lake(tmp_path, s3, f"${{secret:{secret.name}}}")
    done = sent(lake)
    assert message in done.problems[0]
    assert "T0K3N" not in done.problems[0]
    assert [alarm.text[:6] for alarm in done.unsent] == ["Rack 1"]


def test_a_plain_address_is_hidden_from_the_log_of_urllib3(
    tmp_path: Path, webhook: Webhook, caplog: pytest.LogCaptureFixture
) -> None:
    lake = lake_of(tmp_path, f"http://127.0.0.1:{free_port()}/hooks/{TOKEN}")
    write(lake, rack(1))
    with caplog.at_level(logging.DEBUG):
        sent(lake)
    assert "Retrying" in caplog.text
    assert TOKEN not in caplog.text
