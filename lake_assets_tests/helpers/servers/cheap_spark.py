"""What a Spark of tests does without: questions that it has answered, and files of checksums.

Here: for each process that starts a Spark for tests. Not here: settings of a session (`conftest.py`, `soak/bucket.py`).
"""

from typing import Any

from py4j.java_gateway import JavaClass, JavaMember, JavaPackage, JVMView


def remember_classes() -> None:
    """Py4J asks the JVM for a class or a static method each time it is named, which PySpark does for each column: Java
    looks for it in three hundred jars. The answers stay the same. Call it once in a process."""
    for kind in (JVMView, JavaClass, JavaPackage):
        _remembers(kind)


def _remembers(kind: Any) -> None:
    ask = kind.__getattr__

    def found(self: Any, name: str) -> Any:
        answer = ask(self, name)
        if isinstance(answer, JavaClass | JavaMember | JavaPackage):
            self.__dict__[name] = answer
        return answer

    kind.__getattr__ = found


def without_checksums(session: Any) -> None:
    """By default, Hadoop writes a file of checksums beside each local file, and starts two processes more for it. For
    the whole JVM of an embedded session, and through it, because it is a switch of the file system and no setting; only
    a test may reach into the JVM, which a Spark elsewhere does not offer."""
    files = session._jvm.org.apache.hadoop.fs.FileSystem
    files.getLocal(session._jsc.hadoopConfiguration()).setWriteChecksum(False)
