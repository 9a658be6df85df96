"""Reading and writing a table of the platform's own beside other processes, and what its faults mean to a user.

Here: the retries, and the errors. Not here: what is read and written (`ops_table.py`, `bronze/log/file_log.py`).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from lake_assets.errors import LakeError, Remedy
from lake_assets.spark.causes import disk_full, root_cause
from lake_assets.storage.stored_object import NotLogged

T = TypeVar("T")


@contextmanager
def room(identifier: str) -> Iterator[None]:
    """Raises NotLogged when the disk is full."""
    try:
        yield
    except Exception as error:
        if not disk_full(error):
            raise
        raise NotLogged(
            f"The disk that holds {identifier} is full ({root_cause(error)}): new files could not be logged. No file "
            "is lost: make room, and the next scan finds them."
        ) from error


def competing() -> Retrying:
    """Attempts to write, until one is faster than those of other processes. The caller looks whether an attempt whose
    answer was lost has succeeded."""
    return Retrying(
        # FileNotFoundError: another process merged and deleted a file that this attempt was reading.
        retry=retry_if_exception_type(
            (CommitFailedException, CommitStateUnknownException, FileNotFoundError)
        ),
        wait=wait_random_exponential(multiplier=0.02, max=2),
        stop=stop_after_attempt(30),
        reraise=True,
    )


def answered(identifier: str, read: Callable[[], T]) -> T:
    """What `read` returns. Raises LakeError when the table's metadata is gone."""
    # Maintenance may delete old metadata and merged files under a slow reader; newer files hold the same rows.
    retrying = Retrying(
        retry=retry_if_exception_type(FileNotFoundError),
        wait=wait_random_exponential(multiplier=0.02, max=1),
        stop=stop_after_attempt(10),
        reraise=True,
    )
    try:
        return retrying(read)
    except FileNotFoundError as error:
        raise LakeError(
            f"{identifier}: one of its files is gone ({error}), so that the catalog was restored to an earlier state, "
            "or the file was deleted. Run `lake-assets recover`."
        ).mended_by(Remedy.RECOVER) from error
