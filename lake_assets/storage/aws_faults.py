"""The errors of AWS's clients, as one sentence each.

Here: recognising and explaining them, without importing boto3 before a client has been made. Not here: the clients
(`aws_client.py`).
"""

import re
from collections.abc import Mapping

RIGHTS = {
    "ListObjectsV2": "s3:ListBucket on the bucket",
    "ListObjectVersions": "s3:ListBucketVersions on the bucket",
    "GetObject": "s3:GetObject on the bucket's objects",
    # Without s3:ListBucket, S3 answers so for an object that does not exist.
    "HeadObject": "s3:GetObject on the bucket's objects and s3:ListBucket on the bucket",
    "GetObjectTagging": "s3:GetObjectTagging on the bucket's objects",
    **dict.fromkeys(
        ("PutObject", "CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload"),
        "s3:PutObject on the bucket's objects",
    ),
    **dict.fromkeys(("DeleteObject", "DeleteObjects"), "s3:DeleteObject on the bucket's objects"),
}
"""By request to S3, what it needs."""
_REFUSED_ACTION = re.compile(r"not authorized to perform: ([a-z0-9-]+:[A-Za-z]+)")
"""In S3's own message, also for an action of another service, such as kms:Decrypt."""
_OF_PYARROW = re.compile(
    r"(?:key '(?P<key>[^']*)' in bucket '(?P<bucket>[^']+)': )?"
    r"AWS Error (?P<code>[A-Z_]+)(?: \(HTTP status (?P<status>\d+)\))? during (?P<operation>\w+) operation"
)
_KNOWN = (
    ("token has expired", "renew the session token, or give a role"),
    ("security token included in the request is invalid", "correct the session token"),
    ("Access Key Id you provided does not exist", "correct the access key"),
    ("signature we calculated does not match", "correct the secret access key"),
    ("INVALID_ACCESS_KEY_ID", "correct the access key"),
    ("SIGNATURE_DOES_NOT_MATCH", "correct the secret access key"),
    ("difference between the request time and the current time", "set the clock of this machine"),
    (r"key/\S+ is pending deletion", "cancel the deletion of the KMS key"),
    (r"KMS\.DisabledException|key/\S+ is disabled", "enable the KMS key"),
    ("protected by object lock", "the lake replaces files, so give its tables a bucket without Object Lock"),
    (
        "[Rr]equester pays",
        "Requester Pays is not supported: read the files by a role of the bucket's account",
    ),
)
"""Expressions for the messages of S3 and of the codes of its clients that say more than a code, and what to do."""
_SOMEWHERE = "the warehouse or the bucket of the files"
_MISSING = ("NO_SUCH_KEY", "RESOURCE_NOT_FOUND", "NO_SUCH_BUCKET")
_OF_JAVA = re.compile(r"Service: S3, Status Code: (?P<status>\d+)")
_CALL_OF_JAVA = re.compile(r"\.services\.s3\.Default\w+\.(?P<operation>\w+)\(")
_ADDRESS = re.compile(r"s3[an]?://[^\s,;'\"]+")


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


def rights(operation: str | None, message: str) -> str:
    """What a request lacks that S3 has refused, as advice. S3's `message` names the action only to callers of the
    bucket's own account."""
    if (found := _REFUSED_ACTION.search(message)) is not None:
        return f"grant {found[1]}"
    needed = RIGHTS.get(
        operation or "", "s3:GetObject, s3:PutObject and s3:DeleteObject on the bucket's objects"
    )
    return f"grant {needed}; for objects under a KMS key, kms:Decrypt and kms:GenerateDataKey on it, too"


def refusal_in(text: str) -> str | None:
    """A sentence for the text of an error of PyArrow, or for a trace of Java, that contains a refusal by S3; None for
    any other text, and where an object is missing."""
    to_do = next((advice for sign, advice in _KNOWN if re.search(sign, text)), None)
    if (found := _OF_PYARROW.search(text)) is not None:
        where = f"s3://{found['bucket']}/{found['key']}" if found["key"] is not None else _SOMEWHERE
        operation, code = found["operation"], found["code"]
        if code in _MISSING:
            return None
        if code != "ACCESS_DENIED" and to_do is None:
            status = f", HTTP {found['status']}" if found["status"] else ""
            return (
                f"{where}: S3 failed {operation}, also when it was repeated ({code}{status}); try again later"
            )
        answer = "AccessDenied" if code == "ACCESS_DENIED" else code
    elif (found := _OF_JAVA.search(text)) is not None and (found["status"] == "403" or to_do is not None):
        address, call = _ADDRESS.search(text), _CALL_OF_JAVA.search(text)
        where = address[0].rstrip(".:") if address is not None else _SOMEWHERE
        operation = call["operation"][0].upper() + call["operation"][1:] if call is not None else ""
        answer = "AccessDenied" if found["status"] == "403" else f"HTTP {found['status']}"
    else:
        return None
    asked = f" to {operation}" if operation else ""
    return f"{where}: S3 answered {answer}{asked}; {to_do or rights(operation, text)}"
