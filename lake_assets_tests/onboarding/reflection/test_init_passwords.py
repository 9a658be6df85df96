"""What `lake-assets init` shows of an address and its password: nothing.

Here: passwords in every place of an address, of every driver's messages, and from Secrets Manager. Not here: what it
writes (`test_init.py`).
"""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from lake_assets.config import S3Config
from lake_assets.storage.database_connection import SourceError, _without_secrets
from lake_assets.storage.reflection.reflect import read_tables
from lake_assets_tests.helpers.lakes.command_lake import call_init
from lake_assets_tests.helpers.servers.postgresql import PASSWORD, Login
from lake_assets_tests.helpers.servers.secrets import Secret


def test_nothing_of_the_address_is_told(
    new_database: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    address = new_database("CREATE TABLE items (id int PRIMARY KEY)")
    database = address.rsplit("/shop_", 1)[1].split("?")[0]
    monkeypatch.setenv("LAKE_SOURCE_URL", address)
    assert call_init(tmp_path, monkeypatch=monkeypatch) == 0
    written = (tmp_path / "lake.yaml").read_text(encoding="utf-8")
    again = call_init(tmp_path, monkeypatch=monkeypatch)
    wrong = address.replace("owner:", "owner:wrong-")
    refused = call_init(tmp_path, "--from-database", wrong, "--output", "new.yaml", monkeypatch=monkeypatch)
    garbled = call_init(
        tmp_path, "--from-database", f"owner:{PASSWORD}@host", "--output", "new.yaml", monkeypatch=monkeypatch
    )
    nothing = call_init(tmp_path, "--schema", "none", "--output", "new.yaml", monkeypatch=monkeypatch)
    assert (again, refused, garbled, nothing) == (1, 1, 1, 1)
    printed = capsys.readouterr()
    told = " ".join((written, printed.out, printed.err))
    for part in (PASSWORD, address.split(":")[2].split("@")[0], "wrong-", "owner:", f"shop_{database}"):
        assert part not in told
    assert "lake.yaml exists and is not overwritten" in printed.err
    assert "The database cannot be read: " in printed.err
    assert "password authentication failed" in printed.err
    assert "is not a URL such as" in printed.err
    assert "The database has no schema none that its user can see" in printed.err
    assert not (tmp_path / "new.yaml").exists()


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("sqlite://", "sqlite is not a known engine"),
        ("mysql+nosuchdriver://u:p@h/d", "The database cannot be read"),
        (
            "mysql+mysqldb://u:secret@h/d",
            "MySQLdb is not installed: pip install 'mysqlclient', or write mysql.pymysql:",
        ),
        (
            "mysql://u:secret@h/d",
            "MySQLdb is not installed: pip install 'mysqlclient', or write mysql.pymysql://",
        ),
        ("mysql+pymysql://u:secret@h/d", "pymysql is not installed: pip install 'pymysql'"),
        ("postgres://u:secret@localhost:1/d", "The database cannot be read: "),
        (
            "postgresql+psycopg2://u:secret@h/d",
            "psycopg2 is not installed: pip install 'psycopg2-binary', or write",
        ),
        ("oracle+oracledb://u:secret@h/d", "oracledb is not installed: pip install 'oracledb'"),
        (
            "mssql+pyodbc://u:secret@h/d",
            "pyodbc is not installed: pip install 'pyodbc', or write mssql.pymssql://",
        ),
    ],
)
def test_what_cannot_be_read_says_why(address: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Dagster's storage brings it along.
    monkeypatch.setitem(sys.modules, "psycopg2", None)
    with pytest.raises(SourceError, match=said) as refused:
        read_tables(address)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "password",
    ["se@cret", "se@cr/et", "s/e@cret", "@secret", "secret@", "se@cr@et", "se@cr?et", "se@cr:et", "se@c#t"],
)
@pytest.mark.parametrize("user", ["owner", "ow/ner"])
def test_nothing_of_a_password_that_is_not_escaped_is_told(
    password: str,
    user: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    address = f"postgresql://{user}:{password}@localhost:1/shop"
    assert call_init(tmp_path, "--from-database", address, monkeypatch=monkeypatch) == 1
    printed = capsys.readouterr()
    assert "write @ as %40, / as %2F" in printed.err
    assert not any(part in printed.err + printed.out for part in ("se@", "cret", "c#t", "et@", "cr"))


@pytest.mark.parametrize(
    "address", ["postgresql://ow/ner:secret@localhost:1/shop", "postgresql://owner:p:secret/shop"]
)
def test_nor_of_one_that_is_taken_for_something_else(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call_init(tmp_path, "--from-database", address, monkeypatch=monkeypatch) == 1
    printed = capsys.readouterr()
    assert "write @ as %40, / as %2F" in printed.err
    assert "secret" not in printed.err + printed.out


@pytest.mark.parametrize("password", ["se%40cr%2Fet", "se/cr?et", "se:cret", "se%25cret"])
def test_a_password_that_is_escaped_reaches_the_driver(password: str) -> None:
    with pytest.raises(SourceError, match="The database cannot be read: ") as refused:
        read_tables(f"postgresql://owner:{password}@localhost:1/shop")
    assert "cr" not in str(refused.value)
    assert "port 1" in str(refused.value), "it is the host that was asked"


def test_a_drivers_message_is_told_without_the_password() -> None:
    """PostgreSQL's own driver does not repeat it; others' messages may."""
    url = sa.make_url("mysql://owner:s3cret%40@host/shop?ssl_key=hidden")
    error = sa.exc.OperationalError("", {}, RuntimeError("cannot connect with pwd=s3cret@;\n key=hidden"))
    assert _without_secrets(error, url) == "cannot connect with pwd=***; key=***"


def test_a_password_in_secrets_manager(
    new_database: Callable[[str], str],
    s3: S3Config,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    address = new_database("CREATE TABLE orders (id bigint PRIMARY KEY)")
    login = Login(address, "a-pass/w@rd")
    secret = Secret(s3, {"password": "a-pass/w@rd"})
    # As AWS's own tools are configured: there is no lake.yaml yet.
    for name, value in (
        ("AWS_ENDPOINT_URL_SECRETS_MANAGER", s3.endpoint),
        ("AWS_DEFAULT_REGION", s3.region),
        ("AWS_ACCESS_KEY_ID", "an-id"),
        ("AWS_SECRET_ACCESS_KEY", "a-key"),
    ):
        monkeypatch.setenv(name, str(value))
    given = login.address(f"${{secret:{secret.name}:password}}")
    assert call_init(tmp_path, "--from-database", given, monkeypatch=monkeypatch) == 0
    assert "public.orders" in (tmp_path / "lake.yaml").read_text()
    assert "pass/w@rd" not in (tmp_path / "lake.yaml").read_text()
    capsys.readouterr()
    secret.rotate({"password": "a-wr/ng-one"})
    again = ("--from-database", given, "--output", "other.yaml")
    assert call_init(tmp_path, *again, monkeypatch=monkeypatch) == 1
    refused = capsys.readouterr().err
    assert "password authentication failed" in refused
    assert "ng-one" not in refused
    secret.delete()
    assert call_init(tmp_path, *again, monkeypatch=monkeypatch) == 1
    assert f"The secret {secret.name}: Secrets Manager answered ResourceNotFoundException" in " ".join(
        capsys.readouterr().err.split()
    )
