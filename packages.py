"""What the project needs of Debian or Ubuntu besides Python packages: the one list, for `make` and for CI.

`python3 packages.py demo` or `test` installs what is missing, as root and with apt-get; otherwise it names the command,
and fails. It runs before anything else is installed, with the Python that will make .venv.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from lake_assets.spark.preflight import PreflightError, check_java

POSTGRESQL = Path("/usr/lib/postgresql")
"""Where Debian and its relatives keep its programs, off PATH."""


@dataclass(frozen=True, slots=True)
class Need:
    """What it is; whether this machine has it; the names that its package may have."""

    what: str
    found: Callable[[], bool]
    packages: tuple[str, ...]


def _has_java() -> bool:
    try:
        check_java()
    except PreflightError:
        return False
    return True


def _on_path(*programs: str) -> Callable[[], bool]:
    return lambda: all(shutil.which(program) for program in programs)


def _has_postgresql() -> bool:
    return bool(shutil.which("initdb") or any(POSTGRESQL.glob("*/bin/initdb")))


VENV = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
# Ubuntu has it as a snap only, and a package that fetches the snap.
SNAP = ("chromium-browser",) if shutil.which("snap") else ()
DEMO = (
    # Debian's Python comes without it.
    Need("Python's venv", lambda: find_spec("ensurepip") is not None, (VENV,)),
    # Debian 13 has no 17.
    Need("Java 17 or 21", _has_java, ("openjdk-17-jre-headless", "openjdk-21-jre-headless")),
)
TEST = (
    *DEMO,
    # Without one of these, the tests that need it are skipped.
    Need("git", _on_path("git"), ("git",)),
    Need("Chromium", _on_path("chromium"), ("chromium", *SNAP)),
    Need("chromedriver", _on_path("chromedriver"), ("chromium-driver", *SNAP)),
    Need("PostgreSQL", _has_postgresql, ("postgresql",)),
)
NEEDS = {"demo": DEMO, "test": TEST}
INSTALL = ("apt-get", "install", "--yes", "--no-install-recommends")


def main(purpose: str) -> int:
    """Provides what `purpose` needs, a key of NEEDS; returns the exit code."""
    missing = [need for need in NEEDS[purpose] if not need.found()]
    if missing and os.geteuid() == 0 and shutil.which("apt-get"):
        _install(missing)
    elif missing:
        print(_advice(missing), file=sys.stderr)
    return 1 if any(not need.found() for need in missing) else 0


def _install(missing: list[Need]) -> None:
    """Installs what apt-get has, and says what cannot be used even then."""
    _apt_get("apt-get", "update")
    packages = [name for need in missing if (name := _known(need.packages))]
    if packages:
        print(f"Installing with apt-get, once: {' '.join(packages)}.", flush=True)
        _apt_get(*INSTALL, *packages)
    for need in missing:
        if not _known(need.packages):
            print(f"apt-get has no {' or '.join(need.packages)} here.", file=sys.stderr)
        elif not need.found():
            print(f"{need.what} is installed, but PATH or JAVA_HOME leads to another.", file=sys.stderr)


def _advice(missing: list[Need]) -> str:
    lacks = f"lake_assets lacks {', '.join(need.what for need in missing)}:"
    if shutil.which("apt-get") is None:
        return f"{lacks} install it with your system's package manager, and repeat this."
    # Before apt-get's lists are fetched, it knows no package.
    packages = " ".join(_known(need.packages) or need.packages[0] for need in missing)
    return f"{lacks} run `sudo apt-get update && sudo {' '.join(INSTALL)} {packages}`, and repeat this."


def _known(packages: tuple[str, ...]) -> str | None:
    """The first that apt-get can install."""
    return next((name for name in packages if _apt_knows(name)), None)


def _apt_knows(package: str) -> bool:
    done = subprocess.run(["apt-cache", "policy", package], capture_output=True, text=True, check=False)
    return "Candidate:" in done.stdout and "Candidate: (none)" not in done.stdout


def _apt_get(*command: str) -> None:
    """Raises SystemExit with apt-get's own words if it fails."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed: {(done.stderr or done.stdout).strip()[-1000:]}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
