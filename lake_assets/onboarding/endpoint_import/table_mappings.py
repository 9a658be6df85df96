"""The tables that a table mapping selects, the names under which they arrive, and its effects on their files.

Here: selection, transformation and table-settings rules. Not here: writing the result (`lake_section.py`).
The guide's chapter is "Specifying table selection and transformations rules using JSON".
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lake_assets.config import UNDECIDED, table_text
from lake_assets.onboarding.endpoint_import.row_filters import source_filter
from lake_assets.onboarding.endpoint_import.task_settings import lob_mode
from lake_assets.storage.reflection.reflect import SourceColumn, SourceTable

Rule = Mapping[str, Any]
CHANGE_SEQUENCE = "$AR_H_CHANGE_SEQ"


@dataclass(slots=True)
class TableDraft:
    """The settings that a mapping gives one table, or all tables that a pattern selects."""

    schema: str
    table: str
    pattern: bool
    dms: dict[str, Any] = field(default_factory=dict)
    primary_key: tuple[str, ...] = ()
    columns: tuple[SourceColumn, ...] = ()
    """Those of the source's table, by the names under which they arrive; empty if the source was not read."""
    found: SourceTable | None = None
    """The source's table, if the source was read."""
    source_filter: str | None = None
    """The SQL condition of the rows that DMS reads; `undecided` if it cannot be translated."""
    notes: list[str] = field(default_factory=list)

    @property
    def arrived(self) -> SourceTable:
        """The source's table as it arrives."""
        assert self.found is not None, "the source was read"
        return replace(
            self.found,
            schema=self.schema,
            name=self.table,
            columns=self.columns,
            primary_key=self.primary_key,
        )

    @property
    def name(self) -> str:
        """`schema.table`, as the folders are called."""
        return table_text(self.schema, self.table)


def table_drafts(
    rules: Sequence[Rule], engine: str | None = None, known: Sequence[SourceTable] | None = None
) -> list[TableDraft]:
    """A draft for each table that the rules name, and for each pattern, in the rules' order; with the source's tables
    in `known`, for each of them that the rules select. `engine`: DMS's name of the source's engine, whose SQL the
    filters become."""
    selections = [rule for rule in rules if rule.get("rule-type") == "selection"]
    included = [rule for rule in selections if rule.get("rule-action") in ("include", "explicit")]
    excluded = [rule for rule in selections if rule.get("rule-action") == "exclude"]
    wanted: Mapping[tuple[str, str], SourceTable | None]
    if known is None:
        wanted = dict.fromkeys((*map(_locator, included), *_named(rules, included)))
    else:
        at_source = {(escaped(table.schema), escaped(table.name)): table for table in known}
        wanted = {
            at: t for at, t in at_source.items() if any(_covers(_locator(rule), at) for rule in included)
        }
    drafts = []
    for (schema, table), source in wanted.items():
        if any(_covers(_locator(rule), (schema, table)) for rule in excluded):
            continue
        draft = TableDraft(_plain(schema), _plain(table), pattern=not (_is_name(schema) and _is_name(table)))
        if source is not None:
            draft = TableDraft(source.schema, source.name, pattern=False, found=source)
            draft.columns, draft.primary_key = source.columns, source.primary_key
        for rule in rules:
            if rule.get("rule-type") != "selection" and _covers(_locator(rule), (schema, table)):
                _apply(rule, draft)
        _filter(draft, (schema, table), included, engine)
        drafts.append(draft)
    for rule in excluded:
        for draft in drafts:
            if draft.pattern:
                draft.notes.append(f"without {'.'.join(_locator(rule))}")
    return drafts


def _filter(
    draft: TableDraft, locator: tuple[str, str], included: Sequence[Rule], engine: str | None
) -> None:
    """Adds the filters of the rules that select the table. DMS applies filters only to tables with exact names."""
    own = [
        rule for rule in included if all(map(_is_name, _locator(rule))) and _covers(_locator(rule), locator)
    ]
    own = own or [rule for rule in included if _locator(rule) == locator]
    filtered = [rule for rule in own if rule.get("filters")]
    others = [rule for rule in included if rule not in own and _covers(_locator(rule), locator)]
    if any(rule.get("filters") for rule in others) or (draft.pattern and filtered):
        draft.notes.append(
            "a rule that selects tables by a pattern has filters, which DMS applies to exact names only: they are left "
            "out here"
        )
    if draft.pattern or not filtered:
        return
    given = filtered[0]["filters"]
    draft.source_filter, notes = source_filter(given if isinstance(given, list) else [given], engine)
    if any(rule.get("filters") != given for rule in own):
        draft.source_filter = UNDECIDED
        notes = [
            "several rules select the table, with different filters: write the condition that DMS applies"
        ]
    draft.notes += notes


def _named(rules: Sequence[Rule], included: Sequence[Rule]) -> Iterator[tuple[str, str]]:
    """The tables that one rule names and a pattern of another selects."""
    for rule in rules:
        locator = _locator(rule)
        if rule.get("rule-type") != "selection" and all(map(_is_name, locator)):
            yield from (locator for chosen in included if _covers(_locator(chosen), locator))


def _locator(rule: Rule) -> tuple[str, str]:
    where = _part(rule, "object-locator")
    # A rule for schemas names no table and applies to all of them.
    return str(where.get("schema-name") or "%"), str(where.get("table-name") or "%")


def _part(rule: Rule, name: str) -> Mapping[str, Any]:
    found = rule.get(name)
    return found if isinstance(found, dict) else {}


def _is_name(text: str) -> bool:
    """Whether the text is a name and not a pattern; `_` is a wildcard only in a pattern."""
    return "%" not in text and "[" not in text.replace("[_]", "")


def _plain(text: str) -> str:
    return text.replace("[_]", "_") if _is_name(text) else text


def escaped(name: str) -> str:
    """A real name as a locator names it exactly."""
    return re.sub(r"[%_\[]", lambda found: f"[{found[0]}]", name)


def _covers(wider: tuple[str, str], narrower: tuple[str, str]) -> bool:
    return all(w == n or bool(_regex(w).fullmatch(_plain(n))) for w, n in zip(wider, narrower, strict=True))


def _regex(pattern: str) -> re.Pattern[str]:
    parts = re.split(r"(%|_|\[[^\]]*\])", pattern)
    meant = {"%": ".*", "_": "."}
    return re.compile(
        "".join(
            meant.get(part) or (part if re.fullmatch(r"\[[^\]]+\]", part) else re.escape(part))
            for part in parts
        ),
        re.DOTALL,
    )


def _apply(rule: Rule, draft: TableDraft) -> None:
    action, target = str(rule.get("rule-action") or ""), str(rule.get("rule-target") or "")
    if rule.get("rule-type") == "table-settings":
        _table_settings(rule, draft)
    elif action == "add-before-image-columns":
        _before_images(rule, draft)
    elif action == "add-column":
        _added_column(rule, draft)
    elif action == "define-primary-key":
        definition = _part(rule, "primary-key-def")
        draft.primary_key = tuple(map(str, definition.get("columns") or ()))
    elif target in ("schema", "table") and action in _RENAMINGS:
        if draft.pattern and action == "rename":
            draft.notes.append(f"the mapping renames the {target} to {rule.get('value')}")
        renamed = _RENAMINGS[action](getattr(draft, target), rule.get("value"), rule.get("old-value"))
        setattr(draft, target, renamed)
    elif draft.columns and target == "column" and (action in _RENAMINGS or action == "remove-column"):
        _change_columns(rule, action, draft)
    else:
        column = _part(rule, "object-locator").get("column-name") or ""
        value = f" ({rule['value']})" if isinstance(rule.get("value"), str) else ""
        draft.notes.append(
            f"the mapping has {action or 'a rule'} for {target or 'it'} {column}{value}".strip()
        )


def _change_columns(rule: Rule, action: str, draft: TableDraft) -> None:
    """Renames or removes the columns that the rule selects, as DMS does before it writes them."""
    selected = _regex(str(_part(rule, "object-locator").get("column-name") or "%"))
    columns: list[SourceColumn] = []
    for column in draft.columns:
        if not selected.fullmatch(column.name):
            columns.append(column)
        elif action != "remove-column":
            renamed = _RENAMINGS[action](column.name, rule.get("value"), rule.get("old-value"))
            draft.primary_key = tuple(renamed if key == column.name else key for key in draft.primary_key)
            columns.append(replace(column, name=renamed))
    draft.columns = tuple(columns)


def _table_settings(rule: Rule, draft: TableDraft) -> None:
    if lobs := _part(rule, "lob-settings"):
        draft.dms["lob_mode"] = lob_mode(str(lobs.get("mode") or "limited"))
        if size := lobs.get("bulk-max-size"):
            draft.dms["lob_max_size"] = size
    if rule.get("parallel-load"):
        draft.notes.append("loaded in parallel: its full-load files are in a folder for each segment")


def _before_images(rule: Rule, draft: TableDraft) -> None:
    definition = _part(rule, "before-image-def")
    if prefix := definition.get("column-prefix"):
        draft.dms["before_image_prefix"] = str(prefix)
    if suffix := definition.get("column-suffix"):
        draft.notes.append(
            f"before images have the suffix {suffix}, which is not supported: use a column-prefix"
        )
    if (columns := definition.get("column-filter") or "pk-only") == "all":
        draft.dms["before_image_columns"] = "all"
    elif columns != "pk-only":
        draft.notes.append(
            f"before images of the columns {columns}: without a header, only pk-only and all show which columns a "
            "file has"
        )


def _added_column(rule: Rule, draft: TableDraft) -> None:
    name, expression = str(rule.get("value") or ""), str(rule.get("expression") or "").strip()
    if expression == CHANGE_SEQUENCE:
        draft.dms["change_sequence_column"] = name
    if "operation_indicator" in expression:
        draft.notes.append(f"{name} is a soft-delete flag of operation_indicator: it is read but not used")
    draft.dms["added_columns"] = [*draft.dms.get("added_columns", ()), name]


def _without(kind: str) -> Callable[[str, Any, Any], str]:
    def removed(name: str, value: Any, _: Any) -> str:
        return getattr(name, f"remove{kind}")(str(value or ""))  # type: ignore[no-any-return]

    return removed


_RENAMINGS: Mapping[str, Callable[[str, Any, Any], str]] = {
    "rename": lambda name, value, old: str(value),
    "convert-lowercase": lambda name, value, old: name.lower(),
    "convert-uppercase": lambda name, value, old: name.upper(),
    "add-prefix": lambda name, value, old: f"{value}{name}",
    "add-suffix": lambda name, value, old: f"{name}{value}",
    "remove-prefix": _without("prefix"),
    "remove-suffix": _without("suffix"),
    "replace-prefix": lambda name, value, old: (
        f"{value}{name.removeprefix(str(old))}" if old and name.startswith(str(old)) else name
    ),
    "replace-suffix": lambda name, value, old: (
        f"{name.removesuffix(str(old))}{value}" if old and name.endswith(str(old)) else name
    ),
}
