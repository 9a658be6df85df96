"""Secrets and roles, from moto's real server.

Here: reading, rotation, failures. Not here: databases (`orchestration/checks/test_source_check.py`).
"""

import logging
from datetime import UTC, datetime, timedelta
from urllib.parse import quote
from uuid import uuid4

import pytest
from pydantic import SecretStr

from lake_assets.config import LakeConfig, S3Config
from lake_assets.config.secrets import hidden_in
from lake_assets.storage.aws_client import Aws, RoleRefused
from lake_assets.storage.object_store import open_store, s3_client
from lake_assets.storage.secret_values import Secrets, SecretUnavailable
from lake_assets_tests.helpers.lakes.small_lakes import lake_config
from lake_assets_tests.helpers.servers.s3 import ACCESS
from lake_assets_tests.helpers.servers.secrets import Secret, secrets_config

ROLE = "arn:aws:iam::123456789012:role/reader"


@pytest.fixture
def secret(s3: S3Config) -> Secret:
    return Secret(s3, {"username": "reader", "password": "first-pass/word", "port": "5432"})


def reading(s3: S3Config, seconds: list[float]) -> Secrets:
    """Secrets by a clock of its own."""
    aws = Aws(secrets_config(s3))
    return Secrets(aws.secrets._client, lambda: seconds[0])


def test_a_value_is_kept_for_a_while_and_then_read_again(s3: S3Config, secret: Secret) -> None:
    seconds = [0.0]
    secrets = reading(s3, seconds)
    assert secrets.value(secret.name, "password") == "first-pass/word"
    assert secrets.value(secret.arn, "username") == "reader"
    secret.rotate({"password": "second"})
    seconds[0] = 299
    assert secrets.value(secret.name, "password") == "first-pass/word"
    seconds[0] = 301
    assert secrets.value(secret.name, "password") == "second"
    assert secrets.value(secret.name) == '{"password": "second"}'


def test_a_refused_value_is_read_again_at_once(s3: S3Config, secret: Secret) -> None:
    secrets, used = reading(s3, [0.0]), list[str]()

    def connect(password: str) -> str:
        used.append(password)
        if password != "second":
            raise ConnectionRefusedError
        return "connected"

    def password() -> str:
        return secrets.value(secret.name, "password")

    with pytest.raises(ConnectionRefusedError):
        secrets.use(password, connect, ConnectionRefusedError)
    assert used == ["first-pass/word"], "the same value is not tried twice"
    secret.rotate({"password": "second"})
    assert secrets.use(password, connect, ConnectionRefusedError) == "connected"
    assert used == ["first-pass/word", "first-pass/word", "second"]


def test_an_outage_does_not_stop_what_has_worked(
    s3: S3Config, secret: Secret, caplog: pytest.LogCaptureFixture
) -> None:
    seconds = [0.0]
    secrets = reading(s3, seconds)
    secrets.value(secret.name, "password")
    secret.delete()
    seconds[0] = 301
    with caplog.at_level(logging.WARNING):
        assert secrets.value(secret.name, "password") == "first-pass/word"
    assert f"the secret {secret.name}: Secrets Manager answered ResourceNotFoundException" in caplog.text
    assert "first-pass/word" not in caplog.text


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("pass", "has no value pass; it has password, port, username: correct lake.yaml"),
        (None, None),
    ],
)
def test_keys_of_a_secret(s3: S3Config, secret: Secret, key: str | None, reason: str | None) -> None:
    secrets = reading(s3, [0.0])
    if reason is None:
        assert "first-pass/word" in secrets.value(secret.name, key)
        return
    with pytest.raises(SecretUnavailable, match=reason) as caught:
        secrets.value(secret.name, key)
    assert "first-pass/word" not in str(caught.value)


def test_what_cannot_be_read(s3: S3Config) -> None:
    secrets = reading(s3, [0.0])
    with pytest.raises(
        SecretUnavailable, match=r"^The secret no-such: .*correct its name, or secrets.region\.$"
    ):
        secrets.value("no-such", "password")
    plain = Secret(s3, "not-json-but-secret")
    with pytest.raises(SecretUnavailable, match="is no JSON object") as caught:
        secrets.value(plain.name, "password")
    assert "not-json-but-secret" not in str(caught.value)
    silent = Aws(secrets_config(s3).model_copy(update={"endpoint": "http://127.0.0.1:9"}))
    with pytest.raises(SecretUnavailable, match=r"cannot be reached .* secrets.endpoint"):
        silent.secrets.value(plain.name)


def test_what_was_read_is_hidden_everywhere(s3: S3Config, tmp_path) -> None:
    lake: LakeConfig = lake_config(tmp_path)
    value = f"{uuid4().hex}/word"  # no other test has read it
    text = f"no entry for {value}, {quote(value, safe='')}"
    assert hidden_in(lake, text) == text
    Aws(secrets_config(s3)).secrets.value(Secret(s3, {"password": value}).name, "password")
    assert hidden_in(lake, text) == "no entry for ***, ***"


def test_keys_of_s3_that_are_rotated(s3: S3Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lake_assets.storage.secret_values.KEPT", 0.0)
    keys = Secret(s3, {"id": "a-first-id", "key": "a-first-key"})
    aws = Aws(secrets_config(s3))
    access = s3.model_copy(
        update={
            "access_key_id": SecretStr(f"${{secret:{keys.name}:id}}"),
            "secret_access_key": SecretStr(f"${{secret:{keys.name}:key}}"),
        }
    )
    first = s3_client(access, aws)
    assert first is s3_client(access, aws)
    assert first._request_signer._credentials.access_key == "a-first-id"
    keys.rotate({"id": "a-second-id", "key": "a-second-key"})
    assert s3_client(access, aws)._request_signer._credentials.access_key == "a-second-id"


def test_sources_with_different_keys(s3: S3Config) -> None:
    aws = Aws()
    other = s3.model_copy(update={"access_key_id": SecretStr("other")})
    clients = [s3_client(access, aws) for access in (s3, other, s3, other)]
    assert clients[:2] == clients[2:]
    assert clients[0] is not clients[1]


def test_a_role_is_assumed_again_before_it_ends(s3: S3Config, new_bucket) -> None:
    bucket = new_bucket()
    bucket.put_object(Key="in/file", Body=b"x")
    access = s3.model_copy(update={"role_arn": ROLE, "sts_endpoint": s3.endpoint})
    aws = Aws()
    store = open_store(f"s3://{bucket.name}/in", access, aws)
    assert [obj.key for obj in store.list()] == ["file"]
    first = s3_client(access, aws)
    assert first is s3_client(access, aws)
    assert first._request_signer._credentials.access_key != ACCESS["access_key_id"]
    (name,) = aws._roles
    aws._roles[name] = datetime.now(UTC) + timedelta(minutes=4), aws._roles[name][1]
    assert s3_client(access, aws) is not first
    silent = access.model_copy(update={"sts_endpoint": "http://127.0.0.1:9"})
    with pytest.raises(RoleRefused, match=f"{ROLE}: STS cannot be reached .* sts_endpoint"):
        list(open_store(f"s3://{bucket.name}/in", silent, Aws()).list())


def test_a_profile(s3: S3Config, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "credentials"
    file.write_text("[lake]\naws_access_key_id = of-the-profile\naws_secret_access_key = hush\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    access = S3Config(profile="lake", region="us-east-1", endpoint=s3.endpoint)
    assert s3_client(access, Aws())._request_signer._credentials.access_key == "of-the-profile"
