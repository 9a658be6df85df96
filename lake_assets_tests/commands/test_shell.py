"""`lake-assets` in a shell: its version, and completing its words.

Here: the installed command. Not here: what commands do (`test_cli.py`).
"""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from lake_assets_tests.helpers.processes.child import environment

COMMAND = Path(sys.executable).parent / "lake-assets"


def output(*arguments: str, **variables: str) -> str:
    done = subprocess.run(
        [COMMAND, *arguments], env=environment(**variables), capture_output=True, text=True, check=True
    )
    return done.stdout


def test_the_version() -> None:
    assert output("--version") == f"{version('lake_assets')}\n"


@pytest.mark.parametrize(
    ("typed", "position", "expected"),
    [
        ("lake-assets rep", "1", {"repair", "replay", "report"}),
        ("lake-assets new ", "2", {"mart", "source", "table"}),
        ("lake-assets sync --ta", "2", {"--table"}),
    ],
)
def test_words_are_completed_in_bash(typed: str, position: str, expected: set[str]) -> None:
    asked = {"_LAKE_ASSETS_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": position}
    assert set(output(**asked).split()) == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_that_a_shell_loads(shell: str) -> None:
    variables = {"_LAKE_ASSETS_COMPLETE": f"source_{shell}"}
    assert "_LAKE_ASSETS_COMPLETE=complete_" in output(**variables)
