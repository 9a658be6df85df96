"""The checks of a table's rows that lake.yaml declares: `checks` of a source's table, and `gold.checks` of a mart.

Not here: evaluating them (`checks/`), and the checks of a batch, which need no declaration
(`orchestration/checks/silver_checks.py`).
"""

from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from lake_assets.config.base import Duration, Mistake, Model, did_you_mean, matching

CHECK_NAME = r"[a-z_][a-z0-9_]*"
Cron = Annotated[str, matching(r"\S+( \S+){4}", "is not a cron schedule of five fields such as 0 3 * * *")]
FOR_SILVER = (
    "unique_key",
    "not_null",
    "same_columns",
    "quarantine_growth",
    "read_health",
    "equals_source",
    "equals_files",
)
FOR_BRONZE = ("bronze_row_count", "bronze_freshness")
FOR_GOLD = ("row_count", "freshness", "read_health")
"""The checks that every table has. An entry with such a name sets when and how strictly the check is evaluated."""
OF_BATCHES = ("applied", "row_count", "quarantine", "known_rows", "freshness")
"""The names of other checks of silver."""


class Reference(Model):
    """The table to which rows refer."""

    table: str
    """`schema.table` of the same source."""
    columns: dict[str, str] = Field(min_length=1)
    """By column of the checked table, the column of `table` that it refers to."""


class TableCheck(Model):
    """One check. Its rule is one of `rows`, `unique`, `references` and `total`."""

    rows: str | None = None
    """A SQL condition that every row meets. As in a CHECK constraint, a row for which it is NULL does not fail it."""
    unique: tuple[str, ...] = ()
    """Columns whose values no two rows may share. A row with a NULL in one of them counts as unique."""
    references: Reference | None = None
    """The table to which every row refers. A row with a NULL in one of the columns refers to nothing."""
    total: str | None = None
    """A SQL aggregate over the table, such as `sum(fare)`, for `equals` or `drift`."""
    equals: str | None = None
    """For a mart: a SQL aggregate over its input `of` that has the same value as `total`."""
    of: str | None = None
    """The input, by the name that the mart gives it."""
    drift: float | None = Field(default=None, gt=0)
    """The largest share by which `total` may differ from the median of its earlier values."""
    severity: Literal["error", "warn"] | None = None
    """By default `error`, but `warn` for the freshness checks, `quarantine_growth` and `read_health` unless they are
    `blocking`."""
    blocking: bool = False
    """Whether no mart is computed from the table while the check fails with the severity `error`. A check of bronze
    holds the marts that read a silver table of these files. If a check of a mart fails, Dagster holds your own assets
    that read the mart."""
    schedule: Cron | None = None
    """When it is evaluated, as cron in UTC; by default at `checks.schedule`, and once a minute for the freshness
    checks."""
    description: str | None = None

    short_form: ClassVar[Mapping[str, Any] | None] = {"type": "string"}

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        return {"rows": value} if isinstance(value, str) else value

    @property
    def rules(self) -> tuple[str, ...]:
        """The names of the rules that it sets."""
        given = {"rows": self.rows, "unique": self.unique, "references": self.references, "total": self.total}
        return tuple(name for name, rule in given.items() if rule)


class Reconcile(Model):
    """When silver is compared with its DMS files, row by row."""

    every: Duration = timedelta(days=7)
    """Within this time, all keys of each table of `mode: current` are compared."""
    share: float | None = Field(default=0.03, gt=0)
    """How much time comparing may take within `every`, as a share of the time that applying takes; null: no limit. If
    one reading of the files takes more, `every` is kept all the same, and the check warns."""


class QuarantineGrowth(Model):
    """How much may be quarantined before the check `quarantine_growth` of a silver table fails."""

    most: int = Field(default=0, ge=0)
    """The rows and files that may be quarantined within the time `within`."""
    within: Duration = timedelta(days=1)


class ChecksConfig(Model):
    schedule: Cron | None = "0 3 * * *"
    """When the checks that read rows are evaluated, as cron in UTC; null: only when you execute them."""
    source_patience: Duration = timedelta(minutes=2)
    """How long a difference from the source database must last to count. It must exceed the time that a change takes
    from the source to silver."""
    reconcile: Reconcile | None = None
    """Adds the check `equals_files` to silver tables; null: none."""
    quarantine_growth: QuarantineGrowth = QuarantineGrowth()
    mart_max_pending_age: Duration = timedelta(hours=1)
    """A mart's `freshness` fails if a change of its inputs has been in silver for longer than this without being in the
    mart."""


def check_mistakes(
    checks: Mapping[str, TableCheck], standard: Collection[str], reserved: Collection[str] = ()
) -> Iterator[Mistake]:
    """The mistakes in the checks of one table. `standard`: the names of the checks that it has anyway; `reserved`: the
    names that it cannot declare."""
    for name, check in checks.items():
        if name in standard:
            if check.rules:
                yield (name,), f"is a check that the table has anyway: remove {check.rules[0]}"
            continue
        if name in reserved:
            yield (name,), "is the name of another check of the table; choose another name"
        if len(check.rules) != 1:
            found = " and ".join(check.rules) or "none" + did_you_mean(name, standard)
            yield (name,), f"needs one of rows, unique, references and total; found {found}"
        if (check.equals is None) != (check.of is None):
            yield (
                (name,),
                "equals is an aggregate over the mart's input that `of` names: set both, or neither",
            )
        if (check.total is not None) != (check.equals is not None or check.drift is not None):
            yield (name,), "total needs something to compare with: equals, or drift"
