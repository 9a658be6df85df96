"""The declaration of a source column in lake.yaml, or why the user has to decide it.

Here: the result's class, the parser of type names, and rules that all engines share. Not here: an engine's own types.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from lake_assets.config import UNDECIDED


@dataclass(frozen=True, slots=True)
class Declared:
    """A column's type in lake.yaml."""

    type: str
    """`undecided` where the documentation of DMS gives no exact answer."""
    comment: str | None = None
    """A remark, or the decision that is needed."""
    of: str | None = None
    """The source's type of an undecided column, if one decision serves for all columns of the type."""
    lob: bool = False
    """Whether DMS takes it for a LOB, which its LOB mode may cut or leave out."""
    left_out: bool = False
    """Whether an update that leaves a large value as it is may have NULL in its place."""

    @property
    def is_decided(self) -> bool:
        return self.type != UNDECIDED


def undecided(comment: str) -> Declared:
    """A column that lake.yaml cannot declare before the user has decided."""
    return Declared(UNDECIDED, comment)


@dataclass(frozen=True, slots=True)
class TypeName:
    """The parts of a DDL type: `INTEGER(11) UNSIGNED` is INTEGER, (11,), UNSIGNED."""

    name: str
    """Upper case, one space between words, without parentheses: `TIMESTAMP WITH TIME ZONE`."""
    arguments: tuple[int, ...] = ()
    unsigned: bool = False

    @property
    def text(self) -> str:
        arguments = f"({', '.join(map(str, self.arguments))})" if self.arguments else ""
        return f"{self.name}{arguments}{' UNSIGNED' if self.unsigned else ''}".lower()


_TEXTS = re.compile(r"'(?:[^']|'')*'")
_ARGUMENTS = re.compile(r"\(([^()]*)\)")
_NO_PART_OF_A_TYPE = re.compile(r"\b(CHARACTER SET|COLLATE|CHARSET)\b.*")


def parse_type(text: str) -> TypeName:
    """DDL's text of a type, such as `NUMERIC(10, 2)` or `TIMESTAMP(3) WITH TIME ZONE`."""
    upper = _NO_PART_OF_A_TYPE.sub("", _TEXTS.sub("", text.upper()))
    found = _ARGUMENTS.search(upper)
    numbers = re.findall(r"-?\d+", found[1]) if found is not None else []
    words = _ARGUMENTS.sub(" ", upper.replace('"', "")).split()
    unsigned = "UNSIGNED" in words or "ZEROFILL" in words
    name = " ".join(word for word in words if word not in ("UNSIGNED", "ZEROFILL", "SIGNED"))
    return TypeName(name, tuple(map(int, numbers)), unsigned)


def decimal(kind: TypeName, beyond: Declared) -> Declared:
    """An exact number with its digits; `beyond` for more than 38 digits, which Parquet's readers and Iceberg do not
    support."""
    precision, scale = (*kind.arguments, 0)[:2]
    if not 0 <= scale <= precision:
        return undecided(
            f"{kind.text} has more decimals than digits, or a negative number of decimals: check what DMS writes, and "
            "declare decimal(p, s), double or string"
        )
    return Declared(f"decimal({precision}, {scale})") if precision <= 38 else beyond


def fractional_seconds(kind: TypeName, declared: str, most: int, default: int) -> Declared:
    """A time or timestamp whose seconds may have more decimals than the six that Iceberg keeps."""
    digits = kind.arguments[0] if kind.arguments else default
    if digits <= 6:
        return Declared(declared)
    return Declared(
        declared,
        f"{kind.text}: a value with more than six decimals is a bad row; declare string where {most} are used",
    )


def by_name(kind: TypeName, names: Mapping[str, str], engine: str) -> Declared:
    """The declared type of an engine's type; undecided if `names` does not have it. `names` has, by declared type, the
    engine's names, separated by `, `."""
    for declared, own in names.items():
        if kind.name in own.split(", "):
            return Declared(declared)
    return undecided(
        f"the DMS user guide has no mapping of {engine}'s {kind.text}: check what DMS writes, and declare that, "
        "or remove the column from the task's mapping and from here"
    )
