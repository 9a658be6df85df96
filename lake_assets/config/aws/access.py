"""How a service of AWS is reached: region, address, credentials.

Not here: the clients (`storage/aws_client.py`), or the settings of one service (`config/dms.py`,
`config/aws/listing.py`).
"""

from typing import Annotated, Self

from pydantic import SecretStr, model_validator

from lake_assets.config.base import Model, matching

RoleArn = Annotated[
    str, matching(r"arn:aws[a-z-]*:iam::\d{12}:role/.+", "is no role: write arn:aws:iam::ACCOUNT:role/NAME")
]


class AwsAccess(Model):
    """The access to a service of AWS; keys that are left out follow the AWS default chain."""

    region: str | None = None
    endpoint: str | None = None
    profile: str | None = None
    """A profile of the AWS configuration files, instead of keys."""
    access_key_id: SecretStr | None = None
    secret_access_key: SecretStr | None = None
    session_token: SecretStr | None = None
    """The session token of temporary keys."""
    role_arn: str | None = None
    """A role that is assumed with the keys, the profile or the default chain, and again before it expires."""
    sts_endpoint: str | None = None
    """Where the role is assumed, if not at AWS's own address."""

    @model_validator(mode="after")
    def _both_keys(self) -> Self:
        if (self.access_key_id is None) != (self.secret_access_key is None):
            raise ValueError(
                "access_key_id and secret_access_key go together; without both the AWS default chain decides"
            )
        if self.session_token is not None and self.access_key_id is None:
            raise ValueError("session_token needs access_key_id and secret_access_key")
        if self.profile is not None and self.access_key_id is not None:
            raise ValueError("profile and access_key_id exclude each other: keep one")
        return self


class SecretsConfig(AwsAccess):
    """AWS Secrets Manager, for values such as `${secret:NAME:key}`."""
