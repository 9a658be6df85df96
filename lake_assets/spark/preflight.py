"""What a machine needs before a lake can run on it.

Here: checks of the machine; each passes, or raises one sentence with what is missing and how to get it. Not here:
mistakes in lake.yaml (`config/config_file.py`), or anything about the lake's data.
"""

import contextlib
import errno
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lake_assets.spark.sql import quoted, sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUPPORTED_JAVA = (17, 21)
"""What Spark 4.0 and 4.1 run on (their documentation, "Downloading"); Iceberg 1.12 needs 17 or later."""

_INSTALL = "install OpenJDK 17, for example with `apt-get install openjdk-17-jre-headless`"
_VERSION = re.compile(r'^\S+ version "(?P<version>[^"]+)"', re.MULTILINE)


class PreflightError(Exception):
    """The machine lacks something; the text is one sentence for the user."""


def check_java(environ: Mapping[str, str] | None = None) -> None:
    """Raises PreflightError unless Spark would start a Java that it supports.

    Checks the same Java as Spark's launcher: that of JAVA_HOME when it is set, else the `java` on PATH. `environ`: used
    instead of os.environ.
    """
    environ = os.environ if environ is None else environ
    java, origin = find_java(environ)
    version = _java_version(java, origin, environ)
    if java_feature(version) not in SUPPORTED_JAVA:
        raise PreflightError(
            f"{origin} is Java {version}, and Spark 4 needs Java 17 or 21: {_INSTALL}, and point JAVA_HOME to it."
        )


def check_jars(session: "SparkSession", catalog: str, options: str) -> None:
    """Raises PreflightError unless Spark has the classes of the catalog; needed where another program has started
    Spark. `options`: those of `spark-submit` that fetch them."""
    try:
        session.sql(sql("SHOW NAMESPACES IN {catalog}", catalog=quoted(catalog))).collect()
    except Exception as error:
        # Any other fault is the catalog's own, and is reported where it is used.
        if "ClassNotFoundException" in str(error) or "No suitable driver" in str(error):
            raise PreflightError(
                "The Spark that started this process lacks jars of the lake: start it with "
                f"`spark-submit {options}`, or with those jars of the service that fit its Spark."
            ) from error


def java_feature(version: str) -> int | None:
    """The feature release of a version as `java -version` prints it: 17 for `17.0.15`, 8 for `1.8.0_392`, 21 for
    `21-ea`; None for text that is no version."""
    match = re.match(r"(?:1\.)?(\d+)", version)
    return int(match[1]) if match else None


def check_port(port: int, what: str, *, flag: str = "--port", host: str = "127.0.0.1") -> None:
    """Raises PreflightError unless `what` can listen on the port; the error names the flag that changes it."""
    if not 0 <= port <= 65535:
        raise PreflightError(f"{what} cannot use port {port}: choose one from 1 to 65535 with {flag}.")
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As a server does: a port whose last connections are still in TIME_WAIT is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            reason = (
                "is in use" if error.errno == errno.EADDRINUSE else f"cannot be opened ({error.strerror})"
            )
            raise PreflightError(
                f"Port {port} on {host} {reason}: choose another for {what} with {flag}."
            ) from error


def free_port(*preferred: int) -> int:
    """The first of the preferred ports that is free, else any free port. Raises PreflightError if there is none."""
    for port in (*preferred, 0):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    raise PreflightError("This machine has no free port.")


def find_java(environ: Mapping[str, str]) -> tuple[Path, str]:
    """The program, and a phrase with where it was found. Raises PreflightError without one."""
    if home := environ.get("JAVA_HOME"):
        java = Path(home) / "bin" / "java"
        if not os.access(java, os.X_OK) or not java.is_file():
            raise PreflightError(
                f"JAVA_HOME is {home}, but there is no bin/java in it: point it to the folder of a Java 17 or 21, or "
                "unset it so that the java on PATH is used."
            )
        return java, f"{java} (from JAVA_HOME)"
    found = shutil.which("java", path=environ.get("PATH", os.defpath))
    if found is None:
        raise PreflightError(
            f"No Java found on PATH, and JAVA_HOME is not set: {_INSTALL}, or set JAVA_HOME to the folder of an "
            "installed Java 17 or 21."
        )
    return Path(found), f"{found} (from PATH)"


def _java_version(java: Path, origin: str, environ: Mapping[str, str]) -> str:
    try:
        # Java prints its version to stderr, after a notice if JAVA_TOOL_OPTIONS is set.
        done = subprocess.run(
            [java, "-version"],
            capture_output=True,
            env=dict(environ),
            timeout=60,
            check=False,
            text=True,
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PreflightError(
            f"{origin} does not run ({error}): {_INSTALL}, and point JAVA_HOME to it."
        ) from error
    match = _VERSION.search(done.stderr) or _VERSION.search(done.stdout)
    if done.returncode != 0 or match is None:
        # macOS ships a `java` that only reports that no Java is installed.
        output = next(iter((done.stderr or done.stdout).strip().splitlines()), f"exit code {done.returncode}")
        raise PreflightError(
            f"{origin} is no working Java ({output[:200]}): {_INSTALL}, and point JAVA_HOME to it."
        )
    return match["version"]
