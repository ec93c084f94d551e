"""Which lines of a file tell by an event that a watched line was executed: those of its whole statement."""

import ast
import re
import threading
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from resolvent.engine import node_lines, shell_lines

Language = Literal["python", "node", "bash", "none", "other"]
MAX_BYTES = 512 << 10
# Read by people: nothing in there is executed.
_PROSE = (".md", ".markdown", ".rst", ".adoc", ".pyi", "/license", "/changelog", "/authors", "/.gitignore")
_PLAIN = re.compile(r"[A-Za-z0-9_./+-]+")
_SUFFIXES: dict[str, Language] = {
    ".py": "python", ".pyw": "python", ".js": "node", ".cjs": "node", ".mjs": "node",
    ".bash": "bash", ".sh": "bash",
}  # fmt: skip
_INTERPRETERS: dict[str, Language] = {"python": "python", "node": "node", "bash": "bash", "sh": "bash"}
# A compiler may take these out, or give their line to a neighbour.
_FLEETING = (ast.Pass, ast.Break, ast.Continue, ast.Global, ast.Nonlocal)
# Filters of warnings belong to the whole process.
_PARSING = threading.Lock()


@dataclass(frozen=True)
class Watched:
    """One watched file: the lines whose execution counts, and whether their silence says anything."""

    path: str
    language: Language
    content: bytes = b""
    lines: frozenset[int] = frozenset()
    # Lines whose execution says that a watched one may have been executed.
    near: frozenset[int] = frozenset()
    certain: bool = True
    # What a module of it binds: whatever else binds all of that may be a copy of it.
    names: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rpartition("/")[2]

    @property
    def text(self) -> str:
        """What it holds, as far as it is text."""
        return self.content.decode("utf-8", "replace")


def watched(path: str, content: bytes | None, lines: Sequence[int]) -> Watched:
    """What to watch in a file; nothing certain when it is not there, not ours to read, or not understood."""
    if f"/{path.lower()}".endswith(_PROSE):
        return Watched(path, "none")
    if content is None or len(content) > MAX_BYTES:
        return Watched(path, "other", certain=False)
    language, asked = _language(path, content), frozenset(lines)
    one = Watched(path, language, content, asked, certain=False)
    # A name of other characters is not as it is shown, or means something to a shell.
    if language == "python" and "\\x" not in path:
        return _in_python(one)
    if language == "node" and "\\x" not in path:
        return replace(one, lines=node_lines.counting(one.text, asked), certain=True)
    if language == "bash" and _PLAIN.fullmatch(path):
        exact, near, certain = shell_lines.counting(one.text, asked)
        return replace(one, lines=exact or near, near=near, certain=certain)
    return replace(one, language="other")


def _language(path: str, content: bytes) -> Language:
    first = content[:256].partition(b"\n")[0].decode("utf-8", "replace")
    if first.startswith("#!"):
        words = first[2:].replace("/env ", "/env/").replace(" -S ", "/").split() or [""]
        program = words[0].rpartition("/")[2].rstrip("0123456789.")
        return _INTERPRETERS.get(program, "other")
    dot = path.rfind(".")
    return _SUFFIXES.get(path[dot:].lower(), "other") if dot >= 0 else "other"


def _in_python(one: Watched) -> Watched:
    try:
        with _PARSING, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(one.content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # Of another Python than ours, or of none.
        return replace(one, language="other")
    counting, certain = set[int](), True
    for first, last, dependable in _spans(tree):
        if not one.lines.isdisjoint(range(first, last + 1)):
            counting.update(range(first, last + 1))
            certain = certain and dependable
    return replace(one, lines=frozenset(counting), certain=certain, names=_bound(tree))


def _bound(tree: ast.Module) -> frozenset[str]:
    """The names that its own statements define or assign."""
    defined = [
        node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    ]
    targets = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    return frozenset((*defined, *(target.id for target in targets if isinstance(target, ast.Name))))


def _spans(tree: ast.Module) -> Iterator[tuple[int, int, bool]]:
    """First and last line of every statement without those inside of it, and whether it always gives an event."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler | ast.match_case):
            yield from _clause(node)
        elif isinstance(node, ast.stmt) and not _is_silent(node):
            yield _span(node)


def _span(node: ast.stmt) -> tuple[int, int, bool]:
    first, last = node.lineno, node.end_lineno or node.lineno
    if hasattr(node, "body") or isinstance(node, ast.Match):
        # Its head only: up to the last expression before the block.
        decorators: list[ast.expr] = getattr(node, "decorator_list", [])
        first = min([first, *(one.lineno for one in decorators)])
        last = max([node.lineno, *(getattr(one, "end_lineno", 0) or 0 for one in _head(node))])
    test = getattr(node, "test", None)
    dependable = not isinstance(node, _FLEETING) and not isinstance(test, ast.Constant)
    return first, last, dependable and not isinstance(node, ast.Assert) and not _annotates_only(node)


def _head(node: ast.AST) -> Iterator[ast.AST]:
    """What belongs to a compound statement and lies in none of its blocks."""
    blocks = ("body", "orelse", "finalbody", "handlers", "cases")
    for name, value in ast.iter_fields(node):
        if name in blocks:
            continue
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, ast.AST):
                yield from ast.walk(one)


def _clause(node: ast.ExceptHandler | ast.match_case) -> Iterator[tuple[int, int, bool]]:
    inner = node.type if isinstance(node, ast.ExceptHandler) else node.pattern
    if inner is not None:
        last = max(getattr(one, "end_lineno", 0) or 0 for one in _head(node))
        first = getattr(node, "lineno", inner.lineno)
        # A pattern that takes everything is no question at all.
        yield first, max(first, last), not isinstance(inner, ast.MatchAs)


def _is_silent(node: ast.stmt) -> bool:
    """A docstring or another bare constant, or the word `try`: no Python executes it."""
    constant = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return constant or isinstance(node, ast.Try | ast.TryStar)


def _annotates_only(node: ast.stmt) -> bool:
    return isinstance(node, ast.AnnAssign) and node.value is None
