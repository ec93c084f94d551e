"""What keeps Python tests from being run before they begin: fixtures and set-ups that skip, or give them less."""

import ast
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from resolvent.domain.integrity.altered import Hit, shown
from resolvent.domain.integrity.python_faults import fixtures_for_all, scopes
from resolvent.domain.integrity.python_source import Function, dotted, last, statements

_SKIPS = frozenset(("skip", "skipTest", "xfail", "importorskip", "exit"))
_WHOSE = frozenset(("pytest", "self", "cls", "unittest", "request", "skip", "xfail"))


class Skipping(NamedTuple):
    """A place in a fixture or set-up where the tests that come after it are skipped."""

    where: str
    what: str
    line: int


def newly_skipping(path: str, old: ast.Module | None, new: ast.Module) -> list[Hit]:
    """Hits for fixtures and set-ups that skip tests which were run before."""
    if old is None and path.rpartition("/")[2] != "conftest.py":
        return []  # a new file skips nobody else's tests
    known = Counter((one.where, one.what) for one in _skipping(old)) if old else Counter[tuple[str, str]]()
    there, always = {where for where, _ in scopes(old)} if old else set(), fixtures_for_all(new)
    hits = []
    for one in _skipping(new):
        known[one.where, one.what] -= 1
        # One that is new and not for all tests is only met by those who ask for it.
        if known[one.where, one.what] < 0 and (one.where in there or one.where in always):
            text = f"{shown(one.what)} is new in {shown(one.where)}, so tests that were run before may be skipped."
            hits.append(Hit(rule="skipped-test", path=path, line=one.line, text=text))
    return hits


def narrowed(path: str, old: ast.Module | None, new: ast.Module) -> list[Hit]:
    """Hits for fixtures that give their tests fewer parameters than before."""
    before, after = (_parameters(tree) if tree else {} for tree in (old, new))
    hits = []
    for name, (known, _) in before.items():
        now, line = after.get(name, (known, 1))
        for lost in (known - now).elements() if known.total() > now.total() else ():
            text = f"{shown(name)} no longer gives its tests {shown(lost)}."
            hits.append(Hit(rule="narrowed-tests", path=path, line=line, text=text))
    return hits


def _parameters(tree: ast.Module) -> dict[str, tuple[Counter[str], int]]:
    found = {}
    for name, node in _fixtures(tree).items():
        marks = [one for one in node.decorator_list if isinstance(one, ast.Call) and last(dotted(one)) == "fixture"]
        given = [word.value for mark in marks for word in mark.keywords if word.arg == "params"]
        listed = [one for one in given if isinstance(one, ast.List | ast.Tuple)]
        if listed or not given:
            found[name] = Counter(ast.unparse(one) for values in listed for one in values.elts), node.lineno
    return found


def _skipping(tree: ast.Module) -> Iterator[Skipping]:
    setups = _fixtures(tree).keys() | (fixtures_for_all(tree) - {""})
    for where, body in scopes(tree):
        for one in statements(body) if where in setups else ():
            value = one.value if isinstance(one, ast.Expr | ast.Assign | ast.Return) else None
            name = dotted(value.func) if isinstance(value, ast.Call) else ""
            called = last(name) in _SKIPS and name.partition(".")[0] in _WHOSE
            if called or (isinstance(one, ast.Raise) and last(dotted(one.exc)) in ("SkipTest", "Skipped")):
                yield Skipping(where, ast.unparse(one), one.lineno)


def _fixtures(tree: ast.Module) -> dict[str, Function]:
    return {
        f"{where}.{node.name}".strip("."): node
        for where, body in scopes(tree)
        for node in body
        if isinstance(node, Function) and any(last(dotted(one)) == "fixture" for one in node.decorator_list)
    }
