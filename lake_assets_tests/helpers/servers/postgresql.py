"""A PostgreSQL server: its own folder, its own socket, and a port of this machine for Java.

Not here: tables (`test_init.py`).
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pytest
import sqlalchemy as sa

from lake_assets.spark.preflight import free_port

PASSWORD = "s3cr:t/@ü"


def _binaries() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    path = shutil.which("initdb")
    return Path(path).parent if path is not None else None


@contextmanager
def postgresql_server() -> Iterator[str]:
    """The address of a server that runs inside of the block; skips where PostgreSQL is not installed."""
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
        port = free_port()
        places = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories='{folder}'"
        options = f"{places} -c fsync=off"
        run("pg_ctl", "-w", "-l", str(folder / "log"), "-o", options, "start")
        try:
            yield f"postgresql://owner:{quote(PASSWORD, safe='')}@/postgres?host={folder}&port={port}"
        finally:
            run("pg_ctl", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def psycopg_engine(address: str, **options: Any) -> sa.Engine:
    """SQLAlchemy's engine for an address, with the driver that is installed. It keeps no connection open, which nobody
    would close."""
    url = address.replace("postgresql://", "postgresql+psycopg://")
    return sa.create_engine(url, poolclass=sa.NullPool, **options)


class Login:
    """A user of the server, whose password changes as it does in a rotation."""

    def __init__(self, address: str, password: str) -> None:
        self._server = psycopg_engine(address)
        self.name = f"login_{uuid4().hex[:8]}"
        self._run(f"CREATE ROLE {self.name} LOGIN SUPERUSER PASSWORD '{password}'")
        owner, _, self._place = address.partition("@")
        assert owner.startswith("postgresql://owner:")

    def rotate(self, password: str) -> None:
        """Changes the password, and closes the connections that were opened with the former one."""
        self._run(f"ALTER ROLE {self.name} PASSWORD '{password}'")
        self._run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{self.name}'")

    def connections(self) -> int:
        """How many the user has open."""
        own = sa.text("SELECT count(*) FROM pg_stat_activity WHERE usename = :name")
        with self._server.connect() as connection:
            found: int = connection.execute(own, {"name": self.name}).scalar_one()
        return found

    def address(self, password: str) -> str:
        """The database's address for this user."""
        return f"postgresql://{self.name}:{password}@{self._place}"

    @property
    def port(self) -> int:
        """The server's."""
        return int(str(self._server.url.query["port"]))

    def port_address(self, password: str, port: int | None = None) -> str:
        """As `address`, by TCP; `port`: of a proxy."""
        return f"postgresql://{self.name}:{password}@127.0.0.1:{port or self.port}/postgres"

    def _run(self, statement: str) -> None:
        with self._server.begin() as connection:
            connection.exec_driver_sql(statement)
