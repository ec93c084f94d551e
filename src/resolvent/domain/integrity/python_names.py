"""What the names in a Python test stand for."""

import ast
import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from resolvent.domain.integrity.python_source import Function, rewritten, shallow, statements

_VALUE_NODES = 200
_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Delete)


class Names(NamedTuple):
    """How often a function stores each name, which it loads, and a digest of all else it says of each."""

    stored: Counter[str]
    loaded: frozenset[str]
    contexts: Mapping[str, str]


class Filler:
    """Puts what is known of names into expressions, until a file has had its share of work."""

    def __init__(self, share: int = 300_000) -> None:
        self._left = share
        self._names: dict[int, Names] = {}

    def spend(self, nodes: int) -> bool:
        """Take that many nodes of work; False when the share is used up."""
        self._left -= nodes
        return self._left > 0

    def filled(self, node: ast.expr, known: Mapping[str, ast.expr]) -> ast.expr:
        """The expression with every known name replaced by its value."""
        names = [one.id for one in ast.walk(node) if isinstance(one, ast.Name) and one.id in known]
        if not names or not self.spend(sum(1 for _ in ast.walk(node)) + _VALUE_NODES * len(names)):
            return node
        filled = rewritten(node, lambda one: _value(one, known))
        return filled if isinstance(filled, ast.expr) else node

    def value(self, node: ast.expr, known: Mapping[str, ast.expr]) -> ast.expr | None:
        """The same for the value a name gets; None when it is too large to stand in for the name."""
        filled = self.filled(node, known)
        return filled if sum(1 for _ in ast.walk(filled)) <= _VALUE_NODES and shallow(filled) else None

    def names(self, function: Function) -> Names:
        """What a function does with names; looked up once."""
        if id(function) not in self._names:
            self._names[id(function)] = _names(function)
        return self._names[id(function)]


def _names(function: Function) -> Names:
    names = [node for node in ast.walk(function) if isinstance(node, ast.Name)]
    stored = Counter(node.id for node in names if isinstance(node.ctx, ast.Store))
    texts: dict[str, list[str]] = defaultdict(list)
    for one in statements(function.body):
        if not isinstance(one, _SIMPLE) or _stands_in(one, stored):
            continue
        text = ast.unparse(one)
        for name in dict.fromkeys(node.id for node in ast.walk(one) if isinstance(node, ast.Name)):
            texts[name].append(text)
    contexts = {name: hashlib.sha256("\n".join(said).encode()).hexdigest()[:12] for name, said in texts.items()}
    return Names(stored, frozenset(node.id for node in names if isinstance(node.ctx, ast.Load)), contexts)


def _stands_in(one: ast.stmt, stored: Counter[str]) -> bool:
    """Whether a statement only gives a name to a value, once."""
    target = one.targets[0] if isinstance(one, ast.Assign) and len(one.targets) == 1 else None
    target = one.target if isinstance(one, ast.AnnAssign) else target
    return isinstance(target, ast.Name) and stored[target.id] == 1


def _value(node: ast.AST, known: Mapping[str, ast.expr]) -> ast.AST | None:
    if isinstance(node, ast.JoinedStr):
        return node  # not every expression can be written inside of a text
    return known.get(node.id) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) else None
