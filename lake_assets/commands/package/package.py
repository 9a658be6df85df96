"""What EMR Serverless and Glue need for the jobs of a lake, in one folder.

Here: an environment with the packages of this one, except for PySpark, which the services have; the project of
lake.yaml; the program. Not here: the command line (`package_cli.py`), the work of a job (`orchestration/jobs/`).
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

from lake_assets.errors import LakeError

PROGRAM = Path(__file__).with_name("job.py")
OF_SERVICE = ("pyspark", "py4j")
"""Packages that both services have; those of another Spark would break theirs."""
OF_BUILDING = ("pip", "setuptools", "wheel")
PARTS = (".py", ".sql", ".yaml", ".yml")
"""How the names of a project's files end."""


class NotPackaged(LakeError):
    """The environment cannot be packaged. The message says why, and what to do."""


def write_package(lake_yaml: Path, folder: Path, python_prefix: str | None) -> list[Path]:
    """Writes `job.py`, `project.zip`, `requirements.txt` and `environment.tar.gz` to the folder and returns their
    paths. `python_prefix`: where the service has its Python, if not where this machine has it; without a change, links
    of the archive lead there. Raises NotPackaged."""
    try:
        import venv_pack
    except ImportError as error:
        raise NotPackaged("Packaging needs venv-pack: pip install 'lake_assets[package]'.") from error
    folder.mkdir(parents=True, exist_ok=True)
    program, requirements = folder / "job.py", folder / "requirements.txt"
    shutil.copyfile(PROGRAM, program)
    requirements.write_text("".join(f"{line}\n" for line in _requirements()))
    with tempfile.TemporaryDirectory() as place:
        environment = Path(place) / "environment"
        _run(sys.executable, "-m", "venv", "--without-pip", environment)
        own = _own_source()
        installed: list[str | Path] = ["-r", requirements, *([own] if own else [])]
        python = environment / "bin/python"
        _run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", *installed)
        project = environment / "project"
        for path in project_files(lake_yaml.parent, folder):
            copy = project / path.relative_to(lake_yaml.parent)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
        if lake_yaml.name != "lake.yaml":
            shutil.copyfile(lake_yaml, project / "lake.yaml")
        for_glue = Path(place) / "glue"
        shutil.copytree(project, for_glue)
        own_package = Path(__file__).parents[2]
        shutil.copytree(
            own_package, for_glue / own_package.name, ignore=shutil.ignore_patterns("__pycache__")
        )
        archive = shutil.make_archive(str(folder / "project"), "zip", for_glue)
        packed = folder / "environment.tar.gz"
        venv_pack.pack(str(environment), str(packed), python_prefix=python_prefix, force=True)
    return [program, Path(archive), requirements, packed]


def project_files(folder: Path, output: Path) -> Iterator[Path]:
    """The files of a project, without hidden folders, virtual environments and the folder `output`."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or path.name == "__pycache__" or path.resolve() == output.resolve():
            continue
        if path.is_dir() and path.is_symlink():
            continue
        if path.is_dir():
            if not (path / "pyvenv.cfg").exists():
                yield from project_files(path, output)
        elif path.suffix in PARTS:
            yield path


def _requirements() -> list[str]:
    """The packages of this environment with their versions, except for those that are not to be packaged."""
    left_out = [word for name in (*OF_SERVICE, *OF_BUILDING) for word in ("--exclude", name)]
    listed = _run(sys.executable, "-m", "pip", "list", "--format=freeze", "--exclude-editable", *left_out)
    own = _own_source() is not None
    return [
        line
        for line in listed.splitlines()
        if not (own and line.startswith(("lake_assets=", "lake-assets=")))
    ]


def _own_source() -> str | None:
    """The folder from which this package is installed; None if it comes from an index."""
    known = distribution("lake_assets").read_text("direct_url.json")
    found = json.loads(known) if known else {}
    return unquote(urlsplit(found["url"]).path) if "dir_info" in found else None


def _run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise NotPackaged(f"{' '.join(map(str, command[:4]))} … failed: {said[0]}")
    return done.stdout
