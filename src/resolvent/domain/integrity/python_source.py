"""Python source as a tree that is safe to walk, and expressions with their names put in."""

import ast
import warnings
from collections.abc import Callable, Iterator, Sequence

Function = ast.FunctionDef | ast.AsyncFunctionDef
_DEPTH = 60


def parsed(text: str) -> ast.Module | None:
    """The tree of a module; None for what does not parse, or is nested deeper than anyone writes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the compiler thinks of other people's escapes is their concern
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
    return tree if shallow(tree) and _can_be_written(tree) else None


def _can_be_written(tree: ast.Module) -> bool:
    # There are texts with expressions in them that parse and that no source can be made of again.
    try:
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                ast.unparse(node)
    except ValueError:
        return False
    return True


def shallow(tree: ast.AST) -> bool:
    """Whether a tree can be walked by functions that call themselves."""
    level: list[ast.AST] = [tree]
    for _ in range(_DEPTH):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return True
    return False


def dotted(node: ast.AST | None) -> str:
    """`a.b.c` for a name with attributes; a call in it counts as what it calls; empty for anything else."""
    parts: list[str] = []
    while node is not None:
        match node:
            case ast.Attribute():
                parts.append(node.attr)
                node = node.value
            case ast.Call():
                node = node.func
            case ast.Name():
                return ".".join([node.id, *reversed(parts)])
            case _:
                return ".".join(["", *reversed(parts)]) if parts else ""
    return ""


def last(name: str) -> str:
    """The part of a dotted name after its last dot."""
    return name.rpartition(".")[2]


def constant(node: ast.AST) -> bool:
    """Whether an expression is written out: a literal, or a container of literals."""
    return all(
        isinstance(
            one,
            ast.Constant | ast.Tuple | ast.List | ast.Set | ast.Dict | ast.UnaryOp | ast.unaryop | ast.expr_context,
        )
        for one in ast.walk(node)
    )


def number(node: ast.AST | None) -> float | None:
    """The value of a number as written."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = number(node.operand)
        return None if inner is None else -inner
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        try:
            return float(node.value)
        except OverflowError:
            return float("inf")
    return None


def truth(node: ast.expr) -> bool | None:
    """What a condition is known to be without running anything; None for most."""
    match node:
        case ast.Constant():
            return bool(node.value)
        case ast.UnaryOp(op=ast.Not()):
            inner = truth(node.operand)
            return None if inner is None else not inner
        case ast.BoolOp():
            return _joined(node)
        case ast.Tuple() | ast.List() | ast.Set():
            return bool(node.elts) if not any(isinstance(one, ast.Starred) for one in node.elts) else None
        case ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"):
            return False
        case ast.Compare(ops=[op], comparators=[right]):
            return _compared(node.left, op, right)
    return None


def _joined(node: ast.BoolOp) -> bool | None:
    known = [truth(one) for one in node.values]
    deciding = isinstance(node.op, ast.Or)
    if deciding in known:
        return deciding
    return None if None in known else not deciding


def _compared(left: ast.expr, op: ast.cmpop, right: ast.expr) -> bool | None:
    if not isinstance(op, ast.Eq | ast.NotEq | ast.Is | ast.IsNot):
        return None
    same = ast.dump(left) == ast.dump(right)
    if not same and not (constant(left) and constant(right)):
        return None
    return same == isinstance(op, ast.Eq | ast.Is)


def rewritten(node: ast.AST, other: Callable[[ast.AST], ast.AST | None]) -> ast.AST:
    """A copy of a tree with other parts wherever there are any; the tree itself stays as it is."""
    found = other(node)
    if found is not None:
        return found
    return type(node)(**{name: _rewritten(value, other) for name, value in ast.iter_fields(node)})


def _rewritten(value: object, other: Callable[[ast.AST], ast.AST | None]) -> object:
    if isinstance(value, list):
        return [_rewritten(one, other) for one in value]
    return rewritten(value, other) if isinstance(value, ast.AST) else value


def statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Every statement in here, at any depth, but not those of functions and classes defined in it."""
    waiting: list[ast.AST] = list(reversed(body))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.expr):
            waiting.extend(reversed(list(ast.iter_child_nodes(node))))
