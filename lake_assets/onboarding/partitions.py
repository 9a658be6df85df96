"""Partitioned tables of PostgreSQL as one table of lake.yaml: the partitions' folders join it.

Here: which tables are partitions of which, and the globs of their folders. Not here: reading the catalog
(`storage/reflection/`), the text of lake.yaml (`lake_yaml_text.py`). Pure.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from lake_assets.storage.reflection.reflect import SourceTable

Place = tuple[str, str]
SHORTEST_GLOB = 3
"""Characters before the `*`, if they are not the table's own name: a shorter glob would soon match another table."""


def joined(tables: Sequence[SourceTable]) -> list[SourceTable]:
    """The tables, where a partitioned table has the folders of its partitions of all levels, which are no tables of
    their own. A partition of another schema stays a table, because a table's folders are all in its schema."""
    known = {(table.schema, table.name): table for table in tables}
    roots = {place: root_of(table, known) for place, table in known.items()}
    inside = {place for place, root in roots.items() if place != root and place[0] == root[0]}
    others = [place for place in known if place not in inside]
    found = []
    for place in others:
        partitions = tuple(child for schema, child in sorted(inside) if roots[schema, child] == place)
        table = known[place]
        if partitions:
            taken = [name for schema, name in others if schema == place[0]]
            table = replace(table, partitions=partitions, folders=globs(table.name, partitions, taken))
        found.append(table)
    return found


def root_of(table: SourceTable, known: Mapping[Place, SourceTable]) -> Place:
    """The partitioned table of which the table is a partition, on any level; itself, if it is none."""
    storage = table.storage
    if storage is None or not storage.partition or storage.parents[0] not in known:
        return table.schema, table.name
    return root_of(known[storage.parents[0]], known)


def globs(table: str, partitions: Sequence[str], others: Sequence[str]) -> tuple[str, ...]:
    """One glob that matches all of the partitions, also later ones, and none of the other tables; else their names."""
    first, last = min(partitions), max(partitions)
    shared = next((first[:n] for n in range(len(first), 0, -1) if last.startswith(first[:n])), "")
    named = [name for name in others if name != table]
    for prefix in (f"{table}_", table, shared):
        glob = f"{_literal(prefix)}*"
        if (
            (len(prefix) >= SHORTEST_GLOB or prefix == f"{table}_")
            and all(fnmatchcase(name, glob) for name in partitions)
            and not any(fnmatchcase(name, glob) for name in named)
        ):
            return (glob,)
    return tuple(map(_literal, partitions))


def _literal(name: str) -> str:
    """The glob that matches this name only."""
    return re.sub(r"[*?\[]", lambda found: f"[{found[0]}]", name)
