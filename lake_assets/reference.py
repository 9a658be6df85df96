"""The reference of `lake.yaml` and of the commands, generated from the models and from the command tree.

`python -m lake_assets.reference FOLDER` writes `lake_yaml.md`, `commands.md` and `lake.schema.json`, with which an
editor completes and checks lake.yaml. Not here: the models (`config/`), the commands (`cli.py`).
"""

import ast
import inspect
import json
import re
import sys
import textwrap
import types
from collections.abc import Iterator, Mapping
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from lake_assets.config import LakeConfig
from lake_assets.config.base import Model

SCHEMA = "lake.schema.json"
FROM_ENVIRONMENT = {"type": "string", "pattern": r"\$\{.+\}"}
"""`${NAME}` or `${NAME:-default}`, allowed in place of any value."""
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


def files() -> dict[str, str]:
    """The reference's files, by name."""
    schema = json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
    return {"lake_yaml.md": lake_yaml(), "commands.md": commands(), SCHEMA: schema}


def json_schema() -> dict[str, Any]:
    """The JSON schema of lake.yaml, with the short forms of values, and a description of each key."""
    schema = LakeConfig.model_json_schema()
    models = {model.__name__: model for model in _models(LakeConfig)}
    for name, definition in [("LakeConfig", schema), *schema["$defs"].items()]:
        if name not in models:
            continue
        descriptions = meanings(models[name])
        for key, value in definition.get("properties", {}).items():
            # The defaults are Python values, which lake.yaml spells differently.
            value.pop("default", None)
            value.pop("title", None)
            if "enum" in value or value.get("type") not in (None, "string", "object", "array"):
                definition["properties"][key] = value = {"anyOf": [value, FROM_ENVIRONMENT]}
            if key in descriptions:
                value["description"] = descriptions[key]
        if name != "LakeConfig" and (short := getattr(models[name], "short_form", None)) is not None:
            schema["$defs"][name] = {"anyOf": [definition, dict(short)]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "lake.yaml"}


def lake_yaml() -> str:
    """Every key of lake.yaml: its values, its default, and its meaning."""
    parts = [
        "# lake.yaml",
        f"Generated from the models by `make docs`. For completion in an editor, begin the file with "
        f"`# yaml-language-server: $schema=…/docs/reference/{SCHEMA}`.",
    ]
    for model in _models(LakeConfig):
        rows = [
            f"| `{name}` | {_kind(field.annotation)} | {_default(field)} | {_cell(meanings(model).get(name, ''))} |"
            for name, field in model.model_fields.items()
        ]
        head = ["| key | value | default | meaning |", "|---|---|---|---|"]
        parts += [
            f"## {_title(model)}",
            _text(model.__dict__.get("__doc__") or ""),
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


def meanings(model: type[BaseModel]) -> dict[str, str]:
    """By field, the docstring below it in the source."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if not issubclass(base, BaseModel) or base in (BaseModel, Model):
            continue
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(body, ast.ClassDef)
        for field, text in zip(body.body, body.body[1:], strict=False):
            if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
                continue
            if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                found[field.target.id] = _text(str(text.value.value))
    return found


def _models(model: type[BaseModel]) -> list[type[BaseModel]]:
    """The model and the models of its fields, in the order of their keys."""
    found: list[type[BaseModel]] = [model]
    for field in model.model_fields.values():
        for inner in _inside(field.annotation):
            found += [other for other in _models(inner) if other not in found]
    return found


def _inside(kind: Any) -> Iterator[type[BaseModel]]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for argument in get_args(kind):
        yield from _inside(argument)


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


def _text(docstring: str) -> str:
    return re.sub(r"\s+", " ", docstring).strip()


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        (folder / name).write_text(text)
