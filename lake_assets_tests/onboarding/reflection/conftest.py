"""A PostgreSQL server of this test session: its own folder, its own socket, no network.

Not here: tables (`test_init.py`).
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from urllib.parse import quote

import pytest
import sqlalchemy as sa

PASSWORD = "s3cr:t/@ü"


def _binaries() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    path = shutil.which("initdb")
    return Path(path).parent if path is not None else None


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """The address of a server; skips where PostgreSQL is not installed."""
    binaries = _binaries()
    if binaries is None:
        pytest.skip("PostgreSQL is not installed (apt-get install postgresql)")
    # Not below pytest's folder, which only its owner may enter; and a socket's path has to be short.
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
    # The server refuses to run as root: Debian's package comes with a user for it.
    user = "postgres" if os.geteuid() == 0 else None
    if user is not None:
        shutil.chown(folder, user)
    password = folder / "password"
    password.write_text(PASSWORD, encoding="utf-8")
    password.chmod(0o644)

    def run(program: str, *arguments: str) -> None:
        subprocess.run(
            [binaries / program, "-D", folder / "data", *arguments],
            user=user,
            cwd=folder,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=120,
        )

    try:
        run("initdb", "-U", "owner", "-A", "scram-sha-256", f"--pwfile={password}", "-E", "UTF8", "--no-sync")
        # -w: returns when the server answers.
        options = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c fsync=off"
        run("pg_ctl", "-w", "-l", str(folder / "log"), "-o", options, "start")
        try:
            yield f"postgresql://owner:{quote(PASSWORD, safe='')}@/postgres?host={folder}"
        finally:
            run("pg_ctl", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def new_database(postgresql: str) -> Callable[[str], str]:
    """Makes a database with what the SQL says in it, and returns its address."""
    server = sa.create_engine(_driver(postgresql), isolation_level="AUTOCOMMIT")
    numbers = count(1)

    def create(sql: str) -> str:
        name = f"shop_{next(numbers)}"
        with server.connect() as connection:
            connection.execute(sa.text(f"CREATE DATABASE {name}"))
        address = postgresql.replace("/postgres?", f"/{name}?")
        database = sa.create_engine(_driver(address))
        with database.begin() as connection:
            connection.exec_driver_sql(sql)
        database.dispose()
        return address

    return create


def _driver(address: str) -> str:
    return address.replace("postgresql://", "postgresql+psycopg://")
