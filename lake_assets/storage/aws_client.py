"""Clients of AWS's services.

Here: the package's only import of boto3, except for the demonstration's; credentials, secrets and roles included. Not
here: the calls of a service (`dms_tasks.py`, `secret_values.py`, `bronze/scan/notifications.py`, `object_store.py`), or
its errors (`aws_faults.py`).
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from threading import RLock
from typing import Any

from lake_assets.config import AwsAccess, SecretsConfig
from lake_assets.config.aws.secret_references import with_values
from lake_assets.config.secrets import keep_hidden
from lake_assets.errors import LakeError
from lake_assets.storage.aws_faults import aws_errors, explained
from lake_assets.storage.secret_values import Secrets

Keys = tuple[str | None, str | None, str | None]
"""Access key id, secret access key, session token."""
RENEWED_BEFORE = timedelta(minutes=5)
"""How long before their end the credentials of a role are replaced."""
_READING = {"mode": "standard", "max_attempts": 2}


class RoleRefused(LakeError):
    """AWS does not let the lake assume a role. The message is one sentence: which role, what is wrong, what to do."""


class Aws:
    """The one way of a lake to AWS. A client is made on first use, and again when its credentials have changed: by a
    rotated secret, or before a role's credentials end. Threads may share it."""

    def __init__(self, secrets: SecretsConfig | None = None) -> None:
        config = secrets or SecretsConfig()
        self._config = config
        self.secrets = Secrets(self.secrets_manager)
        self._own: dict[str, Callable[[], Any]] = {}
        self._lock = RLock()
        self._made: dict[str, tuple[Keys, Any]] = {}
        self._roles: dict[str, tuple[datetime, Keys]] = {}

    def use(self, service: str, make: Callable[[], Any]) -> None:
        """Uses the clients that `make` returns for this service, whatever lake.yaml has."""
        self._own[service] = make

    def secrets_manager(self) -> Any:
        """The client for secrets."""
        return self.client(
            "secretsmanager", self._config, retries=_READING, connect_timeout=5, read_timeout=20
        )

    def client(self, service: str, access: AwsAccess, *, region: str | None = None, **config: Any) -> Any:
        """The service's current client: ask for it again before each call. `config`: arguments of botocore's Config.
        `region` overrides the configured one. Raises SecretUnavailable and RoleRefused."""
        place = region or access.region
        if (own := self._own.get(service)) is not None:
            with self._lock:
                return self._kept(f"own {service}", (None, None, None), own)
        filled = with_values(access, self.secrets.value)
        wanted = [service, place, access.endpoint, access.profile, access.role_arn, _keys(access), config]
        with self._lock:
            keys = self._assumed(filled) if access.role_arn else _keys(filled)
            return self._kept(json.dumps(wanted), keys, lambda: _made(service, access, keys, place, config))

    def _kept(self, name: str, keys: Keys, make: Callable[[], Any]) -> Any:
        known, found = self._made.get(name, (None, None))
        if known != keys:
            found = make()
            self._made[name] = keys, found
        return found

    def _assumed(self, access: AwsAccess) -> Keys:
        """The credentials of the role."""
        assert access.role_arn is not None
        by = _keys(access)
        name = json.dumps([access.role_arn, access.profile, access.sts_endpoint, by])
        end, keys = self._roles.get(name, (datetime.min.replace(tzinfo=UTC), by))
        if end - datetime.now(UTC) > RENEWED_BEFORE:
            return keys
        reached = access.model_copy(update={"endpoint": access.sts_endpoint})
        try:
            sts = _made("sts", reached, by, access.region, {"retries": _READING})
            answer = sts.assume_role(RoleArn=access.role_arn, RoleSessionName="lake_assets")["Credentials"]
        except aws_errors() as error:
            unreached = f"{access.role_arn}: STS"
            advice = {"AccessDenied": "allow sts:AssumeRole in the role's trust policy and to the caller"}
            message = explained(error, "STS", access.role_arn, unreached, advice, "sts_endpoint")
            raise RoleRefused(message) from error
        keys = answer["AccessKeyId"], answer["SecretAccessKey"], answer["SessionToken"]
        keep_hidden(answer["SecretAccessKey"])
        keep_hidden(answer["SessionToken"])
        self._roles[name] = answer["Expiration"], keys
        return keys


def _keys(access: AwsAccess) -> Keys:
    given = (access.access_key_id, access.secret_access_key, access.session_token)
    key, secret, token = (one.get_secret_value() if one is not None else None for one in given)
    return key, secret, token


def _made(service: str, access: AwsAccess, keys: Keys, region: str | None, config: dict[str, Any]) -> Any:
    # Imported here, because a local lake starts 0.2 s faster without boto3.
    import boto3
    from botocore.config import Config

    key, secret, token = keys
    # Given keys, such as those of a role, come before the profile's keys; the profile's other settings apply.
    return boto3.session.Session(profile_name=access.profile).client(
        service,
        region_name=region,
        endpoint_url=access.endpoint,
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        aws_session_token=token,
        config=Config(**config),
    )
