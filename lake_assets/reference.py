"""The reference of `lake.yaml`, of the commands and of the demonstration's marts, generated from the models, the
command tree and the declarations.

`python -m lake_assets.reference FOLDER` writes `lake_yaml.md`, `commands.md`, `marts.md` and `lake.schema.json`, with
which an editor completes and checks lake.yaml. Not here: the models (`config/`), the commands (`cli.py`), the marts
(`demo/marts/`).
"""

import json
import re
import sys
import types
from collections.abc import Mapping
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from lake_assets.config import LakeConfig
from lake_assets.demo.marts import DEMO_MARTS
from lake_assets.gold.mart import Follow, Input, Mart
from lake_assets.gold.registry import load_mart
from lake_assets.onboarding.json_schema import SCHEMA, meanings, models, one_line, schema_text

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def files() -> dict[str, str]:
    """The reference's files, by name."""
    return {
        "lake_yaml.md": lake_yaml(),
        "commands.md": commands(),
        "marts.md": marts(),
        SCHEMA: schema_text(),
    }


def lake_yaml() -> str:
    """Every key of lake.yaml: its values, its default, and its meaning."""
    parts = [
        "# lake.yaml",
        f"Generated from the models by `make docs`. `lake-assets init` writes {SCHEMA} beside lake.yaml; editors find "
        f"it by the line `# yaml-language-server: $schema={SCHEMA}`.",
    ]
    for model in models(LakeConfig):
        rows = [
            f"| `{name}` | {_kind(field.annotation)} | {_default(field)} | {_cell(meanings(model).get(name, ''))} |"
            for name, field in model.model_fields.items()
        ]
        head = ["| key | value | default | meaning |", "|---|---|---|---|"]
        parts += [
            f"## {_title(model)}",
            one_line(model.__dict__.get("__doc__") or ""),
            "\n".join([*head, *rows]),
        ]
    return "\n\n".join(parts) + "\n"


def commands() -> str:
    """Every command with its arguments and options."""
    import typer
    from typer.cli import get_docs_for_click
    from typer.main import get_command

    from lake_assets.cli import app

    command = get_command(app)
    text = get_docs_for_click(
        obj=command, ctx=typer.Context(command, info_name="lake-assets"), name="lake-assets"
    )
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"


def marts() -> str:
    """Every mart of the demonstration: its partitions, its inputs, when it is computed again, its columns."""
    parts = [
        "# The demonstration's marts",
        "Generated from their declarations by `make docs`. Every table is `gold.<name>`; all times are UTC. "
        "[Add a mart](../adding_a_mart.md) explains which partitions a change concerns.",
    ]
    for entry in DEMO_MARTS:
        mart = load_mart(entry)
        reads = [f"| `{rule.identifier}` | {_follows(mart, rule)} |" for rule in mart.rules]
        columns = [
            f"| `{column.name}` | {column.type}{' not null' if column.required else ''} "
            f"| {_cell(mart.comments.get(column.name, ''))} |"
            for column in mart.columns
        ]
        fields = mart.settings.model_fields if mart.settings is not None else {}
        settings = [f"`{name}` ({_shown(field.default)})" for name, field in fields.items()]
        parts += [
            f"## {mart.name}",
            mart.description,
            f"{_stored(mart)}{' Settings: ' + ', '.join(settings) + '.' if settings else ''}",
            "\n".join(["| reads | a change concerns |", "|---|---|", *reads]),
            "\n".join(["| column | type | meaning |", "|---|---|---|", *columns]),
        ]
    return "\n\n".join(parts) + "\n"


def _stored(mart: Mart) -> str:
    if mart.partition_column is not None:
        each = f"A partition for each {mart.partitions.value}, by `{mart.partition_column}`"
        return f"{each}: those that a change concerns are computed again."
    if mart.key:
        return f"Without partitions, computed whole; rows that differ are written, by the key `{', '.join(mart.key)}`."
    return "Without partitions, computed and written whole."


def _follows(mart: Mart, rule: Input) -> str:
    if mart.partition_column is None:
        return "the mart"
    if rule.column is None:
        return f"every {mart.partitions.value}"
    onwards = " and all later ones" if rule.follow is Follow.DAY_ONWARDS else ""
    return f"the {mart.partitions.value} of `{rule.column}`{onwards}"


def _title(model: type[BaseModel]) -> str:
    return "The file" if model is LakeConfig else model.__name__


def _kind(kind: Any) -> str:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _kind(arguments[0])
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(_kind(one) for one in arguments if one is not type(None)))
    if origin is Literal:
        return ", ".join(f"`{argument}`" for argument in arguments)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"{_kind(arguments[1])} by name"
    if origin in (tuple, list, set, frozenset):
        return f"list of {_kind(arguments[0])}"
    if isinstance(kind, type) and issubclass(kind, Enum):
        return ", ".join(f"`{member.value}`" for member in kind)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return f"[{kind.__name__}](#{kind.__name__.lower()})"
    names = {str: "text", SecretStr: "text", int: "number", float: "number", bool: "`true`, `false`"}
    return names.get(kind, "duration" if kind is timedelta else getattr(kind, "__name__", "any value"))


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "**required**"
    return _shown(field.get_default(call_default_factory=True))


def _shown(value: Any) -> str:
    if value is None or (not value and isinstance(value, dict | tuple | list)):
        return ""
    if isinstance(value, BaseModel):
        return "its own defaults"
    if isinstance(value, timedelta):
        return f"`{duration(value)}`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple | list):
        return ", ".join(_shown(entry) for entry in value)
    text = str(value.value if isinstance(value, Enum) else value)
    return f"`{json.dumps(text) if text != text.strip() or not text or not text.isprintable() else text}`"


def duration(value: timedelta) -> str:
    """In lake.yaml's spelling: `90s`, `5m`."""
    seconds = value.total_seconds()
    if seconds and seconds < 1:
        return f"{seconds * 1000:g}ms"
    for size, unit in _UNITS:
        if seconds % size == 0 and seconds:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        (folder / name).write_text(text)
