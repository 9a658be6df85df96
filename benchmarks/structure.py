"""`python -m benchmarks.structure`: how much there is to read, and through how many modules a batch goes.

Counts tokens of code (without comments and docstrings), functions of a high complexity, dataclasses with many
fields, and the settings of lake.yaml. Then it follows one batch of a small table, warm, from its turn to the commit:
the modules whose functions are called, and how often the batch goes back to a stage that it had left. Here: the
figures. Not here: seconds.
"""

import ast
import io
import json
import sys
import tempfile
import threading
import tokenize
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks.wide_tables import wide_lake, write_batch
from lake_assets.rounds.arrivals import log_arrivals
from lake_assets.silver.apply.engine import apply_tables

PACKAGE = Path(__file__).parent.parent / "lake_assets"
STAGES = (
    "silver/plan",
    "bronze/files bronze/values bronze/decode bronze/reader",
    "silver/batch silver/changes silver/reduce",
    "silver/write",
    "iceberg",
)
"""The folders of each stage of a batch, in the order in which a batch needs them."""
MOST_FIELDS, MOST_COMPLEX = 12, 10
_LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def tokens(source: str) -> tuple[int, int]:
    """The tokens of code, and the lines that have one."""
    docs = {
        node.body[0].lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and ast.get_docstring(node) is not None
    }
    code = [
        token
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in _LAYOUT and not (token.type == tokenize.STRING and token.start[0] in docs)
    ]
    return len(code), len({token.start[0] for token in code})


def structure() -> Iterator[str]:
    """The figures of the package's code, a line each."""
    trees = {path: ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py")}
    counted = [tokens(path.read_text()) for path in trees]
    code, lines = (sum(each) for each in zip(*counted, strict=True))
    yield f"{len(trees)} modules, {code:,} tokens on {lines:,} lines, {code / lines:.1f} a line"
    functions = [
        _complexity(node)
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    complex_ones = sum(found > MOST_COMPLEX for found in functions)
    yield (
        f"{len(functions):,} functions, {complex_ones} of a complexity above {MOST_COMPLEX} "
        f"({complex_ones / len(functions):.1%})"
    )
    fields = [
        sum(isinstance(statement, ast.AnnAssign) for statement in node.body)
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and any("dataclass" in ast.unparse(d) for d in node.decorator_list)
    ]
    many = sum(number > MOST_FIELDS for number in fields)
    yield f"{len(fields)} dataclasses, {many} of more than {MOST_FIELDS} fields"
    reference = json.loads((PACKAGE.parent / "docs/reference/lake.schema.json").read_text())
    models = [reference, *reference["$defs"].values()]
    yield f"{sum(len(model.get('properties', ())) for model in models)} settings of lake.yaml"


def _complexity(function: ast.AST) -> int:
    """One, and one for each branch: also those within an expression."""
    found = 1
    for node in ast.walk(function):
        match node:
            case ast.BoolOp():
                found += len(node.values) - 1
            case ast.comprehension():
                found += 1 + len(node.ifs)
            case (
                ast.If()
                | ast.IfExp()
                | ast.For()
                | ast.While()
                | ast.Assert()
                | ast.ExceptHandler()
                | ast.match_case()
            ):
                found += 1
    return found


@contextmanager
def followed(seen: list[str]) -> Iterator[None]:
    """Adds the module of each call of the package's functions, in all threads."""
    beginning = f"{PACKAGE}/"

    def note(frame: FrameType, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(beginning):
            seen.append(file.removeprefix(beginning))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]


def batch() -> Iterator[str]:
    """The figures of a batch, a line each."""
    seen: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lake = wide_lake(folder, 12)
        for number in range(4):
            write_batch(folder, 12, number)
            log_arrivals(lake.runtime, "bench")
            if number < 3:
                apply_tables(lake.runtime, lake.targets)
        with followed(seen):
            (result,) = apply_tables(lake.runtime, lake.targets)
        assert result.error is None, result.error
        assert len(result.batches) == 1
    of_stages = [stage for module in seen if (stage := _stage(module)) is not None]
    back = sum(later < stage for stage, later in pairwise(of_stages))
    modules = Counter(seen)
    own = [module for module in modules if _stage(module) is not None or module.startswith("silver/apply")]
    yield f"a batch: {len(modules)} modules, {len(own)} of them of the engine; {back} times back to an earlier stage"
    yield from (f"  {calls:5} calls  {module}" for module, calls in sorted(modules.items()))


def _stage(module: str) -> int | None:
    return next(
        (place for place, folders in enumerate(STAGES) if module.startswith(tuple(folders.split()))), None
    )


def main() -> None:
    """Prints all figures."""
    for lines in (structure, batch):
        for line in lines():
            print(line, flush=True)


if __name__ == "__main__":
    main()
