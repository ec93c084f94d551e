"""The tests of Python files: which there are, whether they are run, and what they hold."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from resolvent.domain.integrity.cases import Case, Skip
from resolvent.domain.integrity.kinds import collected_by_name
from resolvent.domain.integrity.python_names import Filler
from resolvent.domain.integrity.python_parts import limits, marked, rows
from resolvent.domain.integrity.python_reading import Reading
from resolvent.domain.integrity.python_source import Function, dotted, last, statements, truth


class Module(NamedTuple):
    """A Python file that parsed."""

    path: str
    tree: ast.Module

    @property
    def stem(self) -> str:
        """The name other files import it by."""
        return self.path.rpartition("/")[2].removesuffix(".py")


class _Found(NamedTuple):
    name: str
    node: Function
    owner: ast.ClassDef | None
    skips: tuple[Skip, ...]
    collected: bool


def python_cases(modules: Sequence[Module]) -> list[Case]:
    """Every test in these files; functions of one file are known in all."""
    functions: dict[str, tuple[str, Function]] = {}
    for module in modules:
        for name, node in _helpers(module.tree.body):
            functions.setdefault(name, (module.path, node))
            functions[f"{module.stem}.{name}"] = (module.path, node)
    return [case for module in modules for case in _cases(module, functions)]


def _helpers(body: Sequence[ast.stmt]) -> Iterator[tuple[str, Function]]:
    for node in body:
        if isinstance(node, Function) and not node.name.startswith("test") and not _is_fixture(node):
            yield node.name, node


def _is_fixture(node: Function) -> bool:
    return any(last(dotted(one)) == "fixture" for one in node.decorator_list)


def _cases(module: Module, functions: Mapping[str, tuple[str, Function]]) -> list[Case]:
    filler = Filler()
    try:
        constants = _constants(module.tree.body, filler)
        own = {**functions, **{name: (module.path, node) for name, node in _helpers(module.tree.body)}}
        found = _found(module.tree.body, prefix="", owner=None, skips=_marks(module.tree.body), collected=True)
        cases = [_case(module.path, one, constants=constants, functions=own, filler=filler) for one in found]
    except RecursionError:
        return []  # with its names put in it is deeper than anything that can be walked
    by_name = collected_by_name(module.path)
    pairs = zip(cases, found, strict=True)
    return [case._replace(collected=one.collected and by_name) for case, one in pairs]


def _constants(body: Sequence[ast.stmt], filler: Filler) -> dict[str, ast.expr]:
    known: dict[str, ast.expr] = {}
    for one in body:
        target = (
            one.targets[0] if isinstance(one, ast.Assign) else one.target if isinstance(one, ast.AnnAssign) else None
        )
        value = one.value if isinstance(one, ast.Assign | ast.AnnAssign) else None
        if isinstance(target, ast.Name) and value is not None:
            known.pop(target.id, None)
            if (filled := filler.value(value, known)) is not None:
                known[target.id] = filled
    return known


def _found(
    body: Sequence[ast.stmt], *, prefix: str, owner: ast.ClassDef | None, skips: tuple[Skip, ...], collected: bool
) -> list[_Found]:
    """The tests of a module or class; a later definition of a name takes the place of an earlier one."""
    there: dict[str, list[_Found]] = {}
    for one in body:
        match one:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                name = prefix + one.name
                there.pop(name, None)
                if one.name.startswith("test") and not _is_fixture(one):
                    there[name] = [_Found(name, one, owner, (*skips, *_decorated(one)), collected)]
            case ast.ClassDef():
                there[prefix + one.name] = _in_class(one, prefix=prefix, skips=skips, collected=collected)
            case ast.If():
                for way, under in _ways(one):
                    inner = _found(way, prefix=prefix, owner=owner, skips=(*skips, *under), collected=collected)
                    there.update({found.name: [found] for found in inner})
            case ast.Try() | ast.With():
                inner = _found(one.body, prefix=prefix, owner=owner, skips=skips, collected=collected)
                there.update({found.name: [found] for found in inner})
            case ast.Assign() | ast.Delete():
                for target in one.targets:
                    there.pop(prefix + dotted(target), None)
    return [found for group in there.values() for found in group]


def _ways(one: ast.If) -> Iterator[tuple[Sequence[ast.stmt], list[Skip]]]:
    for way, condition in ((one.body, one.test), (one.orelse, ast.UnaryOp(op=ast.Not(), operand=one.test))):
        known = truth(condition)
        if known is not False:
            yield way, [] if known else [Skip("if", ast.unparse(condition), one.lineno)]


def _in_class(node: ast.ClassDef, *, prefix: str, skips: tuple[Skip, ...], collected: bool) -> list[_Found]:
    bases = [last(dotted(one)) for one in node.bases]
    runs = node.name.startswith("Test") or node.name.endswith(("Test", "Tests", "TestCase"))
    runs = runs or any("Test" in base for base in bases)
    made = any(isinstance(one, Function) and one.name == "__init__" for one in node.body)
    off = any(
        isinstance(one, ast.Assign) and dotted(one.targets[0]) == "__test__" and truth(one.value) is False
        for one in node.body
    )
    inner = (*skips, *_decorated(node), *_marks(node.body))
    taken = collected and runs and not off and (not made or any("TestCase" in base for base in bases))
    return _found(node.body, prefix=f"{prefix}{node.name}.", owner=node, skips=inner, collected=taken)


def _decorated(node: Function | ast.ClassDef) -> list[Skip]:
    return [skip for one in node.decorator_list for skip in marked(one)]


def _marks(body: Sequence[ast.stmt]) -> tuple[Skip, ...]:
    """Skips for everything in a module or class: its marks, and calls that are made when it is loaded."""
    found: list[Skip] = []
    for one in statements(body):
        if isinstance(one, ast.Assign) and dotted(one.targets[0]) == "pytestmark":
            marks = one.value.elts if isinstance(one.value, ast.List | ast.Tuple) else [one.value]
            found += [skip for mark in marks for skip in marked(mark)]
        value = one.value if isinstance(one, ast.Expr | ast.Assign) else None
        called = dotted(value) if isinstance(value, ast.Call) else ""
        if called in ("pytest.skip", "pytest.importorskip"):
            condition = ast.unparse(value) if last(called) == "importorskip" and value else ""
            inside = one not in body
            found.append(Skip(called, condition or ("a condition of the module" if inside else ""), one.lineno))
        if isinstance(one, ast.Raise) and last(dotted(one.exc)) == "SkipTest":
            found.append(Skip("raise SkipTest", "" if one in body else "a condition of the module", one.lineno))
    return tuple(found)


def _case(
    path: str,
    found: _Found,
    *,
    constants: Mapping[str, ast.expr],
    functions: Mapping[str, tuple[str, Function]],
    filler: Filler,
) -> Case:
    methods = {one.name: one for one in found.owner.body if isinstance(one, Function)} if found.owner else {}

    def known(name: str) -> tuple[str, Function] | None:
        start, _, rest = name.partition(".")
        if start in ("self", "cls"):
            return (path, methods[rest]) if rest in methods else None
        return functions.get(name)

    reading = Reading(path, functions=known, filler=filler)
    marks = [*(found.owner.decorator_list if found.owner else ()), *found.node.decorator_list]
    listed = list(rows(marks, constants, filler))
    skips = list(found.skips)
    for row in listed:
        # A row that is skipped holds nothing.
        if row.skips:
            skips += [Skip(skip.what, f"row {ast.unparse(row.value)}", skip.line) for skip in row.skips]
        else:
            reading.read(found.node, constants, row.known)
    if not listed:
        reading.read(found.node, constants, {})
    body = ast.unparse(ast.Module(body=found.node.body, type_ignores=[])) if reading.alive else ""
    return Case(
        path=path,
        name=found.name,
        line=found.node.lineno,
        assertions=tuple(reading.assertions),
        skips=tuple(dict.fromkeys([*skips, *reading.skips])),
        body=body,
        limits=tuple(limits(found.node, constants)),
    )
