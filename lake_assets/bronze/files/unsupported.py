"""Intact Parquet files that cannot be read here: of a codec, an encoding or an encryption that the reader lacks.

Such a file is not damaged, and DMS would write it again as it is. So it stays pending, and the batch's error names what
is missing. Here: recognising it, and that error. Not here: damaged files (`bronze/quarantine/damage.py`). Pure.
"""

import re
from collections.abc import Collection

from lake_assets.errors import LakeError

_ARROW = re.compile(
    r"encrypted|decrypt|not supported|not built|not (yet )?implemented|unsupported", re.IGNORECASE
)
"""In the messages of Arrow's errors, which have no class of their own."""
_ENCRYPTION = re.compile("encrypted|decrypt|ParquetCrypto", re.IGNORECASE)
_SPARK = frozenset(
    (
        *("ClassNotFoundException", "NoClassDefFoundError", "UnsatisfiedLinkError"),
        *(
            "UnsupportedOperationException",
            "SparkUnsupportedOperationException",
            "ParquetCryptoRuntimeException",
        ),
    )
)
"""Java's classes of such errors."""
_CODEC = re.compile(r"(\w+)Codec\b")
"""In the name of the missing Java class. Arrow ends the process if it is asked for the codec of an encrypted column."""


class UnsupportedFile(LakeError):
    """An intact file that needs what the reader lacks."""

    def __init__(self, key: str, cause: str) -> None:
        """`cause`: the reader's error."""
        what = f"with something that this Spark lacks ({cause})"
        cure = "Have its writer leave that out"
        if _ENCRYPTION.search(cause):
            what = f"encrypted within Parquet ({cause})"
            cure = "Have it written without that: the encryption of a bucket, such as SSE-KMS, is no obstacle"
        elif codec := _CODEC.search(cause):
            what = f"compressed by {codec[1].upper()}, a codec that this Spark lacks ({cause})"
            cure = (
                "Have its writer use snappy, gzip or zstd, or name the codec's library in spark.jars or "
                "spark.jars.packages of `spark: conf:`"
            )
        super().__init__(
            f"{key} is not damaged, but written {what}. {cure}. The file stays pending, and nothing is quarantined."
        )


def arrow_lacks(error: BaseException) -> bool:
    """Whether an error of Arrow says that Arrow lacks what the file needs."""
    return _ARROW.search(str(error)) is not None


def spark_lacks(kinds: Collection[str]) -> bool:
    """Whether the Java classes of an error and of its causes say that Spark lacks what the file needs."""
    return not _SPARK.isdisjoint(kinds)
