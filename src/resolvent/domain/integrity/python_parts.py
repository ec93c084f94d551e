"""Parts of Python tests: marks, rows of parameters, limits, and handlers that let a failure pass."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from resolvent.domain.integrity.cases import Skip
from resolvent.domain.integrity.python_names import Filler
from resolvent.domain.integrity.python_source import (
    Function,
    dotted,
    last,
    number,
    rewritten,
    statements,
    truth,
)

ALL_ERRORS = frozenset(("Exception", "BaseException", "AssertionError", ""))
_WAITS = frozenset(("timeout", "deadline", "max_time", "max_seconds", "timeout_seconds", "max_wait"))


class Row(NamedTuple):
    """One row of a parametrised test, what its names are in it, and why it is not run."""

    value: ast.expr
    known: dict[str, ast.expr]
    skips: list[Skip]


def catches_failures(handler: ast.ExceptHandler) -> bool:
    """Whether a failed assertion ends in this handler."""
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    if not ALL_ERRORS & {last(dotted(one)) if one else "" for one in caught}:
        return False
    for one in statements(handler.body):
        if isinstance(one, ast.Raise | ast.Assert):
            return False
        if isinstance(one, ast.Expr) and isinstance(one.value, ast.Call) and last(dotted(one.value)) == "fail":
            return False
    return True


def bound(target: ast.expr, row: ast.expr) -> dict[str, ast.expr]:
    """What the names of a loop or of a parametrised test are in one row."""
    if isinstance(target, ast.Name):
        return {target.id: row}
    if isinstance(target, ast.Tuple | ast.List) and isinstance(row, ast.Tuple | ast.List):
        pairs = zip(target.elts, row.elts, strict=False)
        return {name: value for one, part in pairs for name, value in bound(one, part).items()}
    return {}


def shape(expected: ast.expr | None) -> str:
    """Equal for expressions that differ in their constants only."""
    if expected is None:
        return ""
    blank = ast.Constant(value=0)
    return ast.dump(rewritten(expected, lambda one: blank if isinstance(one, ast.Constant) else None))


def marked(mark: ast.expr) -> list[Skip]:
    """The skip that a mark or decorator stands for, if it is one."""
    name = last(dotted(mark))
    call = mark if isinstance(mark, ast.Call) else None
    conditions = call.args[:1] if call else []
    match name:
        case "skip" | "expectedFailure":
            return [Skip(name, "", mark.lineno)]
        case "skipif" | "skipIf" | "skipUnless":
            known = truth(conditions[0]) if conditions else None
            if known is not None and known == (name == "skipUnless"):
                return []
            text = ast.unparse(conditions[0]) if conditions and known is None else ""
            return [Skip(name, text, mark.lineno)]
        case "xfail":
            return [Skip(name, ast.unparse(conditions[0]) if conditions else "", mark.lineno)]
    return []


def _parametrised(marks: Sequence[ast.expr]) -> list[tuple[ast.expr, ast.expr]]:
    """The names and the values of each list of rows."""
    calls = [one for one in marks if isinstance(one, ast.Call)]
    found = []
    for call in (one for one in calls if last(dotted(one.func)) == "parametrize"):
        named = {word.arg: word.value for word in call.keywords}
        given = [*call.args, *(named[name] for name in ("argnames", "argvalues")[len(call.args) :] if name in named)]
        if len(given) >= 2:
            found.append((given[0], given[1]))
    return found


def _target(names: ast.expr) -> ast.expr:
    """The names that a parametrised test gets its rows in."""
    if isinstance(names, ast.Constant) and isinstance(names.value, str):
        parts = [part.strip() for part in names.value.split(",") if part.strip()]
    else:
        listed = names.elts if isinstance(names, ast.Tuple | ast.List) else []
        parts = [str(one.value) for one in listed if isinstance(one, ast.Constant)]
    found: list[ast.expr] = [ast.Name(id=part, ctx=ast.Load()) for part in parts]
    single = len(found) == 1 and not isinstance(names, ast.Tuple | ast.List)
    return found[0] if single else ast.Tuple(elts=found, ctx=ast.Load())


def rows(marks: Sequence[ast.expr], constants: Mapping[str, ast.expr], filler: Filler) -> Iterator[Row]:
    """The rows a test is run with; of several lists each for itself, for a row less of one is less."""
    for names, listed in _parametrised(marks):
        values, into = filler.filled(listed, constants), _target(names)
        if isinstance(values, ast.List | ast.Tuple | ast.Set) and filler.spend(len(values.elts)):
            for one in values.elts:
                row, skips = _row(one, single=isinstance(into, ast.Name))
                yield Row(row, bound(into, row), skips)


def _row(one: ast.expr, *, single: bool) -> tuple[ast.expr, list[Skip]]:
    """A row without its marks, and the skips that these stand for."""
    if not isinstance(one, ast.Call) or last(dotted(one.func)) != "param":
        return one, []
    given = [word.value for word in one.keywords if word.arg == "marks"]
    listed = [mark for value in given for mark in (value.elts if isinstance(value, ast.List | ast.Tuple) else [value])]
    row = one.args[0] if single and one.args else ast.Tuple(elts=one.args, ctx=ast.Load())
    return row, [skip for mark in listed for skip in marked(mark)]


def limits(node: Function, constants: Mapping[str, ast.expr]) -> Iterator[tuple[str, float, int]]:
    """The numbers of seconds a test waits for at most, with where they stand."""
    count: dict[str, int] = {}
    for one in ast.walk(node):
        if not isinstance(one, ast.Call):
            continue
        name = dotted(one.func)
        given = [(word.arg, word.value) for word in one.keywords if word.arg in _WAITS]
        if last(name) in ("timeout", "wait_for") and one.args:
            given.append((last(name), one.args[-1]))
        for word, value in given:
            place = f"{name}({word})"
            count[place] = count.get(place, 0) + 1
            found = number(constants.get(value.id, value) if isinstance(value, ast.Name) else value)
            if found is not None:
                yield f"{place}#{count[place]}" if count[place] > 1 else place, found, one.lineno
