"""The masks of a silver table's rows, against those of lake.yaml.

Rows with a column's plain values and rows with masked ones must never be in one table, nor rows of two salts. So each
commit has the masks of its rows beside the position. Here: writing them as a text, which has no salt; why a table has
other masks than lake.yaml; and what of a quarantined row is shown. Not here: masking (`silver/changes/in_silver.py`),
the rebuild (`silver/apply/rebuild.py`).
"""

import hmac
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from lake_assets.bronze.quarantine.quarantine_log import Quarantined
from lake_assets.config import REDACTED, Mask
from lake_assets.errors import TableStopped
from lake_assets.schema.contract import Contracts
from lake_assets.silver.table.position import Position
from lake_assets.silver.table.targets import Target

_RECORDED_BEFORE = (
    "*** (recorded before the table had a mask; `lake-assets quarantine retry` gives the reason again)"
)
_MARK = b"lake_assets: which salt is it"


def described(target: Target) -> str:
    """The masks of the target, and a fingerprint of the salt of each hash; the empty text without masks."""
    if not target.config.mask:
        return ""
    return json.dumps({name: _described(target, mask) for name, mask in sorted(target.config.mask.items())})


def _described(target: Target, mask: Mask) -> str:
    if mask is not Mask.HASH or target.salt is None:
        return mask.value
    # The configuration demands a salt that cannot be guessed; this reveals nothing about such a salt.
    return f"{mask} {hmac.new(target.salt.get_secret_value().encode(), _MARK, 'sha256').hexdigest()[:16]}"


def other_masks(target: Target, position: Position, contracts: Contracts) -> TableStopped | None:
    """The error for a table whose rows have other masks than lake.yaml says; None if they have these, or no rows.
    `contracts` are the recorded ones."""
    if position.masks == described(target) or not position.rows:
        return None
    held = _by_todays_names(target, json.loads(position.masks or "{}"))
    known = _columns_of_rows(position, contracts)
    found = list(_differences(target, held, known))
    if not found:
        return None
    return TableStopped(
        target.table,
        f"{target.identifier}: {'; '.join(found)}.",
        f"Run `lake-assets rebuild {target.argument}` to compute the table again with the masks of lake.yaml, or set "
        "them back.",
    )


def lost_masks(target: Target, position: Position) -> TableStopped | None:
    """The error for a masked column that lake.yaml does not declare any more while silver keeps it: if files were read
    again, its values would be plain."""
    own = {column.name for column in target.config.columns}
    held = _by_todays_names(target, json.loads(position.masks or "{}"))
    lost = sorted(set(held) - own)
    if not lost or target.schema_changes.dropped == "drop":
        return None
    return TableStopped(
        target.table,
        f"{target.identifier} has masked values in {', '.join(lost)}, and lake.yaml does not declare that column any "
        "more.",
        "Declare it again, with its mask: files that lack the column give NULL. Or set schema_changes.dropped to drop, "
        "so that silver drops it.",
    )


def shown(held: Sequence[Quarantined], targets: Iterable[Target]) -> list[Quarantined]:
    """The quarantine's entries without values of masked tables: an entry from before the mask has the row's text."""
    hidden = {target.identifier for target in targets if target.config.mask}
    return [
        replace(one, raw=REDACTED, reason=_RECORDED_BEFORE)
        if one.silver_table in hidden and one.row is not None and one.raw != REDACTED
        else one
        for one in held
    ]


def _differences(target: Target, held: Mapping[str, str], known: set[str] | None) -> Iterator[str]:
    own = {column.name for column in target.config.columns}
    for name, mask in target.config.mask.items():
        wanted, former = _described(target, mask), held.get(name)
        names = {name, target.config.renamed_from.get(name, name)}
        if former is None and (known is None or names & known):
            yield f"lake.yaml has mask: {mask} for {name}, and the table has its plain values"
        elif former is not None and former.split()[0] != mask.value:
            yield f"lake.yaml has mask: {mask} for {name}, and the table was made with {former.split()[0]}"
        elif former is not None and former != wanted:
            yield f"the hashes of {name} were made with another masking.salt"
    for name in held.keys() & own - target.config.mask.keys():
        yield f"the values of {name} are masked by {held[name].split()[0]}, and lake.yaml has no mask for it"


def _by_todays_names(target: Target, held: Mapping[str, str]) -> dict[str, str]:
    own = {column.name for column in target.config.columns}
    today = {old: new for new, old in target.config.renamed_from.items() if old not in own}
    return {today.get(name, name): mask for name, mask in held.items()}


def _columns_of_rows(position: Position, contracts: Contracts) -> set[str] | None:
    """The columns of every contract of which the table may have rows; None if that is not recorded."""
    if not position.contract_version:
        return None
    versions = (one for one in contracts.versions if one.number <= position.contract_version)
    return {column.name for version in versions for column in version.contract.columns}
