"""The demo can only be the truth as long as it shares nothing with the lake."""

import ast
from pathlib import Path

import lake_assets.demo

ALLOWED = {"boto3", "confluent_kafka", "pyarrow", "pyiceberg"}
OF_THE_LAKE = {"demo_commands.py", "marts", "stream_demo.py"}


def test_imports_nothing_of_the_lake():
    import sys

    folder = Path(lake_assets.demo.__file__).parent
    for path in folder.rglob("*.py"):
        if path.relative_to(folder).parts[0] in OF_THE_LAKE:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                root = name.split(".")[0]
                standard = root in sys.stdlib_module_names
                assert standard or root in ALLOWED or name.startswith("lake_assets.demo"), (
                    f"{path.name} imports {name}"
                )


def test_comparison_and_replay_share_nothing_with_the_writers():
    folder = Path(lake_assets.demo.__file__).parent
    for name in ("compare.py", "replay.py"):
        text = (folder / name).read_text()
        for writer in (
            "dms_csv",
            "dms_parquet",
            "dms_layout",
            "dms_files",
            "source_database",
            "lake_assets.demo.company.city",
        ):
            assert f"import {writer}" not in text
            assert f".{writer} import" not in text
