"""The cause of an error: one line for a user, and the full traceback for a log.

A statement that failed in the JVM raises a Python error whose first line names only the call; the cause is the last one
of the Java trace. Here: both texts, for any error. Not here: showing them.
"""

import re
import traceback

from lake_assets.errors import LakeError, with_causes
from lake_assets.storage.aws_faults import refusal_in

DISK_FULL = ("No space left on device", "database or disk is full", "Disk quota exceeded")
"""Parts of the messages of the operating system and of SQLite for a full disk or quota."""
MOST = 500
"""Characters of a cause that are shown."""
_JAVA = re.compile(
    r"^(?:Caused by)?: (?P<kind>[\w.$]+)(?:: (?P<message>.*?))?"
    r"(?=\n\s*(?:at |\.\.\. \d|Suppressed: )|\nCaused by: |\Z)",
    re.MULTILINE | re.DOTALL,
)
"""A cause in the text of a Java trace. Those of suppressed errors are indented."""


def root_cause(error: BaseException) -> str:
    """The innermost cause in one line; for a LakeError among the causes, its message as it is."""
    for cause in with_causes(error):
        if isinstance(cause, LakeError):
            return str(cause)
    innermost = [*with_causes(error)][-1]
    if (refusal := refusal_in(_java_trace(innermost))) is not None:
        return refusal
    return root_cause_in(_java_trace(innermost)) or _line(str(innermost), type(innermost).__name__)


def root_cause_in(trace: str) -> str | None:
    """The innermost cause in a text that contains a Java trace; None for any other text."""
    causes = [*_JAVA.finditer(trace)]
    if not causes:
        return None
    return _line(causes[-1]["message"] or "", causes[-1]["kind"].rpartition(".")[2])


def kinds_of(error: BaseException) -> frozenset[str]:
    """The simple names of the Java classes of an error and its causes; empty for any other error."""
    found = [match for cause in with_causes(error) for match in _JAVA.finditer(_java_trace(cause))]
    return frozenset(match["kind"].rpartition(".")[2] for match in found)


def disk_full(error: BaseException) -> bool:
    """Whether a full disk caused the error."""
    return any(sign in str(cause) for cause in with_causes(error) for sign in DISK_FULL)


def full_traceback(error: BaseException) -> str:
    """The traceback with all causes, those in the JVM included."""
    java = [_java_trace(cause) for cause in with_causes(error)]
    return "\n".join(["".join(traceback.format_exception(error)).rstrip(), *filter(None, java)])


def _line(message: str, kind: str) -> str:
    text = " ".join(message.partition("\n\n")[0].split())
    if len(text) > MOST:
        text = f"{text[:MOST]}…"
    return f"{text} ({kind})" if text else kind


def _java_trace(error: BaseException) -> str:
    """The Java trace of an error, which PySpark shows only if a setting is on, embedded and over Connect."""
    stack = getattr(error, "getStackTrace", None)
    return str((stack() if callable(stack) else getattr(error, "_stackTrace", None)) or error)
