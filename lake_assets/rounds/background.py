"""Work on tables that goes on while further rounds begin: marts and maintenance.

Here: the thread. Not here: turns of silver tables (`silver/apply/engine.py`).
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Generic, TypeVar

T = TypeVar("T")


class Background(Generic[T]):
    """At most one piece of work for each table, one after the other in a thread."""

    def __init__(self, name: str) -> None:
        """`name`: of the thread."""
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._work: dict[str, Future[T]] = {}

    @property
    def under_way(self) -> frozenset[str]:
        """The tables whose work has begun and has not been yielded."""
        return frozenset(self._work)

    def begin(self, identifier: str, work: Callable[[], T]) -> None:
        """Begins the work of a table that is not under way."""
        self._work[identifier] = self._pool.submit(work)

    def cancel(self) -> None:
        """Ends all but the work that runs."""
        self._work = {name: work for name, work in self._work.items() if not work.cancel()}

    def finished(self, *, waits: bool = False) -> Iterator[tuple[str, Future[T]]]:
        """The tables whose work has ended since the last call, with its result or error. `waits`: for all of them."""
        if waits:
            wait(self._work.values())
        for identifier in [name for name, work in self._work.items() if work.done()]:
            yield identifier, self._work.pop(identifier)
