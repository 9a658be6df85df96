"""What an error comes down to: one line for a person, and all of it for a log.

A statement that failed in the JVM arrives as a Python error whose first line names no more than the call; the cause is
the last of the Java trace. Here: both texts, of any error. Not here: what is done with them.
"""

import re
import traceback

from lake_assets.errors import LakeError, with_causes

NO_ROOM = ("No space left on device", "database or disk is full", "Disk quota exceeded")
"""What a full disk is called by the operating system and by SQLite, in whatever language the program is written."""
MOST = 500
"""Characters of a cause."""
_JAVA = re.compile(
    r"^(?:Caused by)?: (?P<kind>[\w.$]+)(?:: (?P<message>.*?))?"
    r"(?=\n\s*(?:at |\.\.\. \d|Suppressed: )|\nCaused by: |\Z)",
    re.MULTILINE | re.DOTALL,
)
"""A cause in the text of a Java trace. Those of suppressed errors are indented."""


def root_cause(error: BaseException) -> str:
    """The innermost cause in one line; of an error of the lake's own, its message as it is."""
    for cause in with_causes(error):
        if isinstance(cause, LakeError):
            return str(cause)
    innermost = [*with_causes(error)][-1]
    return root_cause_in(_java_trace(innermost)) or _line(str(innermost), type(innermost).__name__)


def root_cause_in(trace: str) -> str | None:
    """The innermost cause of a text that holds a Java trace; None for any other text."""
    causes = [*_JAVA.finditer(trace)]
    if not causes:
        return None
    return _line(causes[-1]["message"] or "", causes[-1]["kind"].rpartition(".")[2])


def no_room(error: BaseException) -> bool:
    """Whether the error comes of a full disk."""
    return any(sign in str(cause) for cause in with_causes(error) for sign in NO_ROOM)


def whole_story(error: BaseException) -> str:
    """The traceback with all causes, those in the JVM included."""
    java = [_java_trace(cause) for cause in with_causes(error)]
    return "\n".join(["".join(traceback.format_exception(error)).rstrip(), *filter(None, java)])


def _line(message: str, kind: str) -> str:
    text = " ".join(message.partition("\n\n")[0].split())
    if len(text) > MOST:
        text = f"{text[:MOST]}…"
    return f"{text} ({kind})" if text else kind


def _java_trace(error: BaseException) -> str:
    """Over Spark Connect and in this process alike, an error knows its trace, and shows it only by a setting."""
    stack = getattr(error, "getStackTrace", None)
    return str((stack() if callable(stack) else getattr(error, "_stackTrace", None)) or error)
