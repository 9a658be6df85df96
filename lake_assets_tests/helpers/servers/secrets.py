"""Secrets in moto's Secrets Manager.

Here: making one, and rotating it. Not here: the server (`s3.py`), which has all services.
"""

import json
from collections.abc import Mapping
from uuid import uuid4

from lake_assets.config import S3Config, SecretsConfig
from lake_assets_tests.helpers.servers.s3 import ACCESS, client


class Secret:
    """A secret of its own: JSON of a mapping, or a text."""

    def __init__(self, s3: S3Config, value: Mapping[str, str] | str) -> None:
        self._manager = client("secretsmanager", s3.endpoint)
        self.name = f"shop/{uuid4().hex[:8]}"
        self.arn = self._manager.create_secret(Name=self.name, SecretString=_text(value))["ARN"]

    def rotate(self, value: Mapping[str, str] | str) -> None:
        """What `rotate-secret` ends with."""
        self._manager.put_secret_value(SecretId=self.name, SecretString=_text(value))

    def delete(self) -> None:
        """At once."""
        self._manager.delete_secret(SecretId=self.name, ForceDeleteWithoutRecovery=True)


def secrets_config(s3: S3Config) -> SecretsConfig:
    """The section `secrets` of lake.yaml for that server."""
    return SecretsConfig.model_validate({"endpoint": s3.endpoint, **ACCESS})


def _text(value: Mapping[str, str] | str) -> str:
    return value if isinstance(value, str) else json.dumps(value)
