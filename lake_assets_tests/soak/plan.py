"""The kind of history for a seed: shape of the table, behaviour of source and endpoint, events on the way.

Here: the random choices, and which of them exclude each other. Not here: rows (`source.py`), files (`writer.py`), order
of arrival (`arrival.py`).

Histories that are ambiguous are not generated:

- Without sequences, rows of DMS are identified by commit time (in hundredths of a second), file and place. A change
  that is written again into another file then looks like another change: harmless only for whole commits without key
  changes, and to no log. The sequence column goes between two hundredths of a second, because rows without it sort
  first.
- While two rows share a key within a transaction, only key changes touch it, and the older row is the one that leaves:
  the files of a row that moves through an occupied key, or of a delete of one of the two rows there, could mean either.
- A row that moves while a full load runs may be in no part of it, so that its key change has all columns; elsewhere
  key changes may be partial.
- A file that is rewritten after a reload began repeats no change that is older than those of the reload's own files: by
  DMS's data, its rows would be newer than the load.
- An append log cannot distinguish a loaded row from the same row's insert: no changes while its load runs.
- The first scan of a table does not find both a reload and the previous load: with loads so close to each other,
  nothing shows which parts belong together.
- A reload rewrites at least one object of the previous load, and full loads arrive one after the other.
"""

from collections.abc import Collection
from dataclasses import dataclass
from random import Random

KINDS = ("single", "composite", "append_log", "change_log")
"""Current rows by a key of one or two columns; and tables without a key."""
SWITCHES = (
    *("swaps", "shifts", "chains", "churn", "pairs", "partial", "emptied", "overlap", "parallel", "reloads"),
    *("repeated", "rewritten", "again", "late", "cut", "kills", "log_too", "transactions", "parquet"),
    *("no_sequence", "comes", "goes", "small_batches", "new_parts", "unseen_parts"),
    *("masked", "partitioned", "toasted"),
)
"""What `--without` can switch off."""
NOT_YET: tuple[str, ...] = ()
"""What the engine does not do yet, and the fixed set in the tests therefore leaves out."""


@dataclass(frozen=True)
class Plan:
    """The choices for one history."""

    seed: int
    kind: str
    without: frozenset[str]
    """Features that are switched off."""
    pairs: bool
    """A key change is written as delete and insert, as by SQL Server."""
    before: str
    """Before images: `changed` (only when they differ), `always` or `none`."""
    partial: bool
    """The supplemental log lacks columns: marked in updates."""
    full_deletes: bool
    """A delete shows the whole row."""
    commits: str
    """Commit times: `apart`, `close` (several in a hundredth of a second) or `coarse` (whole seconds)."""
    sequences: str
    """`all`, `none`, `comes` or `goes`."""
    layout: str
    """`csv`, `headerless`, `parquet`, `mixed` or `transactions`."""
    compressed: bool
    load: str
    """`none`, `plain` or `parallel`."""
    overlap: bool
    """Transactions run while a full load runs."""
    reloads: int
    repeated: bool
    """Changes come again in another file."""
    rewritten: bool
    """A CDC object gets other content under its key."""
    again: bool
    """An object comes again as it was."""
    late: bool
    cut: bool
    """Files end within transactions."""
    kills: bool
    log_too: bool
    """The table has a change log beside it."""
    max_files: int
    policy: str
    """When a full load counts as complete."""
    masked: bool = False
    """Silver's columns are masked, those of the key included."""
    partitioned: bool = False
    toasted: bool = False
    """The log lacks columns, which the files have as NULL: PostgreSQL's large values."""
    empty_texts: bool = True
    """Whether texts, those in keys included, may be empty."""

    @property
    def keyed(self) -> bool:
        return self.kind in ("single", "composite")

    @property
    def key(self) -> list[str]:
        return {"single": ["id"], "composite": ["id", "part"]}.get(self.kind, [])

    @property
    def mask(self) -> dict[str, str | None]:
        """By column, as in lake.yaml."""
        if not self.masked:
            return {}
        return {"part": "hash", "v": ("hash", "redact")[self.seed % 2], "w": None}

    @property
    def partition_by(self) -> list[str]:
        """As in lake.yaml: partitions that rows move between, and partitions that they stay in."""
        choices = (["part"], ["bucket(3, id)"], ["truncate(1, v)"], ["n", "bucket(2, part)"])
        return choices[self.seed % 4] if self.partitioned else []

    @property
    def kept(self) -> list[str]:
        """Columns whose NULL in an update means the value before, one of them NOT NULL."""
        return ["v", "n"] if self.toasted else []

    @property
    def moves(self) -> bool:
        """Whether keys change: without before images, updates of a key cannot be followed."""
        return self.keyed and (self.pairs or self.before != "none")


def plan(seed: int, without: Collection[str] = ()) -> Plan:
    """The same for the same arguments, for ever."""
    random = Random(f"{seed} plan")
    off = frozenset(without)

    def chance(share: float, feature: str = "") -> bool:
        return (random.random() < share) & (feature not in off)

    def one_of(choices: dict[str, int]) -> str:
        left = {choice: weight for choice, weight in choices.items() if choice not in off}
        return random.choices(list(left), list(left.values()))[0]

    kind = one_of({"single": 45, "composite": 35, "append_log": 10, "change_log": 10})
    keyed = kind in ("single", "composite")
    pairs = chance(0.2, "pairs") and keyed
    before = one_of({"changed": 5, "always": 3, "none": 1}) if keyed else "none"
    partial = chance(0.3, "partial") and keyed
    layout = one_of({"csv": 45, "headerless": 15, "parquet": 10, "mixed": 12, "transactions": 15})
    if partial and layout in ("parquet", "mixed"):
        layout = "csv"
    load = one_of({"plain": 55, "parallel": 25, "none": 20})
    plain_none = one_of({"all": 65, "no_sequence": 20, "comes": 8, "goes": 7})
    sequences = "none" if plain_none == "no_sequence" else plain_none
    if sequences in ("comes", "goes") and layout in ("headerless", "transactions"):
        sequences = "all"
    log_too = chance(0.15, "log_too") and keyed and not partial
    rewritten = chance(0.2, "rewritten") and kind != "change_log" and not log_too
    repeated = chance(0.4, "repeated") and not (sequences == "none" and (not keyed or log_too))
    reloads = random.choices([0, 1, 2], [6, 4, 1])[0] if load != "none" and "reloads" not in off else 0
    return Plan(
        seed=seed,
        kind=kind,
        without=off,
        pairs=pairs,
        before=before,
        partial=partial,
        full_deletes=chance(0.4) or not keyed,
        commits=one_of({"apart": 5, "close": 3, "coarse": 2}),
        sequences=sequences,
        layout=layout,
        compressed=chance(0.2),
        load=load,
        overlap=chance(0.6, "overlap") and load != "none" and kind != "append_log",
        reloads=reloads,
        repeated=repeated,
        rewritten=rewritten,
        again=chance(0.3, "again"),
        late=chance(0.6, "late"),
        cut=chance(0.7, "cut") and layout != "transactions",
        kills=chance(0.4, "kills"),
        log_too=log_too,
        max_files=random.choices([100, 3, 2, 1], [14, 3, 2, 1])[0] if "small_batches" not in off else 100,
        policy=one_of({"immediately": 3, "first_cdc": 1}),
        masked=chance(0.25, "masked"),
        partitioned=chance(0.3, "partitioned") and kind != "change_log",
        toasted=chance(0.25, "toasted") and keyed and not partial,
    )
