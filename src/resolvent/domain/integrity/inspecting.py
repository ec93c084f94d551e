"""All rules over all files of a change."""

from collections.abc import Iterable, Sequence

from resolvent.domain.integrity import python_rules, token_rules
from resolvent.domain.integrity.altered import Altered, Hit, readable
from resolvent.domain.integrity.build_lines import is_build
from resolvent.domain.integrity.build_rules import build_hits
from resolvent.domain.integrity.cases import Case
from resolvent.domain.integrity.comparing import added, compared
from resolvent.domain.integrity.kinds import is_product, is_recorded, is_test, language
from resolvent.domain.integrity.shell import shell_cases, shell_hits
from resolvent.domain.integrity.token_cases import token_cases
from resolvent.domain.integrity.tokens import Source, source

_PER_RULE = 20
# Stands for a version that no rule looks into; it has no test and no line in it.
UNREADABLE = "\0"


def inspected(files: Sequence[Altered]) -> tuple[Hit, ...]:
    """Every place where a change makes tests or checks say less than before; none for an honest change."""
    changed = _changed(files)
    python, braces = _python(changed), _braces(changed)
    old, new = _cases(changed, python, braces)
    hits = [*compared(old, new), *python_rules.hits(python), *_unreadable(changed), *_recorded_only(changed)]
    hits += [hit for before, after in braces for hit in token_rules.newly(before, after)]
    hits += [hit for file in changed if language(file.path) == "shell" for hit in shell_hits(file)]
    hits += build_hits([file for file in changed if is_build(file.path)])
    return tuple(_limited(dict.fromkeys(hits)))


def tests_added(files: Sequence[Altered]) -> tuple[str, ...]:
    """The tests that are new, or hold more than before, and that can fail, as `path::name`."""
    changed = _changed(files)
    old, new = _cases(changed, _python(changed), _braces(changed))
    return tuple(f"{case.path}::{case.name}" for case in added(old, new))


def _changed(files: Sequence[Altered]) -> list[Altered]:
    """The files that differ; a version that is too large or no text counts as one that nobody can read."""
    return [
        file.model_copy(update={"old": _text(file.old), "new": _text(file.new)})
        for file in files
        if file.old != file.new
    ]


def _text(text: str | None) -> str | None:
    return text if text is None or readable(text) else UNREADABLE


def _python(files: Sequence[Altered]) -> list[python_rules.Parsed]:
    return python_rules.parse([file for file in files if language(file.path) == "python"])


def _braces(files: Sequence[Altered]) -> list[tuple[Source | None, Source | None]]:
    read = [file for file in files if language(file.path) in ("js", "go", "rust", "java")]
    return [(_source(file.path, file.old), _source(file.path, file.new)) for file in read]


def _source(path: str, text: str | None) -> Source | None:
    return None if text is None else source(path, text, language(path))


def _cases(
    files: Sequence[Altered],
    python: Sequence[python_rules.Parsed],
    braces: Sequence[tuple[Source | None, Source | None]],
) -> tuple[list[Case], list[Case]]:
    """All tests of all languages, before and after; what can no longer be read is a hit of its own."""
    old, new = python_rules.tests_of(python)
    for before, after in braces:
        old += token_cases(before) if before else []
        new += token_cases(after) if after else []
    for file in files:
        if language(file.path) == "shell" and is_test(file.path):
            old += shell_cases(file.path, file.old) if file.old else []
            new += shell_cases(file.path, file.new) if file.new else []
    lost = {file.path for file in files if file.new == UNREADABLE}
    return [case for case in old if case.path not in lost], [case for case in new if case.path not in lost]


def _unreadable(files: Sequence[Altered]) -> list[Hit]:
    text = "This test file was readable before and no longer is: it is too large, or no text."
    lost = [file for file in files if file.new == UNREADABLE and file.old not in (None, UNREADABLE)]
    return [
        Hit(rule="unparsable-test", path=file.path, line=1, text=text)
        for file in lost
        if is_test(file.path) and language(file.path) not in ("python", "")
    ]


def _recorded_only(files: Sequence[Altered]) -> list[Hit]:
    """Recorded results that changed while no code did: nothing but the measure moved."""
    if any(is_product(file.path) for file in files):
        return []
    arrived = {_bare(file.new) for file in files if file.old is None and file.new}
    return [
        Hit(
            rule="fixtures-only",
            path=file.path,
            line=1,
            text="What tests compare with or start from has changed, and no product code with it.",
        )
        for file in files
        if is_recorded(file.path) and file.old is not None and _bare(file.old) != _bare(file.new)
        if file.new is not None or _bare(file.old) not in arrived
    ]


def _bare(text: str | None) -> str:
    return "".join((text or "").split())


def _limited(hits: Iterable[Hit]) -> list[Hit]:
    """At most so many hits of one rule in one file: the rest would say the same again."""
    count: dict[tuple[str, str], int] = {}
    kept = []
    for hit in hits:
        count[hit.rule, hit.path] = count.get((hit.rule, hit.path), 0) + 1
        if count[hit.rule, hit.path] <= _PER_RULE:
            kept.append(hit)
    return kept
