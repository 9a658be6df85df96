"""What a Spark of tests does without: questions that it has answered or need not ask, files of checksums, and processes
that set the permissions of files.

Here: for each process that starts a Spark for tests. Not here: settings of a session (`conftest.py`, `soak/bucket.py`).
"""

from typing import Any

from py4j.java_gateway import JavaClass, JavaMember, JavaObject, JavaPackage, JVMView

SENT_AS_THEY_ARE = frozenset((str, bytes, bool, int, float, type(None)))
UMASKED = """
public class Umasked extends org.apache.hadoop.fs.RawLocalFileSystem {
    public void setPermission(
        org.apache.hadoop.fs.Path path, org.apache.hadoop.fs.permission.FsPermission permission
    ) {}
}
"""
"""Files and folders keep the permissions with which Java makes them, which are those that Hadoop would set."""


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


def pass_plain_arguments() -> None:
    """Py4J asks ten converters about each text and number that it passes to Java. None of them converts one. Call it
    once in a process."""
    for kind in (JavaMember, JavaClass):
        _passes(kind)


def _passes(kind: Any) -> None:
    convert = kind._get_args

    def given(self: Any, arguments: Any) -> Any:
        if all(type(one) in SENT_AS_THEY_ARE or isinstance(one, JavaObject) for one in arguments):
            return [*arguments], []
        return convert(self, arguments)

    kind._get_args = given


def with_plain_files(session: Any) -> None:
    """By default, Hadoop starts a process (`chmod`) for each local file and folder that it makes, and writes a file of
    checksums beside each file. For the whole JVM of an embedded session, and through it, because no setting turns
    either off; only a test may reach into the JVM, which a Spark elsewhere does not offer."""
    jvm, conf = session._jvm, session._jsc.hadoopConfiguration()
    files = jvm.org.apache.hadoop.fs.FileSystem.getLocal(conf)
    files.setWriteChecksum(False)
    loader = files.getClass().getClassLoader()
    # The compiler that Spark has for its own generated code.
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(loader)
    compiler.cook(UMASKED)
    umasked = compiler.getClassLoader().loadClass("Umasked").newInstance()
    umasked.initialize(files.getUri(), conf)
    behind = loader.loadClass("org.apache.hadoop.fs.FilterFileSystem").getDeclaredField("fs")
    behind.setAccessible(True)
    behind.set(files, umasked)
