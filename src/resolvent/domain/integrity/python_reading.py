"""What the body of a Python test holds, with loops, rows, local names and the functions it calls put in."""

import ast
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from resolvent.domain.integrity.cases import Assertion, Skip
from resolvent.domain.integrity.python_asserts import Meaning, meanings, stated
from resolvent.domain.integrity.python_names import Filler, Names
from resolvent.domain.integrity.python_parts import ALL_ERRORS, bound, catches_failures, shape
from resolvent.domain.integrity.python_source import Function, constant, dotted, last, truth

Known = Mapping[str, ast.expr]
Guards = tuple[str, ...]
_CALLS = 4
_SKIPS = frozenset(("skip", "skipTest", "xfail", "importorskip", "exit"))


class Here(NamedTuple):
    """Where a walk is: what it knows of names, the conditions it is under, and whether anything follows."""

    known: Known
    guards: Guards
    over: bool = False


class Reading:
    """One walk through a test; what it found is in `assertions`, `skips` and `alive`."""

    def __init__(self, path: str, *, functions: Callable[[str], tuple[str, Function] | None], filler: Filler) -> None:
        self.assertions: list[Assertion] = []
        self.skips: list[Skip] = []
        self.alive = False
        self._path = path
        self._functions = functions
        self._filler = filler
        self._names = Names(Counter(), frozenset(), {})
        self._within: list[str] = []

    def read(self, function: Function, constants: Known, row: Known) -> None:
        """Walk through the whole test, with the constants of its module and one row of its parameters."""
        self._names = self._filler.names(function)
        own = {one.arg for one in ast.walk(function.args) if isinstance(one, ast.arg)} | set(self._names.stored)
        known = {name: value for name, value in constants.items() if name not in own} | dict(row)
        self._block(function.body, known, ())

    def _block(self, body: Sequence[ast.stmt], known: Known, guards: Guards) -> bool:
        """Read statements in order; True when nothing after them is reached."""
        here = Here(known, guards)
        for one in body:
            if not self._filler.spend(1):
                here = here._replace(known={})
            here = self._step(one, here)
            if here.over:
                return True
        return False

    def _step(self, one: ast.stmt, here: Here) -> Here:
        match one:
            case ast.Assert():
                self._hold(self._said(one.test, here.known), one, here.guards)
            case ast.Return() | ast.Continue() | ast.Break():
                return here._replace(over=True)
            case ast.Raise():
                self._raise(one, here.guards)
                return here._replace(over=True)
            case ast.If():
                return self._if(one, here.known, here.guards)
            case ast.Assign() | ast.AnnAssign() | ast.Expr() | ast.AugAssign():
                known = self._simple(one, here.known, here.guards)
                return Here(known, here.guards, isinstance(one, ast.Expr) and _ends(one.value))
            case ast.Pass() | ast.Import() | ast.ImportFrom() | ast.Global() | ast.Nonlocal():
                pass
            case _:
                self._nested(one, here.known, here.guards)
        return here

    def _nested(self, one: ast.stmt, known: Known, guards: Guards) -> None:
        match one:
            case ast.For() | ast.AsyncFor():
                self._for(one, known, guards)
            case ast.While():
                if truth(one.test) is not False:
                    self._block(one.body, known, guards)
            case ast.With() | ast.AsyncWith():
                self._with(one, known, guards)
            case ast.Try() | ast.TryStar():
                self._try(one, known, guards)
            case ast.Match():
                for way in one.cases:
                    self._block(way.body, known, (*guards, ast.unparse(way.pattern)))
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                if one.name in self._names.loaded:
                    self._block(one.body, known, guards)
            case _:
                self.alive = True

    def _said(self, test: ast.expr, known: Known) -> list[Meaning]:
        """What an assertion says with its names put in; a name that got a constant makes no tautology."""
        full_test = self._filler.filled(test, known)
        plain = meanings(test)
        filled = meanings(full_test) if full_test is not test else plain
        if len(plain) != len(filled):
            return filled
        return [
            one if one.strength == 0 or not full.strength else full for one, full in zip(plain, filled, strict=True)
        ]

    def _hold(self, said: Sequence[Meaning], at: ast.stmt, guards: Guards) -> None:
        self.alive = True
        names = dict.fromkeys(node.id for node in ast.walk(at) if isinstance(node, ast.Name))
        context = "".join(self._names.contexts.get(name, "")[:12] for name in names)
        for one in said:
            expected = ast.unparse(one.expected) if one.expected is not None else ""
            expected += f" matching {one.pattern}" if one.pattern else ""
            self.assertions.append(
                Assertion(
                    kind=one.kind,
                    subject=one.subject,
                    expected=expected,
                    strength=one.strength,
                    slack=one.slack,
                    literal=one.expected is not None and constant(one.expected),
                    shape=shape(one.expected),
                    guards=guards,
                    context=context,
                    path=self._path,
                    line=at.lineno,
                    source=ast.unparse(at).partition("\n")[0],
                )
            )

    def _if(self, one: ast.If, known: Known, guards: Guards) -> Here:
        test = self._filler.filled(one.test, known)
        decided = truth(test)
        if decided is not None:
            return Here(known, guards, self._block(one.body if decided else one.orelse, known, guards))
        condition = ast.unparse(test)
        over = self._block(one.body, known, (*guards, condition))
        otherwise = bool(one.orelse) and self._block(one.orelse, known, (*guards, f"not ({condition})"))
        # Whatever follows a way out is only reached by the other way, unless that way out is a failure.
        if over and not otherwise and not any(isinstance(last_one, ast.Raise) for last_one in one.body[-1:]):
            guards = (*guards, f"not ({condition})")
        changed = {node.id for node in ast.walk(one) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        kept = {name: value for name, value in known.items() if name not in changed}
        return Here(kept, guards, over and otherwise)

    def _simple(
        self, one: ast.Assign | ast.AnnAssign | ast.Expr | ast.AugAssign, known: Known, guards: Guards
    ) -> Known:
        value = one.value
        if value is None or (isinstance(one, ast.Expr) and isinstance(value, ast.Constant)):
            return known
        self.alive = True
        call = value.value if isinstance(value, ast.Await) else value
        if isinstance(call, ast.Call):
            self._call(call, one, known, guards)
        targets = one.targets if isinstance(one, ast.Assign) else [] if isinstance(one, ast.Expr) else [one.target]
        names = {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
        if not names:
            return known
        kept = {name: old for name, old in known.items() if name not in names}
        target = targets[0] if len(targets) == 1 else None
        if isinstance(target, ast.Name) and self._names.stored[target.id] == 1 and not isinstance(one, ast.AugAssign):
            filled = self._filler.value(value, known)
            return kept if filled is None else {**kept, target.id: filled}
        return kept

    def _call(self, call: ast.Call, at: ast.stmt, known: Known, guards: Guards) -> None:
        name = dotted(call.func)
        if last(name) in _SKIPS and name.partition(".")[0] in ("pytest", "self", "skip", "xfail", "unittest"):
            self.skips.append(Skip(f"{name}()", " and ".join(guards), at.lineno))
        elif last(name) == "fail" and name.partition(".")[0] in ("pytest", "self", "fail"):
            self._fail(at, guards)
        elif found := self._functions(name):
            self._follow(found, call, known, guards)
        else:
            filled = self._filler.filled(call, known)
            said = stated(filled) if isinstance(filled, ast.Call) else None
            if said is None and name in ("pytest.raises", "self.assertRaises", "pytest.warns"):
                said = [Meaning("call", ast.unparse(filled))]
            if said:
                self._hold(said, at, guards)

    def _follow(self, found: tuple[str, Function], call: ast.Call, known: Known, guards: Guards) -> None:
        path, function = found
        if len(self._within) >= _CALLS or function.name in self._within or not self._filler.spend(10):
            return
        names = [one.arg for one in (*function.args.posonlyargs, *function.args.args) if one.arg not in ("self", "cls")]
        given = dict(zip(names, call.args, strict=False))
        given |= {word.arg: word.value for word in call.keywords if word.arg}
        values = {name: self._filler.value(value, known) for name, value in given.items()}
        outer = self._path, self._names
        # What is said around an assertion is said in the test, not in the function it stands in.
        self._path, self._names = path, self._filler.names(function)._replace(contexts=self._names.contexts)
        self._within.append(function.name)
        self._block(function.body, {name: value for name, value in values.items() if value is not None}, guards)
        self._within.pop()
        self._path, self._names = outer

    def _fail(self, at: ast.stmt, guards: Guards) -> None:
        meaning = Meaning("fails", guards[-1] if guards else "always", strength=3.0)
        self._hold([meaning], at, guards[:-1])

    def _raise(self, one: ast.Raise, guards: Guards) -> None:
        name = last(dotted(one.exc))
        if name == "SkipTest":
            self.skips.append(Skip("raise SkipTest", " and ".join(guards), one.lineno))
        elif name in ("AssertionError", "Failed"):
            self._fail(one, guards)
        else:
            self.alive = True

    def _for(self, one: ast.For | ast.AsyncFor, known: Known, guards: Guards) -> None:
        over = self._filler.filled(one.iter, known)
        targets = {node.id for node in ast.walk(one.target) if isinstance(node, ast.Name)}
        kept = {name: value for name, value in known.items() if name not in targets}
        if isinstance(over, ast.List | ast.Tuple | ast.Set) and self._filler.spend(len(over.elts)):
            for row in over.elts:
                self._block(one.body, {**kept, **bound(one.target, row)}, guards)
        else:
            self._block(one.body, kept, guards)
        self._block(one.orelse, kept, guards)

    def _with(self, one: ast.With | ast.AsyncWith, known: Known, guards: Guards) -> None:
        for item in one.items:
            call = item.context_expr
            name = last(dotted(call))
            if name == "suppress" and isinstance(call, ast.Call):
                if ALL_ERRORS & {last(dotted(arg)) for arg in call.args}:
                    return
            elif isinstance(call, ast.Call) and name in ("raises", "assertRaises", "assertRaisesRegex", "warns"):
                self._hold([self._raised(call, one, known)], one, guards)
        self._block(one.body, known, guards)

    def _raised(self, call: ast.Call, one: ast.With | ast.AsyncWith, known: Known) -> Meaning:
        tried = [self._filler.filled(part.value, known) for part in one.body if isinstance(part, ast.Expr | ast.Assign)]
        subject = "; ".join(ast.unparse(part) for part in tried) or "\n".join(ast.unparse(part) for part in one.body)
        error = call.args[0] if call.args else ast.Constant(value=None)
        match = next((word.value for word in call.keywords if word.arg == "match"), None)
        match = match or (call.args[1] if len(call.args) > 1 else None)
        return Meaning("raises", subject, error, 6.0, pattern=ast.unparse(match) if match else "")

    def _try(self, one: ast.Try | ast.TryStar, known: Known, guards: Guards) -> None:
        if not any(catches_failures(handler) for handler in one.handlers):
            self._block(one.body, known, guards)
        for handler in one.handlers:
            caught = ast.unparse(handler.type) if handler.type else "any error"
            self._block(handler.body, known, (*guards, f"except {caught}"))
        self._block(one.orelse, known, guards)
        self._block(one.finalbody, known, guards)


def _ends(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and last(dotted(value.func)) in ("skip", "skipTest", "xfail", "fail")
