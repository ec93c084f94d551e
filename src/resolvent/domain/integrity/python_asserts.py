"""What a Python assertion holds: of which subject, how strictly."""

import ast
from typing import NamedTuple

from resolvent.domain.integrity.python_source import constant, dotted, last, number, truth

_INVERSE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt,
}  # fmt: skip
_MIRROR: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE,
}  # fmt: skip
# Less of the value is looked at than the value itself.
_WRAPPERS = frozenset(("len", "sorted", "set", "frozenset", "bool", "round", "int", "type", "abs", "any", "bytes"))
_METHODS = frozenset(("lower", "upper", "strip", "lstrip", "rstrip", "casefold", "split", "splitlines", "keys"))
_LIKE = frozenset(("startswith", "endswith", "isinstance", "issubclass", "match", "search", "fullmatch", "all"))
_CLOSE = {"isclose": 1e-9, "allclose": 1e-5, "approx": 1e-6, "assert_allclose": 1e-7, "assert_almost_equal": 1.5e-7}
_SLACK = frozenset(("rel", "abs", "rel_tol", "abs_tol", "rtol", "atol", "delta", "tolerance"))


class Meaning(NamedTuple):
    """What one condition says."""

    kind: str
    subject: str
    expected: ast.expr | None = None
    strength: float = 3.0
    slack: float = 0.0
    # What the message of an expected error has to match.
    pattern: str = ""


def meanings(test: ast.expr) -> list[Meaning]:
    """What an asserted expression says; conditions that are joined with `and` each for itself."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return [one for value in test.values for one in meanings(value)]
    return [_meaning(test)]


def _meaning(test: ast.expr) -> Meaning:
    if truth(test) is True:
        return Meaning("always", ast.unparse(test), strength=0.0)
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=ast.Compare(ops=[op], left=left, comparators=[right])):
            return _comparison(left, _INVERSE[type(op)](), right)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return Meaning("not", ast.unparse(operand), strength=3.0)
        case ast.NamedExpr():
            return _meaning(test.value)
        case ast.Compare(ops=[op], left=left, comparators=[right]):
            return _comparison(left, op, right)
        case ast.BoolOp():
            first = _meaning(test.values[0])
            return Meaning("or", first.subject, test, 1.0 / len(test.values))
        case ast.Call():
            return _called(test)
    return Meaning("truthy", ast.unparse(test), strength=1.0)


def _comparison(left: ast.expr, op: ast.cmpop, right: ast.expr) -> Meaning:
    if constant(left) and not constant(right) and not isinstance(op, ast.In | ast.NotIn):
        left, right, op = right, left, _MIRROR.get(type(op), type(op))()
    if isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE):
        return _ordered(left, op, right)
    if isinstance(op, ast.In | ast.NotIn):
        held, looked = (left, right) if constant(left) else (right, left)
        return Meaning("in" if isinstance(op, ast.In) else "not in", ast.unparse(looked), held)
    negative = isinstance(op, ast.NotEq | ast.IsNot)
    if negative:
        return Meaning("is not", ast.unparse(left), right, 2.0)
    return equal(left, right)


def _ordered(left: ast.expr, op: ast.cmpop, right: ast.expr) -> Meaning:
    less = isinstance(op, ast.Lt | ast.LtE)
    strict = 0.1 if isinstance(op, ast.Lt | ast.Gt) else 0.0
    bound = number(right)
    if less and bound is not None and isinstance(left, ast.Call) and last(dotted(left.func)) == "abs" and left.args:
        inner = left.args[0]
        if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Sub):
            return Meaning("approx", ast.unparse(inner.left), inner.right, 5.0, bound)
    if isinstance(left, ast.Call) and last(dotted(left.func)) == "len" and bound == 0 and not strict and not less:
        return Meaning("always", ast.unparse(left), strength=0.0)
    return Meaning("less" if less else "greater", ast.unparse(left), right, 3.0 + strict)


def equal(left: ast.expr, right: ast.expr) -> Meaning:
    """Two values are the same, or as near as the assertion wants them."""
    for value, other in ((left, right), (right, left)):
        if isinstance(value, ast.Call) and last(dotted(value.func)) == "approx" and value.args:
            return Meaning("approx", ast.unparse(other), value.args[0], 5.0, _tolerance(value, "approx", 1))
    if ast.dump(left) == ast.dump(right):
        return Meaning("always", ast.unparse(left), strength=0.0)
    inner, layers = left, 0
    while layers < 5 and (deeper := _unwrapped(inner)) is not None:
        inner, layers = deeper, layers + 1
    kind = "equal" if not layers else "equal " + ast.unparse(left).replace(ast.unparse(inner), "·", 1)
    return Meaning(kind, ast.unparse(inner), right, 6.0 if not layers else 3.5)


def _unwrapped(node: ast.expr) -> ast.expr | None:
    if not isinstance(node, ast.Call):
        return None
    if isinstance(node.func, ast.Name) and node.func.id in _WRAPPERS and node.args:
        return node.args[0]
    if isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS:
        return node.func.value
    return None


def _called(call: ast.Call) -> Meaning:
    name = last(dotted(call.func))
    if name in ("isclose", "allclose") and len(call.args) >= 2:
        return Meaning("approx", ast.unparse(call.args[0]), call.args[1], 5.0, _tolerance(call, name, 2))
    if name == "isinstance" and len(call.args) == 2 and dotted(call.args[1]) == "object":
        return Meaning("always", ast.unparse(call), strength=0.0)
    if name in _LIKE:
        looked = call.func.value if isinstance(call.func, ast.Attribute) and not call.args[1:] else None
        subject = looked or (call.args[0] if call.args else call)
        return Meaning(f"like {name}", ast.unparse(subject), call.args[-1] if call.args else None, 2.5)
    if name in ("bool", "any") and call.args:
        return Meaning("truthy", ast.unparse(call.args[0]), strength=1.0)
    return Meaning("truthy", ast.unparse(call), strength=1.0)


def _tolerance(call: ast.Call, name: str, first: int) -> float:
    given = [number(word.value) for word in call.keywords if word.arg in _SLACK]
    given += [number(one) for one in call.args[first : first + 2]]
    places = [number(word.value) for word in call.keywords if word.arg in ("places", "decimal")]
    given += [10.0 ** -min(max(one, -300.0), 300.0) for one in places if one is not None]
    known = [one for one in given if one is not None]
    return max(known) if known else _CLOSE.get(name, 1e-7)


def stated(call: ast.Call) -> list[Meaning] | None:
    """What a call of an `assert…` method says; None when it is no assertion by its name."""
    name = last(dotted(call.func))
    args = call.args
    match name, len(args):
        case ("assertTrue" | "assert_" | "assertTruthy", n) if n >= 1:
            return meanings(args[0])
        case ("assertFalse", n) if n >= 1:
            return meanings(ast.UnaryOp(op=ast.Not(), operand=args[0]))
        case ("assertIsNone", n) if n >= 1:
            return [equal(args[0], ast.Constant(value=None))]
        case ("assertIsNotNone", n) if n >= 1:
            return [Meaning("is not", ast.unparse(args[0]), ast.Constant(value=None), 2.0)]
        case ("assertAlmostEqual" | "assert_allclose" | "assert_almost_equal" | "assertAlmostEquals", n) if n >= 2:
            left, right = (args[1], args[0]) if constant(args[0]) else (args[0], args[1])
            decimals = number(args[2]) if n >= 3 and name != "assert_allclose" else None
            slack = 10.0 ** -min(max(decimals, -300.0), 300.0) if decimals is not None else _tolerance(call, name, 9)
            return [Meaning("approx", ast.unparse(left), right, 5.0, slack)]
    if (op := _METHOD_OPS.get(name)) and len(args) >= 2:
        return [_comparison(args[0], op(), args[1])]
    return _by_name(call, name)


_METHOD_OPS: dict[str, type[ast.cmpop]] = {
    "assertEqual": ast.Eq, "assertEquals": ast.Eq, "assertIs": ast.Is, "assertNotEqual": ast.NotEq,
    "assertIsNot": ast.IsNot, "assertIn": ast.In, "assertNotIn": ast.NotIn, "assertGreater": ast.Gt,
    "assertGreaterEqual": ast.GtE, "assertLess": ast.Lt, "assertLessEqual": ast.LtE, "assertListEqual": ast.Eq,
    "assertDictEqual": ast.Eq, "assertTupleEqual": ast.Eq, "assertSetEqual": ast.Eq, "assertMultiLineEqual": ast.Eq,
    "assertSequenceEqual": ast.Eq, "assert_equal": ast.Eq, "assert_array_equal": ast.Eq,
}  # fmt: skip
_MOCKS = {
    "assert_called_once_with": 6.0, "assert_awaited_once_with": 6.0, "assert_called_with": 5.0, "assert_has_calls": 5.0,
    "assert_awaited_with": 5.0, "assert_any_call": 4.0, "assert_called_once": 3.0, "assert_awaited_once": 3.0,
    "assert_called": 2.0, "assert_awaited": 2.0,
}  # fmt: skip


def _by_name(call: ast.Call, name: str) -> list[Meaning] | None:
    if name in _MOCKS and isinstance(call.func, ast.Attribute):
        given = ast.Tuple(elts=[*call.args, *(word.value for word in call.keywords)], ctx=ast.Load())
        return [Meaning(name, ast.unparse(call.func.value), given, _MOCKS[name])]
    if name in ("assertIsInstance", "assertRegex", "assertCountEqual") and len(call.args) >= 2:
        return [Meaning(f"like {name}", ast.unparse(call.args[0]), call.args[1], 2.5)]
    if name.lower().startswith(("assert", "expect", "verify", "should", "ensure", "check_")):
        return [Meaning("call", ast.unparse(call), strength=3.0)]
    return None
