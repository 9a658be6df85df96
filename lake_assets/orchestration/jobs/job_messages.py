"""What a run asks of a job, and what the job answers, as JSON.

Here: both forms. Not here: how they travel (`job_client.py`, `job_program.py`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter

from lake_assets.errors import LakeError
from lake_assets.silver.batch.result import BatchResult, TableResult
from lake_assets.silver.table.position import Position
from lake_assets.silver.table.targets import Target

_BATCHES = TypeAdapter(list[BatchResult])
_POSITION = TypeAdapter(Position)


@dataclass(frozen=True, slots=True)
class JobRequest:
    """One of both: tables of silver to be applied, or a mart to be computed."""

    tables: tuple[str, ...] = ()
    """Names of silver tables."""
    as_of: datetime | None = None
    """As in `apply_tables`."""
    mart: str = ""
    """The name of a mart."""
    partitions: tuple[str, str] | None = None
    """The keys of the mart's first and last partition to be computed; None for a mart without partitions."""
    run_id: str = ""
    """The run of Dagster."""
    lineage: bool = False
    """Whether the mart's column lineage is wanted."""


REQUEST = TypeAdapter(JobRequest)
"""The form of a request."""


@dataclass(frozen=True, slots=True)
class StoredMart:
    """What a job has stored of a mart; see MartOutput."""

    figures: Mapping[str, Any]
    done: Mapping[str, Any]
    """Of the commit, as in `write`."""
    source_now: datetime
    outside: str | None
    lineage: Mapping[str, Sequence[tuple[Sequence[str], str]]] | None
    """By column of the mart, the paths of the assets and the columns that it is computed from; None if it is unknown,
    or known to the run."""


STORED = TypeAdapter(StoredMart)
"""The form of what a job has stored."""


def written_result(result: TableResult) -> dict[str, Any]:
    """A table's turn, without its target and the trace of its error."""
    return {
        "table": result.target.identifier,
        "batches": _BATCHES.dump_python(result.batches, mode="json"),
        "position": _POSITION.dump_python(result.position, mode="json"),
        "waiting": result.waiting,
        "error": None if result.error is None else written_error(result.error),
    }


def read_result(message: Mapping[str, Any], targets: Mapping[str, Target]) -> TableResult:
    """The turn in a message of `written_result`; `targets` by silver table."""
    error = message["error"]
    return TableResult(
        targets[message["table"]],
        _BATCHES.validate_python(message["batches"]),
        message["waiting"],
        None if error is None else read_error(error),
        _POSITION.validate_python(message["position"]),
    )


def written_error(error: Exception) -> dict[str, str]:
    """An error's class and sentence."""
    return {"kind": type(error).__name__, "text": str(error)}


def read_error(message: Mapping[str, str]) -> LakeError:
    """The error in a message of `written_error`, of its class if that is one of the lake's."""
    kinds = {kind.__name__: kind for kind in _kinds(LakeError)}
    kind = kinds.get(message["kind"], LakeError)
    # A class may have further arguments, from which it has made its sentence.
    return kind.__new__(kind, message["text"])


def _kinds(kind: type[LakeError]) -> Iterator[type[LakeError]]:
    yield kind
    for each in kind.__subclasses__():
        yield from _kinds(each)
