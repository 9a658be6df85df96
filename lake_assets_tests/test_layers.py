"""The shape of the package: which modules need neither Spark nor Dagster, how full a folder is, what is called what.

Here: what is no contract of import-linter. Not here: layers and cycles (`[tool.importlinter]` of pyproject.toml, which
`make lint` checks).
"""

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent
PACKAGE = PROJECT / "lake_assets"
MODULES = sorted(PACKAGE.rglob("*.py"))
HELPERS = PROJECT / "lake_assets_tests/helpers"
MOST_FILES = 14
MOST_LINES = 400
DECIDING = {
    "bronze.files.keys",
    "bronze.log.admission",
    "bronze.log.epochs",
    "schema.evolve",
    "silver.reduce.current.row_lineage",
    "silver.plan.cut",
    "silver.plan.full_load_gate",
    "silver.plan.ambiguous_parts",
    "silver.plan.planner",
    "gold.changed_periods",
}
HEAVY = {"pyspark", "py4j", "dagster", "boto3", "botocore"}


def test_what_decides_needs_neither_spark_nor_dagster_nor_aws() -> None:
    """A module whose docstring calls it pure, imported with all that it imports."""
    pure = [name(path) for path in MODULES if re.search(r"\bpure\b", docstring(path), re.IGNORECASE)]
    assert {f"lake_assets.{module}" for module in DECIDING} <= set(pure)
    program = (
        "import importlib, json, sys\n"
        "for name in json.loads(sys.argv[1]):\n"
        "    importlib.import_module(name)\n"
        "    found = sorted({loaded.partition('.')[0] for loaded in sys.modules} & set(json.loads(sys.argv[2])))\n"
        "    assert not found, f'{name} imports {found}'\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, json.dumps(pure), json.dumps(sorted(HEAVY))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.splitlines()[-1]


def test_no_folder_is_too_full_and_no_module_too_long() -> None:
    files = Counter(path.parent for path in [*MODULES, *HELPERS.rglob("*.py")])
    assert {str(folder): count for folder, count in files.items() if count > MOST_FILES} == {}
    lines = {str(path): len(path.read_text().splitlines()) for path in MODULES}
    assert {path: count for path, count in lines.items() if count > MOST_LINES} == {}


def test_no_two_modules_have_one_name() -> None:
    names = Counter(path.stem for path in MODULES if path.stem != "__init__" and "launcher" not in path.parts)
    assert [stem for stem, count in names.items() if count > 1] == []


def test_contributing_names_every_folder() -> None:
    tree = (PROJECT / "CONTRIBUTING.md").read_text()
    told = dict(re.findall(r"^ *([a-z_/]+)/ +(\S.+)$", tree, re.MULTILINE))
    folders = {
        str(path.parent.relative_to(PACKAGE))
        for path in MODULES
        if path.name == "__init__.py" and path.parent != PACKAGE
    }
    assert set(told) == folders | {str(HELPERS.relative_to(PROJECT))}


def test_modules_that_are_mentioned_exist() -> None:
    """In docstrings, comments and docs: a name with .py in backticks, with or without its folders."""
    found = [*PROJECT.glob("*.py"), *PROJECT.glob("[!.]*/**/*.py")]
    modules = [str(path.relative_to(PROJECT)) for path in found]
    texts = [*PROJECT.glob("lake_assets*/**/*.py"), *PROJECT.glob("docs/**/*.md"), *PROJECT.glob("*.md")]
    missing = {
        (str(text.relative_to(PROJECT)), mention)
        for text in texts
        for mention in re.findall(r"`([a-z_/]+\.py)`", text.read_text())
        if not any(f"/{module}".endswith(f"/{mention}") for module in modules)
    }
    assert missing == set()


@pytest.mark.parametrize("former", ["lake_assets.launcher.warm_launcher", "lake_assets.definitions"])
def test_names_in_files_of_an_older_lake_are_still_there(former: str) -> None:
    assert (PROJECT / (former.replace(".", "/") + ".py")).is_file()


def name(path: Path) -> str:
    return ".".join(path.relative_to(PROJECT).with_suffix("").parts)


def docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text())) or ""
