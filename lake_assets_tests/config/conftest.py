"""Reading a text as if it were lake.yaml."""

from collections.abc import Callable
from pathlib import Path

import pytest

from lake_assets.config import LakeConfig
from lake_assets.config.config_file import ConfigError, load_lake

Load = Callable[..., LakeConfig]
Refusal = Callable[..., list[str]]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def load(text: str | bytes, **environ: str) -> LakeConfig:
        file = tmp_path / "lake.yaml"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_lake(file, environ=environ)

    return load


@pytest.fixture
def refusal(load: Load, tmp_path: Path) -> Refusal:
    def refusal(text: str | bytes, **environ: str) -> list[str]:
        """The lines of the refusal, each without the file's name at its start."""
        with pytest.raises(ConfigError) as caught:
            load(text, **environ)
        lines = str(caught.value).splitlines()
        start = f"{tmp_path / 'lake.yaml'}: "
        assert all(line.startswith(start) for line in lines)
        return [line.removeprefix(start) for line in lines]

    return refusal
