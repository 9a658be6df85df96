"""Clients of AWS's services, and messages for their errors.

Here: the package's only import of boto3, except for the demonstration's. Not here: the calls of a service
(`dms_tasks.py`, `bronze/scan/notifications.py`, `storage/object_store.py`).
"""

from collections.abc import Mapping
from typing import Any

from lake_assets.config.dms import AwsAccess


def client(service: str, access: AwsAccess, *, region: str | None = None, **config: Any) -> Any:
    """A client of the service; `config`: arguments of botocore's Config. `region` overrides the configured one."""
    # Imported here, because a local lake starts 0.2 s faster without boto3.
    import boto3
    from botocore.config import Config

    return boto3.session.Session().client(
        service,
        region_name=region or access.region,
        endpoint_url=access.endpoint,
        aws_access_key_id=access.access_key_id.get_secret_value() if access.access_key_id else None,
        aws_secret_access_key=access.secret_access_key.get_secret_value()
        if access.secret_access_key
        else None,
        config=Config(**config),
    )


def aws_errors() -> tuple[type[Exception], ...]:
    """The exceptions that a client raises, for an `except`."""
    from botocore.exceptions import BotoCoreError, ClientError

    return BotoCoreError, ClientError


def error_code(error: Exception) -> str | None:
    """The error code of a service's answer; None if the service was not reached."""
    response = getattr(error, "response", None)
    return None if response is None else str(response.get("Error", {}).get("Code", "Unknown"))


def explained(
    error: Exception, service: str, asked: str, unreached: str, advice: Mapping[str, str], check: str
) -> str:
    """One sentence: the failed request (`asked`), or the service that was not reached (`unreached`), and what to do.
    `advice`: by the service's error code; `check`: what to check besides the network, if the service was not
    reached."""
    if (code := error_code(error)) is not None:
        # The server's own message may repeat an access key, so only its code is reported.
        to_do = advice.get(code, f"look the code up in the {service} API reference if the error persists")
        return f"{asked}: {service} answered {code}; {to_do}."
    return f"{unreached} cannot be reached ({type(error).__name__}): check the network, {check} and the credentials."
