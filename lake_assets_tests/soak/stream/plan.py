"""The kind of a history that arrives in a stream, beside the plan of its table.

Here: engine, endpoint, server and readers by chance. Not here: messages (`messages.py`).

Not generated, because messages do not show it: a load's row that arrives twice, in a log or in a table without a key;
two transactions of PostgreSQL with one time of commit; changes of before a reload that DMS sends again after it. Nor a
landing that has late changes of before a reload together with changes of after it, while nothing of the reload has been
read yet, which is in another shard.
"""

from dataclasses import dataclass, replace
from random import Random

from lake_assets_tests.soak.plan import Plan


@dataclass(frozen=True)
class StreamPlan:
    """The choices for the stream of one history."""

    server: str
    """`memory`, `kinesis` or `kafka`."""
    engine: str
    own_order: bool
    """The task adds a column with `$AR_H_CHANGE_SEQ`."""
    details: bool
    """The messages have transaction details."""
    nulls_left_out: bool
    before_image: str
    """The name of the before image."""
    whole_before: bool
    """The before image has all columns."""
    partition: str
    """What a message's shard depends on: `key` (of the row, so that it changes with it), `table` or `nothing`."""
    readers: int
    reshards: bool
    noise: bool
    """Messages of other tables, and such that nobody can read, are in between."""


def stream_plan(plan: Plan) -> tuple[Plan, StreamPlan]:
    """The plan of the table, without what only files have, and that of its stream. The same for the same argument."""
    random = Random(f"{plan.seed} stream")
    server = {3: "kinesis", 13: "kafka"}.get(plan.seed % 20, "memory")
    engine = random.choices(["mysql", "postgresql", "oracle", "sqlserver"], [5, 4, 2, 2])[0]
    own_order = engine in ("oracle", "sqlserver") or random.random() < 0.2
    left_out = random.random() < 0.2
    how = StreamPlan(
        server=server,
        engine=engine,
        own_order=own_order,
        details=not own_order or random.random() < 0.5,
        nulls_left_out=left_out,
        before_image=random.choice(["before-image", "old"]),
        whole_before=random.random() < 0.3,
        partition=random.choice(["key", "key", "table", "nothing"]),
        readers=random.choice([1, 2, 2]),
        reshards=random.random() < 0.6,
        noise=random.random() < 0.5,
    )
    own = replace(
        plan,
        layout="csv",
        sequences="all",
        load="none" if plan.load == "none" else "plain",
        compressed=False,
        rewritten=False,
        again=False,
        cut=True,
        partial=plan.partial and not left_out,
        empty_texts=not left_out,
    )
    return own, how
