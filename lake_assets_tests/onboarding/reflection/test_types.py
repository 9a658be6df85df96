"""What each engine's column is declared as: SQLAlchemy's own types of the dialect, through DMS's documented mapping.

Here: tables of cases. Not here: a real database (`test_init.py`).
"""

from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import mssql, mysql, oracle, postgresql

from lake_assets.config import UNDECIDED, parse_column
from lake_assets.storage.reflection.declared import TypeName, parse_type
from lake_assets.storage.reflection.reflect import declared_kind, declared_type

DIALECTS: dict[str, Any] = {
    "postgresql": postgresql.dialect(),
    "mysql": mysql.dialect(),
    "oracle": oracle.dialect(),
    "mssql": mssql.dialect(),
}

CASES: dict[str, list[tuple[Any, str]]] = {
    "postgresql": [
        (postgresql.SMALLINT(), "int"),
        (postgresql.INTEGER(), "int"),
        (postgresql.BIGINT(), "long"),
        (postgresql.NUMERIC(10, 2), "decimal(10, 2)"),
        (postgresql.NUMERIC(38, 38), "decimal(38, 38)"),
        (postgresql.NUMERIC(39, 0), "string"),
        (postgresql.NUMERIC(), UNDECIDED),
        (postgresql.NUMERIC(3, 5), UNDECIDED),
        (postgresql.NUMERIC(3, -2), UNDECIDED),
        (postgresql.REAL(), "float"),
        (postgresql.DOUBLE_PRECISION(), "double"),
        (postgresql.MONEY(), "decimal(38, 4)"),
        (postgresql.CHAR(4), "string"),
        (postgresql.VARCHAR(20), "string"),
        (postgresql.VARCHAR(20, collation="de_DE"), "string"),
        (postgresql.TEXT(), "string"),
        (postgresql.BYTEA(), "binary"),
        (postgresql.DATE(), "date"),
        (postgresql.TIME(), "time"),
        (postgresql.TIME(precision=3), "time"),
        (postgresql.TIME(timezone=True), UNDECIDED),
        (postgresql.TIMESTAMP(), "timestamp"),
        (postgresql.TIMESTAMP(precision=3), "timestamp"),
        (postgresql.TIMESTAMP(timezone=True), "timestamptz"),
        (postgresql.TIMESTAMP(timezone=True, precision=3), "timestamptz"),
        (postgresql.INTERVAL(), "string"),
        (postgresql.INTERVAL(fields="DAY TO SECOND", precision=3), "string"),
        (postgresql.BOOLEAN(), "boolean"),
        (postgresql.ENUM("a", "b", name="mood"), "string"),
        (postgresql.UUID(), "uuid"),
        (postgresql.JSON(), "json"),
        (postgresql.JSONB(), "json"),
        (postgresql.ARRAY(postgresql.INTEGER()), "string"),
        (postgresql.HSTORE(), "string"),
        (postgresql.INET(), "string"),
        (postgresql.CIDR(), "string"),
        (postgresql.MACADDR(), "string"),
        (postgresql.MACADDR8(), "string"),
        (postgresql.BIT(3), "string"),
        (postgresql.BIT(5, varying=True), "string"),
        (postgresql.TSVECTOR(), "string"),
        (postgresql.INT4RANGE(), "string"),
        (postgresql.TSTZRANGE(), "string"),
        (postgresql.OID(), UNDECIDED),
        (postgresql.CITEXT(), "string"),
        (postgresql.DOMAIN("price", postgresql.NUMERIC(8, 2)), "decimal(8, 2)"),
        (sa.types.NullType(), UNDECIDED),
    ],
    "mysql": [
        (mysql.TINYINT(), "int"),
        (mysql.TINYINT(display_width=1), "int"),
        (mysql.TINYINT(unsigned=True), "int"),
        (mysql.SMALLINT(unsigned=True), "int"),
        (mysql.MEDIUMINT(unsigned=True), "int"),
        (mysql.INTEGER(), "int"),
        (mysql.INTEGER(display_width=11, unsigned=True, zerofill=True), "long"),
        (mysql.BIGINT(), "long"),
        (mysql.BIGINT(unsigned=True), "decimal(20, 0)"),
        (mysql.DECIMAL(10, 2), "decimal(10, 2)"),
        (mysql.DECIMAL(10, 2, unsigned=True), "decimal(10, 2)"),
        (mysql.DECIMAL(65, 30), UNDECIDED),
        (mysql.FLOAT(), "double"),
        (mysql.DOUBLE(unsigned=True), "double"),
        (mysql.BIT(1), "boolean"),
        (mysql.BIT(64), "binary"),
        (mysql.BIT(12), UNDECIDED),
        (mysql.YEAR(), "int"),
        (mysql.DATE(), "date"),
        (mysql.TIME(fsp=6), "string"),
        (mysql.DATETIME(fsp=6), "timestamp"),
        (mysql.TIMESTAMP(), "timestamptz"),
        (mysql.CHAR(3, charset="latin1", collation="latin1_bin"), "string"),
        (mysql.VARCHAR(20), "string"),
        (mysql.LONGTEXT(), "string"),
        (mysql.ENUM("it's", "b(1)"), "string"),
        (mysql.SET("a", "b"), "string"),
        (mysql.JSON(), "json"),
        (mysql.VARBINARY(16), "binary"),
        (mysql.LONGBLOB(), "binary"),
    ],
    "oracle": [
        (oracle.NUMBER(9, 0), "int"),
        (oracle.NUMBER(10, 0), "decimal(10, 0)"),
        (oracle.NUMBER(38, 10), "decimal(38, 10)"),
        (oracle.NUMBER(3, 5), UNDECIDED),
        (oracle.NUMBER(5, -2), UNDECIDED),
        (oracle.NUMBER(), UNDECIDED),
        (sa.INTEGER(), "decimal(38, 0)"),
        (oracle.FLOAT(binary_precision=24), "float"),
        (oracle.FLOAT(binary_precision=126), "double"),
        (oracle.BINARY_FLOAT(), "float"),
        (oracle.BINARY_DOUBLE(), "double"),
        (oracle.DATE(), "timestamp"),
        (oracle.TIMESTAMP(), "timestamp"),
        (oracle.TIMESTAMP(timezone=True), "string"),
        (oracle.TIMESTAMP(local_timezone=True), "string"),
        (oracle.INTERVAL(), "string"),
        (oracle.VARCHAR2(20), "string"),
        (oracle.NVARCHAR2(20), "string"),
        (sa.CHAR(3), "string"),
        (oracle.CLOB(), "string"),
        (oracle.LONG(), "string"),
        (oracle.RAW(16), "binary"),
        (oracle.BLOB(), "binary"),
        (oracle.BFILE(), UNDECIDED),
        (oracle.ROWID(), UNDECIDED),
    ],
    "mssql": [
        (mssql.TINYINT(), "int"),
        (sa.BIGINT(), "long"),
        (mssql.BIT(), "boolean"),
        (sa.DECIMAL(38, 10), "decimal(38, 10)"),
        (mssql.MONEY(), "decimal(19, 4)"),
        (mssql.SMALLMONEY(), "decimal(10, 4)"),
        (mssql.REAL(), "float"),
        (sa.FLOAT(53), "double"),
        (sa.FLOAT(24), "float"),
        (mssql.DATETIME(), "timestamp"),
        (mssql.DATETIME2(precision=3), "timestamp"),
        (mssql.SMALLDATETIME(), "timestamp"),
        (mssql.DATETIMEOFFSET(precision=7), "string"),
        (mssql.TIME(precision=7), "time"),
        (sa.DATE(), "date"),
        (mssql.UNIQUEIDENTIFIER(), "uuid"),
        (mssql.NVARCHAR(20, collation="Latin1_General_CI_AS"), "string"),
        (mssql.VARCHAR("max"), "string"),  # type: ignore[arg-type]
        (mssql.NTEXT(), "string"),
        (mssql.XML(), "string"),
        (mssql.VARBINARY("max"), "binary"),
        (mssql.IMAGE(), "binary"),
        (mssql.ROWVERSION(), "binary"),
        (mssql.TIMESTAMP(), "binary"),
        (mssql.SQL_VARIANT(), UNDECIDED),
    ],
}

NAMED: list[tuple[str, str, str]] = [
    ("postgresql", "xml", "string"),
    ("postgresql", "point", "string"),
    ("postgresql", "geometry", "string"),
    ("mysql", "geometry", "binary"),
    ("oracle", "XMLTYPE", "string"),
    ("oracle", "SDO_GEOMETRY", UNDECIDED),
    ("mssql", "hierarchyid", "string"),
    ("mssql", "geography", "string"),
]
"""Types that SQLAlchemy does not know, by the names that it tells."""


@pytest.mark.parametrize(
    ("engine", "kind", "declared"),
    [
        pytest.param(engine, kind, declared, id=f"{engine}-{kind!r}")
        for engine, cases in CASES.items()
        for kind, declared in cases
    ],
)
def test_a_type_of_the_source(engine: str, kind: Any, declared: str) -> None:
    found = declared_type(kind, DIALECTS[engine])
    assert found.type == declared
    if found.is_decided:
        assert parse_column("c", found.type).type == declared
    else:
        assert found.comment


@pytest.mark.parametrize(("engine", "name", "declared"), NAMED)
def test_a_type_that_only_its_name_is_known_of(engine: str, name: str, declared: str) -> None:
    assert declared_kind(parse_type(name), DIALECTS[engine]).type == declared


@pytest.mark.parametrize(
    ("engine", "kind", "said"),
    [
        ("postgresql", postgresql.NUMERIC(), "numeric(28, 6)"),
        ("mysql", mysql.TINYINT(display_width=1), "boolean where"),
        ("oracle", oracle.NUMBER(), "NumberDataTypeScale"),
        ("mssql", mssql.DATETIME2(), "more than six decimals"),
        ("mssql", mssql.DATETIME2(precision=3), None),
        ("oracle", oracle.FLOAT(binary_precision=53), None),
    ],
)
def test_what_is_to_be_known_is_said(engine: str, kind: Any, said: str | None) -> None:
    comment = declared_type(kind, DIALECTS[engine]).comment
    assert (comment is None) if said is None else (said in (comment or ""))


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("numeric(10, 2)", TypeName("NUMERIC", (10, 2))),
        ("NUMBER(5, -2)", TypeName("NUMBER", (5, -2))),
        ("TIMESTAMP(3) WITH TIME ZONE", TypeName("TIMESTAMP WITH TIME ZONE", (3,))),
        ("INTEGER(11) UNSIGNED ZEROFILL", TypeName("INTEGER", (11,), unsigned=True)),
        ("ENUM('a(1)','2')", TypeName("ENUM", ())),
        ("VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", TypeName("VARCHAR", (20,))),
    ],
)
def test_type_names_are_taken_apart(text: str, parsed: TypeName) -> None:
    assert parse_type(text) == parsed
