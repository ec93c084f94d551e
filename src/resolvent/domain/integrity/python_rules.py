"""The rules for Python files: tests by their tree, product code by what it newly hides."""

import ast
import io
import tokenize
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from resolvent.domain.integrity import python_faults as faults
from resolvent.domain.integrity.altered import Altered, Hit, readable, shown
from resolvent.domain.integrity.cases import Case
from resolvent.domain.integrity.kinds import is_test
from resolvent.domain.integrity.python_cases import Module, python_cases
from resolvent.domain.integrity.python_lines import line_cases
from resolvent.domain.integrity.python_setups import narrowed, newly_skipping
from resolvent.domain.integrity.python_source import parsed

_MARKS = (
    "type: ignore", "noqa", "pragma: no cover", "pylint: disable", "pyright: ignore", "mypy: ignore-errors", "nosec",
    "mypy: disable-error-code", "pyre-ignore", "pragma: no branch",
)  # fmt: skip


class Parsed(NamedTuple):
    """A Python file with the trees of both versions; None for what is not there or does not parse."""

    file: Altered
    old: ast.Module | None
    new: ast.Module | None


def parse(files: Sequence[Altered]) -> list[Parsed]:
    """Both versions of every file as trees."""
    return [Parsed(file, _tree(file.old), _tree(file.new)) for file in files]


def _tree(text: str | None) -> ast.Module | None:
    return parsed(text) if text is not None and readable(text) else None


def tests_of(files: Sequence[Parsed]) -> tuple[list[Case], list[Case]]:
    """The tests of all Python test files, before and after."""
    tests = [one for one in files if is_test(one.file.path)]
    # What no longer parses is a hit of its own, and no word on what it holds; what never did is read by its lines.
    broken = {one.file.path for one in tests if one.file.new is not None and one.new is None}
    strange = [one for one in tests if one.file.old is not None and one.old is None]
    known = [one for one in tests if one not in strange]
    old = python_cases([Module(one.file.path, one.old) for one in known if one.old and one.file.path not in broken])
    new = python_cases([Module(one.file.path, one.new) for one in known if one.new])
    for one in strange:
        old += line_cases(one.file.path, one.file.old or "")
        new += line_cases(one.file.path, one.file.new or "")
    return old, new


def hits(files: Sequence[Parsed]) -> list[Hit]:
    """Hits that need no comparison of tests."""
    found = [hit for one in files for hit in (*_unparsable(one), *_collection(one), *_marks(one))]
    for one in files:
        if is_test(one.file.path) and one.new is not None:
            found += [*newly_skipping(one.file.path, one.old, one.new), *narrowed(one.file.path, one.old, one.new)]
    return found + _swallowed(files) + _patched(files)


def _unparsable(one: Parsed) -> list[Hit]:
    if not is_test(one.file.path) or one.old is None or one.file.new is None or one.new is not None:
        return []
    text = "This test file was readable before and no longer is, so nothing in it can be compared or run."
    return [Hit(rule="unparsable-test", path=one.file.path, line=1, text=text)]


def _collection(one: Parsed) -> list[Hit]:
    if not is_test(one.file.path) or one.new is None:
        return []
    before = faults.hooks(one.old) if one.old else {}
    return [
        Hit(
            rule="altered-collection",
            path=one.file.path,
            line=line,
            text=f"{shown(name)} decides which tests are run or how they count, and it is new or changed.",
        )
        for name, (text, line) in faults.hooks(one.new).items()
        if name not in before or before[name][0] != text
    ]


def _swallowed(files: Sequence[Parsed]) -> list[Hit]:
    sides = [
        (
            one.file.path,
            faults.swallows(one.old, in_tests=is_test(one.file.path)) if one.old else [],
            faults.swallows(one.new, in_tests=is_test(one.file.path)) if one.new else [],
        )
        for one in files
    ]
    gone = Counter((one.caught, one.around) for _, old, _ in sides for one in old)
    gone.subtract(Counter((one.caught, one.around) for _, _, new in sides for one in new))
    return [hit for path, old, new in sides for hit in faults.newly_swallowed(path, old, new, gone)]


def _patched(files: Sequence[Parsed]) -> list[Hit]:
    ours = faults.roots(one.file.path for one in files if not is_test(one.file.path))
    found = []
    for one in files:
        if not is_test(one.file.path) or one.new is None:
            continue
        shared = one.file.path.rpartition("/")[2] == "conftest.py"
        if one.old is None and not shared:
            continue
        before = Counter((patch.where, patch.target) for patch in (faults.patches(one.old, ours) if one.old else ()))
        there = {where for where, _ in faults.scopes(one.old)} if one.old else set()
        always = faults.fixtures_for_all(one.new)
        for patch in faults.patches(one.new, ours):
            before[patch.where, patch.target] -= 1
            if before[patch.where, patch.target] < 0 and (patch.where in there or patch.where in always):
                where = shown(patch.where) if patch.where else "the whole file"
                text = f"{shown(patch.target)} is now replaced in {where}, so the real one is not tested."
                found.append(Hit(rule="patched-subject", path=one.file.path, line=patch.line, text=text))
    return found


def _marks(one: Parsed) -> list[Hit]:
    if is_test(one.file.path) or one.file.new is None or not readable(one.file.new):
        return []
    before = Counter(mark for mark, _ in _comments(one.file.old or ""))
    found = []
    known = {line.strip() for line in (one.file.old or "").splitlines()}
    lines = one.file.new.splitlines()
    for mark, line in _comments(one.file.new):
        source = lines[line - 1].strip() if line <= len(lines) else ""
        exported = one.file.path.endswith("__init__.py") and mark == "noqa"
        if source in known or exported:
            before[mark] -= 1
            continue
        before[mark] -= 1
        if before[mark] < 0:
            text = f"{shown('# ' + mark)} is new on {shown(source)}, so a check no longer looks there."
            found.append(Hit(rule="relaxed-lint", path=one.file.path, line=line, text=text))
    return found


def _comments(text: str) -> list[tuple[str, int]]:
    found = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                said = " ".join(token.string.lstrip("#").lower().split())
                found += [(mark, token.start[0]) for mark in _MARKS if mark in said]
    except (tokenize.TokenError, SyntaxError, ValueError):
        return found
    return found
