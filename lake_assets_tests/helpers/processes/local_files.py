"""How Hadoop writes local files in the tests' Sparks.

Here: that. Not here: the sessions (`conftest.py`, the programs of this folder).
"""

from typing import Any


def without_checksums(session: Any) -> None:
    """By default, Hadoop writes a file of checksums beside each local file, and starts two processes more for it. For
    the whole JVM of an embedded session."""
    files = session._jvm.org.apache.hadoop.fs.FileSystem
    files.getLocal(session._jsc.hadoopConfiguration()).setWriteChecksum(False)
