"""Every contract version of the silver tables: the Iceberg table `lake_ops.contracts`.

A replay reads each file by the contract that first applied to it, even if lake.yaml has changed since. Here: reading
the versions and adding one. Not here: when a new version begins (`current.py`), its content (`contract.py`).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from pyiceberg.catalog import Catalog

from lake_assets.iceberg.ops_table import OpsTable, Row, ops_schema
from lake_assets.schema.contract import Contract, Contracts, ContractVersion

_SCHEMA = ops_schema(
    silver_table="string not null",
    number="int not null",
    from_offset="long not null",
    contract="string not null",
    origin="string not null",
    configured="string not null",
    recorded_at="timestamptz not null",
)


class ContractLog:
    """The contracts of one catalog's silver tables. May be shared between threads and processes."""

    def __init__(self, catalog: Catalog) -> None:
        self._table = OpsTable(catalog, "contracts", _SCHEMA, _by_table)

    def every(self) -> Mapping[str, Contracts]:
        """The versions of all tables, by `namespace.table`."""
        return self._table.parsed()

    def of(self, silver_table: str) -> Contracts:
        """The versions of a table (`namespace.table`)."""
        return self.every().get(silver_table, Contracts())

    def add(self, silver_table: str, known: Contracts, version: ContractVersion) -> Contracts:
        """Adds the version with the next number, and returns all versions. If another process has added one since
        `known` was read, adds nothing and returns the present versions: the caller decides again."""

        def next_version(recorded: Mapping[str, Contracts]) -> list[Row]:
            found = len(recorded.get(silver_table, Contracts()).versions)
            return (
                []
                if found > len(known.versions)
                else [_row(silver_table, replace(version, number=found + 1))]
            )

        self._table.append(next_version)
        return self.of(silver_table)

    def forget(self, silver_table: str) -> None:
        """Removes the versions of a table. Raises as `OpsTable.forget`."""
        self._table.forget("silver_table", silver_table)

    def rename(self, silver_table: str, new: str) -> None:
        """Assigns the versions of a table to its new name. Raises as `OpsTable.rename`."""
        self._table.rename("silver_table", silver_table, new)


def new_version(contract: Contract, from_offset: int, origin: str, configured: Contract) -> ContractVersion:
    """A version without its number yet."""
    return ContractVersion(0, from_offset, contract, origin, configured, datetime.now(UTC))


def _row(silver_table: str, version: ContractVersion) -> Row:
    return {
        "silver_table": silver_table,
        "number": version.number,
        "from_offset": version.from_offset,
        "contract": version.contract.model_dump_json(exclude_defaults=True),
        "origin": version.origin,
        "configured": version.configured.model_dump_json(exclude_defaults=True),
        "recorded_at": version.recorded_at,
    }


def _by_table(rows: Sequence[Row]) -> Mapping[str, Contracts]:
    found: dict[str, list[ContractVersion]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: int(row["number"])):
        found[row["silver_table"]].append(_version(row))
    return {silver_table: Contracts(tuple(versions)) for silver_table, versions in found.items()}


def _version(row: Row) -> ContractVersion:
    return ContractVersion(
        number=row["number"],
        from_offset=row["from_offset"],
        contract=Contract.model_validate_json(row["contract"]),
        origin=row["origin"],
        configured=Contract.model_validate_json(row["configured"]),
        recorded_at=row["recorded_at"].astimezone(UTC),
    )
