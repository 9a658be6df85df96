"""`lake-assets import-endpoint`: converts documents of DMS to a section of lake.yaml.

Here: reading and writing files. Not here: their content (`onboarding/endpoint_import/`).
"""

from collections.abc import Sequence
from pathlib import Path

from lake_assets.errors import DocumentError
from lake_assets.onboarding.endpoint_import.documents import Documents, read_documents
from lake_assets.onboarding.endpoint_import.lake_section import lake_section


def import_endpoint(files: Sequence[Path], output: Path | None = None) -> str:
    """The section that the files describe, also written to `output`. Raises DocumentError for a file that cannot be
    read or used, and for an output that exists already."""
    text = lake_section(documents_of(files))
    if output is not None:
        try:
            with output.open("x", encoding="utf-8") as opened:
                opened.write(text)
        except FileExistsError:
            raise DocumentError(f"{output} exists already: remove it, or name another file.") from None
        except OSError as error:
            raise DocumentError(f"{output} cannot be written: {error.strerror}.") from error
    return text


def documents_of(files: Sequence[Path]) -> Documents:
    """What the files describe. Raises DocumentError."""
    return read_documents({str(file): _text(file) for file in files})


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise DocumentError(f"{file} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise DocumentError(f"{file} is not UTF-8: {error.reason} at byte {error.start}.") from error
