"""Reading `lake.yaml`.

Here: the file, the environment variables in it, its relative paths, and a line for each mistake. Not here: the settings
and their rules (the other modules of `config/`). No other module reads the file or its environment variables.

- `${NAME}` and `${NAME:-default}` (taken when NAME is unset or empty) are replaced by environment variables, in values
  only and after the YAML is parsed: no variable can add a key. `$${` is a literal `${`. A value `${NAME:-}` is null if
  NAME is unset or empty, so that an optional setting can be set by the environment. `${secret:NAME:key}` stays.
- Values follow YAML 1.2: `no`, `on` and `12:30` are text, keys always are. A source column may be called `no`.
- Relative paths (the SQLite catalog's uri, its warehouse, a source's folder, a mart's file) are relative to the file,
  not to the working directory: `lake-assets --config elsewhere/lake.yaml` opens the same lake from any directory.
- No message or exception contains a value that pydantic refused: it may be a password.
"""

import logging
import os
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from lake_assets.config import LakeConfig, Mistakes, did_you_mean
from lake_assets.config.base import UNDECIDED, Keys
from lake_assets.config.reading.former import without_former
from lake_assets.config.reading.included import Included
from lake_assets.config.reading.nodes import composed
from lake_assets.config.reading.undecided import once_for_each_decision
from lake_assets.config.reading.values import Reading

logger = logging.getLogger(__name__)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")  # two letters at least: C:\ is a drive

_EXPECTED = {
    "string_type": "a string",
    "tuple_type": "a list such as [a, b]",
    "list_type": "a list such as [a, b]",
    "dict_type": "a mapping of keys to values",
    "model_type": "a mapping of keys to values",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "date_type": "a date such as 2026-01-31",
    "date_parsing": "a date such as 2026-01-31",
    "date_from_datetime_parsing": "a date such as 2026-01-31",
    "time_delta_type": "a duration such as 30s, 5m, 2h or 1d",
}
"""What was expected instead, by pydantic's error type."""


class ConfigError(Exception):
    """`lake.yaml` cannot be used. The message has a line per mistake: the file, the key, what is wrong and what to
    do."""

    def __init__(
        self, file: Path, mistakes: list[tuple[Keys, str]], included: Included | None = None
    ) -> None:
        """`included`: the tables that other files than `file` have; their mistakes name that file and the line."""
        self.file = file
        self.mistakes = tuple(f"{_key_text(keys)}: {text}" if keys else text for keys, text in mistakes)
        places = [included.place(keys) if included is not None else None for keys, _ in mistakes]
        lines = zip(places, self.mistakes, strict=True)
        super().__init__("\n".join(f"{place or file}: {mistake}" for place, mistake in lines))


def lake_path(path: Path | None = None, *, environ: Mapping[str, str] | None = None) -> Path:
    """The file to read: `path`, else the file that LAKE_CONFIG names, else `lake.yaml` in the working directory."""
    environ = os.environ if environ is None else environ
    return Path(path or environ.get("LAKE_CONFIG") or "lake.yaml")


def load_lake(path: Path | None = None, *, environ: Mapping[str, str] | None = None) -> LakeConfig:
    """Reads a lake.yaml, by default that of `lake_path()`; `environ` replaces os.environ. Former settings give a
    warning.

    Raises ConfigError with every mistake of the file. Rules over several keys of a table or source are checked only
    once each of these keys is valid.
    """
    environ = os.environ if environ is None else environ
    file = lake_path(path, environ=environ)
    reading, content, included = _read(file, environ)
    for keys, what in without_former(content):
        _warn(f"{file}: {_key_text(keys)} {what}.")
    # Made absolute without following links: a mounted lake.yaml is often a link into a folder that is replaced.
    resolve_paths(content, Path(os.path.abspath(file)).parent)  # noqa: PTH100
    lake, refused = _validate(content)
    refused = list(once_for_each_decision(refused, reading.undecided | included.undecided))
    mistakes = [*reading.mistakes, *included.mistakes]
    unread = [keys for keys, _ in mistakes]
    refused = [(keys, text) for keys, text in refused if keys not in unread]
    if lake is None or mistakes:
        raise ConfigError(file, [*mistakes, *refused], included)
    return lake


@cache
def _warn(text: str) -> None:
    """Logs it, once in a process: some read their lake.yaml again and again."""
    logger.warning("%s", text)


def included_tables(path: Path) -> Included:
    """The tables that a lake.yaml includes. Raises ConfigError."""
    return _read(path, os.environ)[2]


def _read(file: Path, environ: Mapping[str, str]) -> tuple[Reading, dict[str, Any], Included]:
    """The file's content with the tables that it includes, and the mistakes so far. Raises ConfigError."""
    root, lines = _root(file)
    reading, included = Reading(environ, lines), Included()
    content = reading.value(root, ())
    if not isinstance(content, dict):
        raise ConfigError(
            file, [*reading.mistakes, ((), "must be a mapping with the keys catalog, sources and gold")]
        )
    included.merge(content, file.parent, _root, environ)
    return reading, content, included


def _validate(content: dict[str, Any]) -> tuple[LakeConfig | None, list[tuple[Keys, str]]]:
    try:
        return LakeConfig.model_validate(content), []
    except ValidationError as error:
        # Returned rather than raised: as the cause or context of another exception, it would show its values.
        return None, sorted(mistakes_of(error, content), key=lambda mistake: _place(mistake[0], content))


def _root(file: Path) -> tuple[yaml.Node, list[str]]:
    """The node of a file, and its lines. Raises ConfigError."""
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        problem = "does not exist; name another file with --config or LAKE_CONFIG"
        raise ConfigError(file, [((), problem)]) from None
    except OSError as error:
        raise ConfigError(file, [((), f"cannot be read: {error.strerror}")]) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        problem = f"line {line}: is not UTF-8, save it in that encoding"
        raise ConfigError(file, [((), problem)]) from None
    root, problem = composed(text)
    if root is None:
        raise ConfigError(file, [((), problem or "is empty; it needs the keys catalog, sources and gold")])
    return root, text.splitlines()


# --- relative paths


def resolve_paths(content: dict[str, Any], folder: Path) -> None:
    """Makes the relative paths of a lake.yaml's content absolute: those of the folder."""
    catalog, sources = content.get("catalog"), content.get("sources")
    if isinstance(catalog, dict):
        # A Glue or REST catalog's warehouse may be an identifier, which must not be taken for a relative path.
        for key in {"sqlite": ("uri", "warehouse"), "jdbc": ("warehouse",)}.get(
            catalog.get("type", "sqlite"), ()
        ):
            _resolve_path(catalog, key, folder)
    for source in sources.values() if isinstance(sources, dict) else ():
        if isinstance(source, dict):
            _resolve_path(source, "location", folder)
    gold = content.get("gold")
    marts = gold.get("marts") if isinstance(gold, dict) else None
    for place, mart in enumerate(marts if isinstance(marts, list) else ()):
        if isinstance(mart, str) and mart.endswith((".py", ".sql")):
            _resolve_path(marts, place, folder)


def _resolve_path(section: Any, key: str | int, folder: Path) -> None:
    value = section[key] if isinstance(key, int) else section.get(key)
    if isinstance(value, str) and value not in ("", UNDECIDED) and not _SCHEME.match(value):
        section[key] = os.path.normpath(folder / Path(value).expanduser())


# --- pydantic's errors as lines


def mistakes_of(
    error: ValidationError, content: dict[str, Any], model: type[BaseModel] = LakeConfig
) -> Iterator[tuple[Keys, str]]:
    """For each error of the model its keys in `content` and what is wrong, without the value."""
    expected: dict[Keys, dict[str, None]] = {}
    for entry in error.errors(include_url=False, include_input=False):
        kind, context = entry["type"], entry.get("ctx", {})
        keys, value = _locate(entry["loc"], content, missing=kind == "missing")
        name = str(keys[-1]) if keys else ""
        if isinstance(found := context.get("error"), Mistakes):
            yield from (((*keys, *below), text) for below, text in found.found)
        elif kind == "value_error":
            yield keys, str(context["error"])
        elif kind == "missing":
            known = _known_keys(model, keys[:-1])
            near = did_you_mean(name, [key for key in value if key not in known])
            yield keys, "is missing" + near.replace("did you mean", "is it misspelt as")
        elif kind == "extra_forbidden":
            known = _known_keys(model, keys[:-1])
            name, colon, _ = name.partition(":")
            space = "; put a space after the colon" if colon and name in known else ""
            yield (
                (*keys[:-1], name),
                "is not a known key"
                + (space or did_you_mean(name, known) or f"; known are {', '.join(known)}"),
            )
        elif kind in ("literal_error", "enum"):
            expected.setdefault(keys, {})[str(context["expected"])] = None
        elif kind in _EXPECTED:
            expected.setdefault(keys, {})[_EXPECTED[kind]] = None
        elif kind in ("too_short", "string_too_short"):
            yield keys, "must not be empty"
        else:
            yield keys, entry["msg"][:1].lower() + entry["msg"][1:]
    for keys, kinds in expected.items():
        _, value = _locate(keys, content)
        text = f"expected {' or '.join(kinds) if len(kinds) < 3 else 'a single value'}"
        if value is None:
            text = f"has no value; {text}"
        if (
            "a string" in kinds
            and len(kinds) == 1
            and (value is None or isinstance(value, bool | int | float))
        ):
            text += "; text such as NULL, 12 or true needs quotes"
        yield keys, text


def _locate(loc: Keys, content: Any, *, missing: bool = False) -> tuple[Keys, Any]:
    """The keys of the file for an error's location, and the value there (for a missing key: the enclosing value).

    pydantic's location also contains parts that the file does not have: the member of a union, the long form of a short
    form, the index of a column.
    """
    keys: Keys = ()
    for part in loc:
        if isinstance(content, dict) and isinstance(part, int):
            part = list(content)[part]
        try:
            content = content[part]
        except (KeyError, IndexError, TypeError):
            return ((*keys, part) if missing else keys), content
        keys = (*keys, part)
    return keys, content


def _place(keys: Keys, content: Any) -> tuple[int, ...]:
    """The position in the file, for sorting; a missing key sorts after the existing ones."""
    place: list[int] = []
    for key in keys:
        inside = list(content) if isinstance(content, dict) else []
        place.append(inside.index(key) if key in inside else key if isinstance(key, int) else len(inside))
        content = _locate((key,), content)[1]
    return tuple(place)


def _known_keys(model: type[BaseModel], keys: Keys) -> tuple[str, ...]:
    """The keys that the model has at this place of the file."""
    parts = iter(keys)
    for part in parts:
        if partial := getattr(model, "parts", {}).get(part):
            model = partial
            continue
        field = model.model_fields.get(str(part))
        if field is None:
            return ()
        inside = [kind for kind in (field.annotation, *get_args(field.annotation)) if _is_model(kind)]
        if not inside:
            return ()
        model = inside[0]
        if get_origin(field.annotation) in (dict, tuple):
            next(parts, None)  # a name, or an index
    return tuple(model.model_fields)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _key_text(keys: Keys) -> str:
    """`sources.bikeshare.tables["public.trips"].primary_key[0]`"""
    text = ""
    for key in keys:
        if isinstance(key, int):
            text += f"[{key}]"
        elif re.fullmatch(r"[A-Za-z_][\w-]*", key):
            text += f".{key}" if text else key
        else:
            quote = "'" if '"' in key else '"'
            text += f"[{quote}{key}{quote}]"
    return text
