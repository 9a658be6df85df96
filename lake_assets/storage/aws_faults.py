"""The errors of AWS's clients, as one sentence each.

Here: recognising and explaining them, without importing boto3 before a client has been made. Not here: the clients
(`aws_client.py`).
"""

from collections.abc import Mapping


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
