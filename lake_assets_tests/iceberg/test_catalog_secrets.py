"""A catalog whose password is in Secrets Manager, and is rotated while the catalog is open.

Here: PyIceberg with a database of PostgreSQL. Not here: Spark's sessions (`spark/test_sessions.py`).
"""

from pathlib import Path

import pytest

from lake_assets.config import CatalogConfig, S3Config
from lake_assets.errors import CatalogUnavailable
from lake_assets.iceberg.catalog import ensure_namespace, open_catalog
from lake_assets.storage.aws_client import Aws
from lake_assets_tests.helpers.servers.postgresql import Login
from lake_assets_tests.helpers.servers.secrets import Secret, secrets_config


def test_a_password_that_is_rotated(postgresql: str, s3: S3Config, tmp_path: Path) -> None:
    login = Login(postgresql, "first-pass/word")
    secret = Secret(s3, {"password": "first-pass/word"})
    config = catalog_config(tmp_path, f"jdbc:{login.address(f'${{secret:{secret.name}:password}}')}")
    secrets = Aws(secrets_config(s3)).secrets
    catalog = open_catalog(config, secrets)
    ensure_namespace(catalog, "before")
    login.rotate("second")
    secret.rotate({"password": "second"})
    ensure_namespace(catalog, "after")
    assert {("before",), ("after",)} <= set(catalog.list_namespaces())
    # And one that is opened with what was kept.
    login.rotate("third")
    secret.rotate({"password": "third"})
    assert ("after",) in open_catalog(config, secrets).list_namespaces()
    login.rotate("fourth")
    with pytest.raises(CatalogUnavailable, match="password authentication failed") as caught:
        open_catalog(config, secrets)
    assert "third" not in str(caught.value)


def catalog_config(folder: Path, uri: str) -> CatalogConfig:
    return CatalogConfig.model_validate({"type": "jdbc", "uri": uri, "warehouse": str(folder / "warehouse")})
