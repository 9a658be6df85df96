"""The JSON schema of lake.yaml, with which an editor completes and checks it.

Here: the schema, and the meaning of each key. Not here: the models (`config/`), the reference for readers
(`reference.py`).
"""

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel

from lake_assets.config import LakeConfig
from lake_assets.config.base import Model

SCHEMA = "lake.schema.json"
FROM_ENVIRONMENT = {"type": "string", "pattern": r"\$\{.+\}"}
"""`${NAME}` or `${NAME:-default}`, allowed in place of any value."""


def schema_text() -> str:
    """The file with the JSON schema."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def json_schema() -> dict[str, Any]:
    """The JSON schema of lake.yaml, with the short forms of values, and a description of each key."""
    schema = LakeConfig.model_json_schema()
    by_name = {model.__name__: model for model in models(LakeConfig)}
    for name, definition in [("LakeConfig", schema), *schema["$defs"].items()]:
        if name not in by_name:
            continue
        descriptions = meanings(by_name[name])
        for key, value in definition.get("properties", {}).items():
            # The defaults are Python values, which lake.yaml spells differently.
            value.pop("default", None)
            value.pop("title", None)
            if "enum" in value or value.get("type") not in (None, "string", "object", "array"):
                definition["properties"][key] = value = {"anyOf": [value, FROM_ENVIRONMENT]}
            if key in descriptions:
                value["description"] = descriptions[key]
        if name != "LakeConfig" and (short := getattr(by_name[name], "short_form", None)) is not None:
            schema["$defs"][name] = {"anyOf": [definition, dict(short)]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "lake.yaml"}


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
                found[field.target.id] = one_line(str(text.value.value))
    return found


def models(model: type[BaseModel]) -> list[type[BaseModel]]:
    """The model and the models of its fields, in the order of their keys."""
    found: list[type[BaseModel]] = [model]
    for field in model.model_fields.values():
        for inner in _inside(field.annotation):
            found += [other for other in models(inner) if other not in found]
    return found


def _inside(kind: Any) -> Iterator[type[BaseModel]]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for argument in get_args(kind):
        yield from _inside(argument)


def one_line(docstring: str) -> str:
    """The text without line breaks."""
    return re.sub(r"\s+", " ", docstring).strip()
