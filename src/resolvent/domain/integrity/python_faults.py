"""What Python code newly hides: swallowed errors, replaced subjects, hooks that change what is collected or counted."""

import ast
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from resolvent.domain.integrity.altered import Hit, shown
from resolvent.domain.integrity.python_source import Function, dotted, last, statements

_BROAD = frozenset(("Exception", "BaseException"))
_HOOKS = frozenset(
    (
        "pytest_collection_modifyitems", "pytest_runtest_makereport", "pytest_ignore_collect", "pytest_pyfunc_call",
        "pytest_runtest_protocol", "pytest_runtest_call", "pytest_exception_interact", "pytest_sessionfinish",
        "pytest_collect_file", "pytest_itemcollected", "pytest_deselected", "pytest_report_teststatus",
        "pytest_runtest_setup", "pytest_collection_finish", "pytest_generate_tests", "pytest_pycollect_makeitem",
        "pytest_assertrepr_compare", "pytest_runtestloop", "pytest_cmdline_main", "pytest_unconfigure",
        "pytest_collection", "pytest_configure", "load_tests",
    )
)  # fmt: skip
# Patching these is how tests keep out the world; patching anything else may replace what they are about.
_OUTSIDE = frozenset(
    (
        "requests", "httpx", "aiohttp", "boto3", "botocore", "numpy", "pandas", "django", "flask", "freezegun", "redis",
        "psycopg2", "psycopg", "sqlalchemy", "stripe", "urllib3", "pytest", "click", "typer", "openai", "anthropic",
    )
)  # fmt: skip


class Swallow(NamedTuple):
    """A place where an error ends without a word."""

    where: str
    caught: str
    around: str
    line: int


def swallows(tree: ast.Module, *, in_tests: bool) -> list[Swallow]:
    """Every handler that ends all errors silently, with the function it is in."""
    return [one for where, body in scopes(tree) for one in _swallowed(where, body, in_tests=in_tests)]


def scopes(tree: ast.Module) -> Iterator[tuple[str, Sequence[ast.stmt]]]:
    """Every body of statements with the dotted name of what it belongs to; the module itself has none."""
    yield "", tree.body
    waiting: list[tuple[str, ast.AST]] = [("", node) for node in ast.iter_child_nodes(tree)]
    while waiting:
        prefix, node = waiting.pop()
        name = prefix
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{prefix}.{node.name}".strip(".")
            yield name, node.body
        if not isinstance(node, ast.expr):
            waiting += [(name, child) for child in ast.iter_child_nodes(node)]


def _swallowed(where: str, body: Sequence[ast.stmt], *, in_tests: bool) -> Iterator[Swallow]:
    for one in statements(body):
        if isinstance(one, ast.Try | ast.TryStar):
            around = ast.unparse(ast.Module(body=one.body, type_ignores=[]))
            for handler in one.handlers:
                caught = _caught(handler, in_tests=in_tests)
                if caught and _silent(handler.body):
                    yield Swallow(where, caught, around, handler.lineno)
        elif isinstance(one, ast.With | ast.AsyncWith):
            for item in one.items:
                named = _suppressed(item.context_expr, in_tests=in_tests)
                if named:
                    around = ast.unparse(ast.Module(body=one.body, type_ignores=[]))
                    yield Swallow(where, named, around, one.lineno)


def _caught(handler: ast.ExceptHandler, *, in_tests: bool) -> str:
    if handler.type is None:
        return "except:"
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    broad = _BROAD | {"AssertionError"} if in_tests else _BROAD
    named = [last(dotted(one)) for one in types]
    return f"except {', '.join(named)}:" if broad & set(named) else ""


def _suppressed(value: ast.expr, *, in_tests: bool) -> str:
    if not isinstance(value, ast.Call) or last(dotted(value.func)) != "suppress":
        return ""
    broad = _BROAD | {"AssertionError"} if in_tests else _BROAD
    named = [last(dotted(one)) for one in value.args]
    return f"suppress({', '.join(named)})" if broad & set(named) else ""


def _silent(body: Sequence[ast.stmt]) -> bool:
    """Whether a handler does nothing with the error: it neither calls nor raises, nor keeps it."""
    for one in statements(body):
        if isinstance(one, ast.Raise | ast.Assert):
            return False
        if any(isinstance(node, ast.Call | ast.Await | ast.Yield | ast.YieldFrom) for node in ast.walk(one)):
            return False
    named = {node.id for one in body for node in ast.walk(one) if isinstance(node, ast.Name)}
    return not named & {"e", "exc", "err", "error", "ex"}


def newly_swallowed(
    path: str, old: Sequence[Swallow], new: Sequence[Swallow], gone: Counter[tuple[str, str]]
) -> list[Hit]:
    """Hits for handlers that were not there before; `gone`: those that went away elsewhere."""
    known = Counter((one.where, one.caught) for one in old)
    around = Counter((one.caught, one.around) for one in old)
    hits = []
    for one in new:
        if known[one.where, one.caught] > 0:
            known[one.where, one.caught] -= 1
        elif around[one.caught, one.around] > 0 or gone[one.caught, one.around] > 0:
            gone[one.caught, one.around] -= 1
        else:
            text = f"{shown(one.caught)} is new and lets every error pass in silence."
            hits.append(Hit(rule="swallowed-exception", path=path, line=one.line, text=text))
    return hits


class Patch(NamedTuple):
    """A place where a test puts something else where the real thing was."""

    where: str
    target: str
    line: int


def patches(tree: ast.Module, ours: frozenset[str]) -> list[Patch]:
    """Every replacement of a name that may be of the package under test, with the function it is in."""
    imported = _imports(tree)
    found = []
    for where, body in scopes(tree):
        for one in statements(body):
            for call in _calls(one):
                target = _patched(call, imported)
                if target and _is_ours(target, ours):
                    found.append(Patch(where, target, call.lineno))
            if isinstance(one, ast.Assign):
                for place in one.targets:
                    target = _assigned(place, imported)
                    if target and _is_ours(target, ours):
                        found.append(Patch(where, target, one.lineno))
    return found


def _calls(one: ast.stmt) -> Iterator[ast.Call]:
    """The calls a statement makes itself: its decorators and expressions, not those of statements inside it."""
    waiting: list[ast.AST] = [child for child in ast.iter_child_nodes(one) if not isinstance(child, ast.stmt)]
    if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        waiting = []
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Call):
            yield node
        waiting += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]


def _imports(tree: ast.Module) -> dict[str, str]:
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.asname or alias.name.partition(".")[0]: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = node.module or "" if not node.level else f".{node.module or ''}"
            found |= {alias.asname or alias.name: f"{module}.{alias.name}" for alias in node.names}
    return found


def _patched(call: ast.Call, imported: dict[str, str]) -> str:
    name = dotted(call.func)
    if not call.args:
        return ""
    first, second = call.args[0], call.args[1] if len(call.args) > 1 else None
    by_text = isinstance(first, ast.Constant) and isinstance(first.value, str)
    if last(name) == "patch" or (last(name) == "setattr" and by_text):
        return str(first.value) if isinstance(first, ast.Constant) and by_text else ""
    if name.endswith(("patch.object", ".setattr", "patch.multiple")) or name == "setattr":
        attribute = str(second.value) if isinstance(second, ast.Constant) else "…"
        return f"{_full(dotted(first), imported)}.{attribute}" if dotted(first) else ""
    if last(name) in ("setitem", "dict") and dotted(first) == "sys.modules" and isinstance(second, ast.Constant):
        return str(second.value)
    return ""


def _assigned(place: ast.expr, imported: dict[str, str]) -> str:
    if isinstance(place, ast.Subscript) and dotted(place.value) == "sys.modules":
        return str(place.slice.value) if isinstance(place.slice, ast.Constant) else ""
    if isinstance(place, ast.Attribute) and isinstance(place.value, ast.Name | ast.Attribute):
        start = dotted(place).partition(".")[0]
        return _full(dotted(place), imported) if start in imported else ""
    return ""


def _full(name: str, imported: dict[str, str]) -> str:
    start, _, rest = name.partition(".")
    return ".".join(part for part in (imported.get(start, ""), rest) if part) if start in imported else ""


def _is_ours(target: str, ours: frozenset[str]) -> bool:
    start = target.partition(".")[0]
    if start in ours or target.startswith("."):
        return True
    return bool(start) and start not in sys.stdlib_module_names and start not in _OUTSIDE


def fixtures_for_all(tree: ast.Module) -> frozenset[str]:
    """Functions that take part in every test: automatic fixtures, set-ups, and the module itself."""
    found = {""}
    for where, body in scopes(tree):
        for node in body:
            if isinstance(node, Function):
                name = f"{where}.{node.name}".strip(".")
                automatic = any("autouse=True" in ast.unparse(one) for one in node.decorator_list)
                if automatic or node.name in _SET_UPS:
                    found.add(name)
    return frozenset(found)


_SET_UPS = frozenset(
    ("setUp", "setUpClass", "setUpModule", "setup_method", "setup_class", "setup_module", "setup_function",
     "asyncSetUp", "setup", *_HOOKS)
)  # fmt: skip


def hooks(tree: ast.Module) -> dict[str, tuple[str, int]]:
    """What a test file tells the runner about collecting and reporting, with its text and line."""
    found: dict[str, tuple[str, int]] = {}
    for node in tree.body:
        if isinstance(node, Function) and node.name in _HOOKS and not _names_markers(node):
            found[node.name] = (ast.unparse(node), node.lineno)
        for target in node.targets if isinstance(node, ast.Assign) else ():
            name = dotted(target)
            if name in ("collect_ignore", "collect_ignore_glob", "__test__"):
                found[name] = (ast.unparse(node), node.lineno)
    return found


def _names_markers(node: Function) -> bool:
    calls = [dotted(one.func) for one in ast.walk(node) if isinstance(one, ast.Call)]
    return node.name == "pytest_configure" and all(last(name) == "addinivalue_line" for name in calls)


def roots(paths: Iterable[str]) -> frozenset[str]:
    """The names that product code of these paths can be imported by."""
    found = set()
    for path in paths:
        parts = [
            part for part in path.removesuffix(".py").split("/") if part not in ("src", "lib", "python", "__init__")
        ]
        found |= set(parts[:1])
    return frozenset(found)
