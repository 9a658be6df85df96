"""The settings of the DMS endpoint that the demo's files follow.

Here: the settings, their validation, and how they are stored between processes. Not here: their effect on a file
(`dms_layout.py`, `dms_csv.py`, `dms_parquet.py`). Names and meanings are those of
https://docs.aws.amazon.com/dms/latest/userguide/CHAP_Target.S3.html in snake case.
"""

from dataclasses import asdict, dataclass
from typing import Any, Literal, Self


@dataclass(frozen=True)
class DmsWriterSettings:
    """The settings of the files; the defaults are those of the demo's `lake.yaml`.

    Raises ValueError for a combination that no DMS task could have.
    """

    data_format: Literal["csv", "parquet", "messages"] = "csv"
    """`messages`: no files, but the lines that `demo/stream/` sends to a stream."""
    compression: Literal["gzip", "none"] = "none"
    """CSV under gzip gets the ending `.csv.gz`; Parquet compresses its pages and keeps `.parquet`."""
    add_column_name: bool = True
    """CSV files begin with a header."""
    csv_null_value: str = "NULL"
    rfc_4180: bool = True
    """False: no field is quoted, whatever it contains; such files cannot be read back exactly, as with DMS."""
    timestamp_column_name: str = "commit_ts"
    change_sequence_column: str | None = "change_seq"
    before_image_prefix: str | None = "BI_"
    """None: a change of a primary key is written as D and I, as a source without before images does."""
    before_image: Literal["key_change", "always"] = "key_change"
    """Whether a U that did not change the primary key has a before image too."""
    delete_image: Literal["key", "full"] = "key"
    """The columns of a D besides its key: none (a PostgreSQL source), or the whole row (REPLICA IDENTITY FULL)."""
    include_op_for_full_load: bool = True
    preserve_transactions: bool = False
    """Changes of all tables go to one file in the order of their commits; that file is CSV whatever data_format is."""
    cdc_path: str | None = None
    """The folder of these files, below the location."""

    def __post_init__(self) -> None:
        for name, allowed in (
            ("data_format", ("csv", "parquet", "messages")),
            ("compression", ("gzip", "none")),
            ("before_image", ("key_change", "always")),
            ("delete_image", ("key", "full")),
        ):
            if (value := getattr(self, name)) not in allowed:
                raise ValueError(f"{name} is one of {', '.join(allowed)}, not {value!r}")
        if any(character in self.csv_null_value for character in '",\r\n'):
            raise ValueError(
                f"csv_null_value {self.csv_null_value!r} would have to be quoted, which DMS never does"
            )
        if self.preserve_transactions and (self.add_column_name or not self.cdc_path):
            raise ValueError("preserve_transactions needs a cdc_path, and does not go with add_column_name")
        if not self.timestamp_column_name:
            raise ValueError("timestamp_column_name is empty; the demo always writes the commit timestamp")

    @property
    def file_ending(self) -> str:
        """`csv`, `csv.gz` or `parquet`."""
        return self.csv_ending if self.data_format == "csv" else self.data_format

    @property
    def csv_ending(self) -> str:
        """`csv` or `csv.gz`."""
        return "csv.gz" if self.compression == "gzip" else "csv"

    def to_json(self) -> dict[str, Any]:
        """The settings for the source database, which keeps them: a live feed continues with the settings of its
        history."""
        return asdict(self)

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> Self:
        """The inverse of `to_json`. Raises TypeError for a setting this version does not know."""
        return cls(**kept)
