"""No content of a bucket, a catalog or a stream becomes code: the package has no call that would make it so."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import lake_assets

PACKAGE = Path(lake_assets.__file__).parent
DESERIALIZERS = {
    "pickle",
    "cPickle",
    "_pickle",
    "cloudpickle",
    "dill",
    "marshal",
    "shelve",
    "joblib",
    "jsonpickle",
}
"""Modules whose reading executes what was written."""
CODE = {"eval", "exec", "compile", "__import__"}
LOADERS = {"read_pickle", "to_pickle", "unsafe_load", "full_load_all"}


def unsafe(tree: ast.AST) -> Iterator[str]:
    """What a module does that executes its input."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = (
                [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            )
            yield from (f"imports {name}" for name in names if name.partition(".")[0] in DESERIALIZERS)
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            owner = getattr(getattr(node.func, "value", None), "id", "")
            given = {word.arg: word.value for word in node.keywords}
            if (isinstance(node.func, ast.Name) and name in CODE) or name in LOADERS:
                yield f"calls {name}"
            elif owner == "yaml" and name == "load" and "Loader" not in given and len(node.args) < 2:
                yield "calls yaml.load without a loader"
            elif owner == "os" and name in ("system", "popen"):
                yield f"calls os.{name}"
            elif _is_true(given.get("shell")):
                yield "starts a shell"
            elif _is_true(given.get("allow_pickle")):
                yield "reads pickled arrays"


def _is_true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and bool(node.value)


def test_no_module_executes_what_it_reads() -> None:
    modules = {path: [*unsafe(ast.parse(path.read_text(encoding="utf-8")))] for path in PACKAGE.rglob("*.py")}
    assert len(modules) > 400
    assert {path.name: found for path, found in modules.items() if found} == {}


@pytest.mark.parametrize(
    "code",
    [
        "import pickle",
        "from cloudpickle import loads",
        "pandas.read_pickle(x)",
        "eval(text)",
        "yaml.load(text)",
        "os.system(text)",
        "subprocess.run(text, shell=True)",
        "numpy.load(x, allow_pickle=True)",
    ],
)
def test_what_would_be_found(code: str) -> None:
    assert [*unsafe(ast.parse(code))]


@pytest.mark.parametrize(
    "code", ["re.compile(x)", "yaml.load(text, Loader)", "subprocess.run([a], shell=False)"]
)
def test_what_is_safe(code: str) -> None:
    assert not [*unsafe(ast.parse(code))]
