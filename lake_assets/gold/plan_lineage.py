"""The columns from which each column of a DataFrame is computed, read from Spark's analysed plan.

Here: the plan as text, the only form that Spark Connect gives too. Not here: Dagster's lineage
(`orchestration/assets/mart_lineage.py`). Pure.

Spark numbers the columns of a plan: `sum(fare#3) AS revenue#9` computes column 9 from column 3. The lineage of a column
is the set of all table columns that its number leads to. Columns that only filter, join, group or order rows are not
in it.
"""

import itertools
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

TableColumn = tuple[str, str]
"""Table, as `catalog.namespace.name`, and column."""

BEGIN, END = "== Analyzed Logical Plan ==\n", "\n== Optimized Logical Plan =="
INDENT = len("+- ")
NODE = re.compile(r"(?P<indent>[ :]*(?:[+:]- )?)(?P<kind>\w+)(?P<text>.*)")
COLUMN = re.compile(r"(?P<name>.*)#(?P<number>\d+)L?")
ALIAS = re.compile(r"(?P<expression>.*) AS .*#(?P<number>\d+)L?")
NUMBER = re.compile(r"#(\d+)")
SUBQUERY = re.compile(r"scalar-subquery#(\d+)")
LAMBDA_VARIABLE = re.compile(r"lambda \S+#\d+")
"""A lambda's variable: an element of a column that the same expression names anyway."""
OUTER_COLUMNS = re.compile(r"(?<=-subquery)(#\d+) \[[^\]]*\]")
"""The columns by which a subquery's rows are chosen."""


class UnreadablePlan(Exception):
    """The plan's text is ambiguous, for example because a literal has a bracket or a line break."""


@dataclass(slots=True)
class Node:
    """An operator of the plan, with the text after its name."""

    kind: str
    text: str
    children: list["Node"] = field(default_factory=list)

    def walk(self) -> Iterator["Node"]:
        """The node and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()

    def lists(self) -> list[list[str]]:
        """The items of each of its bracketed lists."""
        return [_items(content) for content in _bracketed(self.text)]

    def output(self) -> list[str]:
        """The numbers of its columns, in order."""
        match self.kind:
            case "Project" | "Aggregate" | "Expand":
                return _numbers(self.lists()[-1])
            case "RelationV2" | "CTERelationRef":
                return _numbers(self.lists()[0])
            case "Window":
                return self.children[-1].output() + _numbers(self.lists()[0])
            case "Generate":
                return self.children[-1].output() + _numbers(self.lists()[-1])
            case "Join" if not self.text.startswith((" LeftSemi", " LeftAnti")):
                left, right = self.children
                return left.output() + right.output()
            case "Join" | "Union" | "Intersect" | "Except":
                return self.children[0].output()
        # The last child is the operator's input; others are its subqueries.
        return self.children[-1].output()


def column_lineage(plan: str, columns: Sequence[str]) -> dict[str, set[TableColumn]]:
    """By column of the DataFrame, the table columns from which its values are computed.

    `plan`: the text of `EXPLAIN EXTENDED`, with all fields of every node. `columns`: the DataFrame's. A column is left
    out if an operator that is not known here computes it. Raises UnreadablePlan.
    """
    try:
        root = _tree(plan[plan.index(BEGIN) + len(BEGIN) : plan.index(END)].splitlines()[1:])
        sources, computed = _leaves(root), _computed(root)
        numbers = root.output()
    except (ValueError, IndexError) as error:
        raise UnreadablePlan(str(error)) from error
    found = {}
    for name, number in zip(columns, numbers, strict=True):
        reached = _reached(number, computed)
        if all(each in sources or each in computed for each in reached):
            found[name] = {sources[each] for each in reached if each in sources}
    return found


def _tree(lines: Sequence[str]) -> Node:
    path: list[Node] = []
    for line in lines:
        match = NODE.fullmatch(line)
        depth = len(match["indent"]) // INDENT if match else 0
        if match is None or depth > len(path) + 1 or (path and depth == 0):
            raise UnreadablePlan(line)
        node = Node(match["kind"], match["text"])
        del path[depth:]
        if depth > len(path):
            # A subquery is indented twice.
            path.append(path[-1])
        if path:
            path[-1].children.append(node)
        path.append(node)
    return path[0]


def _leaves(root: Node) -> dict[str, TableColumn]:
    """The columns of the tables by their numbers."""
    found = {}
    for node in root.walk():
        if node.kind != "RelationV2":
            continue
        # Such as `[a#1, b#2L] lake.silver_shop.orders VERSION AS OF '7'`.
        table = node.text.rpartition("] ")[2].partition(" VERSION AS OF ")[0]
        for item in node.lists()[0]:
            column = COLUMN.fullmatch(item)
            if column is not None:
                found[column["number"]] = (table, column["name"])
    return found


def _computed(root: Node) -> dict[str, set[str]]:
    """By number of a computed column, the numbers of the columns in its expression."""
    found: dict[str, set[str]] = defaultdict(set)
    common = {node.text.strip(): node.children[0] for node in root.walk() if node.kind == "CTERelationDef"}
    for node in root.walk():
        for number, from_numbers in _definitions(node, common):
            found[number] |= from_numbers - {number}
    return found


def _definitions(node: Node, common: dict[str, Node]) -> Iterator[tuple[str, set[str]]]:
    match node.kind:
        case "Project" | "Aggregate" | "Window":
            items = node.lists()[0 if node.kind == "Window" else -1]
            for alias in filter(None, map(ALIAS.fullmatch, items)):
                value = alias["expression"].partition(" windowspecdefinition(")[0]
                yield alias["number"], _references(value)
            subqueries = SUBQUERY.findall(node.text)
            for number, child in zip(subqueries, node.children[:-1], strict=False):
                yield number, set(child.output())
        case "Generate":
            generator = node.text[: node.text.rindex("[")]
            for number in _numbers(node.lists()[-1]):
                yield number, _references(generator)
        case "Expand":
            projections = [_items(item[1:-1]) for item in node.lists()[0]]
            for place, number in enumerate(_numbers(node.lists()[-1])):
                for projection in projections:
                    yield number, _references(projection[place])
        case "Union":
            for child in node.children[1:]:
                for number, other in zip(node.output(), child.output(), strict=True):
                    yield number, {other}
        case "CTERelationRef":
            definition = common[_cte_id(node, common)]
            for number, other in zip(node.output(), definition.output(), strict=True):
                yield number, {other}


def _cte_id(node: Node, common: dict[str, Node]) -> str:
    """Such as `0, false` for the definition and `0, true, [a#1], false` for the reference."""
    number = node.text.split(",")[0].strip()
    return next(text for text in common if text.split(",")[0] == number)


def _reached(number: str, computed: dict[str, set[str]]) -> set[str]:
    reached, waiting = {number}, [number]
    while waiting:
        new = computed.get(waiting.pop(), set()) - reached
        reached |= new
        waiting += new
    return reached


def _references(expression: str) -> set[str]:
    expression = LAMBDA_VARIABLE.sub("", expression)
    return set(NUMBER.findall(OUTER_COLUMNS.sub(r"\1", expression)))


def _numbers(items: Sequence[str]) -> list[str]:
    columns = [COLUMN.fullmatch(item) for item in items]
    if None in columns:
        raise UnreadablePlan(", ".join(items))
    return [column["number"] for column in columns if column is not None]


def _bracketed(text: str) -> list[str]:
    """The contents of the outermost brackets."""
    return [text[start + 1 : end] for start, end in _spans(text) if text[start] == "["]


def _items(content: str) -> list[str]:
    """The text, split at the commas outside of brackets."""
    inside = {place for start, end in _spans(content) for place in range(start, end)}
    cuts = [place for place, sign in enumerate(content) if sign == "," and place not in inside]
    bounds = [-1, *cuts, len(content)]
    return [content[start + 1 : end].strip() for start, end in itertools.pairwise(bounds)]


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """First and last place of every outermost pair of brackets. Raises UnreadablePlan if they do not match."""
    opened: list[int] = []
    for place, sign in enumerate(text):
        if sign in "([":
            opened.append(place)
        elif sign in ")]":
            if not opened:
                raise UnreadablePlan(text)
            start = opened.pop()
            if not opened:
                yield start, place
    if opened:
        raise UnreadablePlan(text)
