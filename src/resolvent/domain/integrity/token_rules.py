"""What code in brace languages newly hides: silent handlers, replaced modules, checks that are told to look away."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from resolvent.domain.integrity.altered import Hit, shown
from resolvent.domain.integrity.kinds import is_test
from resolvent.domain.integrity.tokens import Source

_MARKS = (
    "eslint-disable", "@ts-ignore", "@ts-nocheck", "@ts-expect-error", "istanbul ignore", "c8 ignore", "v8 ignore",
    "nolint", "nosonar", "noinspection", "biome-ignore", "tslint:disable", "jshint ignore", "coverage:ignore",
)  # fmt: skip


class Found(NamedTuple):
    """One place that a rule speaks of; `what` is equal for the same thing elsewhere."""

    rule: str
    what: str
    line: int
    text: str


def newly(old: Source | None, new: Source | None) -> list[Hit]:
    """Hits for what the new version has more of than the old one."""
    if new is None:
        return []
    known = Counter((one.rule, one.what) for one in _all(old)) if old else Counter[tuple[str, str]]()
    hits = []
    for one in _all(new):
        known[one.rule, one.what] -= 1
        # Replacing a module, or skipping, is the new test's own affair, but not in a file that was there before.
        own = old is None and one.rule in ("patched-subject", "skipped-test")
        if known[one.rule, one.what] < 0 and not own:
            hits.append(Hit(rule=one.rule, path=new.path, line=one.line, text=one.text))
    return hits


def _all(code: Source) -> Iterator[Found]:
    yield from _silent(code)
    if is_test(code.path):
        yield from _only(code)
        yield from _mocked(code)
        yield from _set_off(code)
    else:
        yield from _looking_away(code)


def _silent(code: Source) -> Iterator[Found]:
    for at, token in enumerate(code.tokens):
        if token.text == "catch" and code.language in ("js", "java"):
            body = at + 1
            caught = ""
            if code.at(body) == "(" and body in code.closing:
                caught = code.text(body + 1, code.closing[body])
                body = code.closing[body] + 1
            if code.at(at - 1) == "." and "=>" in caught and caught.rpartition("=>")[2].strip() in _NOTHING:
                yield _swallow(code, at, ".catch")
            elif code.at(body) == "{" and body in code.closing and _does_nothing(code, body, caught):
                yield _swallow(code, at, "catch")
        elif token.text == "recover" and code.language == "go" and code.at(at - 1) in ("{", "=", ";"):
            yield _swallow(code, at, "recover")
        elif token.text == "catch_unwind" and code.language == "rust":
            yield _swallow(code, at, "catch_unwind")


_NOTHING = frozenset(("{ }", "null", "undefined", "( { } )", "false", "[ ]", "0", '""', "{ return }"))


def _does_nothing(code: Source, body: int, caught: str) -> bool:
    words = caught.split()
    # In Java a narrow type is a decision; in JavaScript there are no types to decide by.
    if code.language == "java" and not {"Exception", "Throwable", "RuntimeException", "Error"} & set(words):
        return False
    name = words[0] if words and (code.language == "js" or ":" in words) else words[-1] if words else ""
    inside = range(body + 1, code.closing[body])
    return not any(code.at(index) in ("(", "throw", name) for index in inside)


def _swallow(code: Source, at: int, what: str) -> Found:
    text = f"{shown(code.written(at))} is new and lets every error pass in silence."
    return Found("swallowed-exception", what, code.tokens[at].line, text)


def _only(code: Source) -> Iterator[Found]:
    if code.language != "js":
        return
    for at, token in enumerate(code.tokens):
        narrowed = token.text == "only" and code.at(at - 1) == "." and code.at(at - 2) in _RUNNERS
        if narrowed or (token.text in ("fit", "fdescribe", "ftest") and code.at(at + 1) == "("):
            text = f"{shown(code.written(at))} keeps every other test of the file from being run."
            yield Found("narrowed-tests", "only", token.line, text)


_RUNNERS = frozenset(("it", "test", "describe", "context", "suite", "specify"))


def _mocked(code: Source) -> Iterator[Found]:
    for at, token in enumerate(code.tokens):
        if token.text in ("mock", "doMock", "unstable_mockModule") and code.at(at - 2) in ("jest", "vi", "vitest"):
            target = code.at(at + 2).strip('"')
            if target.startswith((".", "@/", "~/", "src/")):
                text = f"{shown(target)} is now replaced in the whole file, so the real one is not tested."
                yield Found("patched-subject", target, token.line, text)


_SET_UPS = frozenset(("beforeEach", "before", "beforeAll", "setup", "suiteSetup", "BeforeEach", "BeforeAll", "Before"))
_OFF = frozenset(("skip", "pending", "assumeTrue", "assumeFalse", "assumeThat", "abort"))


def _set_off(code: Source) -> Iterator[Found]:
    """Set-ups after which tests are not run, and a Go package whose tests its main function leaves out."""
    for at, token in enumerate(code.tokens):
        if code.language == "go" and token.text == "TestMain" and code.at(at - 1) == "func":
            inside = _block(code, at + 1)
            if not any(code.at(one) == "Run" and code.at(one + 1) == "(" for one in inside):
                text = f"{shown(code.written(at))} ends without running the tests of its package."
                yield Found("altered-collection", "TestMain", token.line, text)
        elif token.text in _SET_UPS and (code.at(at - 1) == "@") == (code.language == "java"):
            for one in _block(code, at + 1) if code.language == "java" else code.within(at + 1):
                if code.at(one) in _OFF and code.at(one + 1) == "(":
                    text = f"{shown(code.written(one))} in a set-up skips every test after it."
                    yield Found("skipped-test", f"{token.text} {code.at(one)}", code.tokens[one].line, text)


def _block(code: Source, at: int) -> range:
    """What stands in the first braces from here on."""
    brace = next((one for one in range(at, min(at + 60, len(code.tokens))) if code.at(one) == "{"), at)
    return code.within(brace)


def _looking_away(code: Source) -> Iterator[Found]:
    for comment in code.comments:
        small = comment.text[:500].lower()
        for mark in _MARKS:
            if mark in small:
                text = f"{shown(comment.text)} is new, so a check no longer looks there."
                yield Found("relaxed-lint", mark, comment.line, text)
    for at, token in enumerate(code.tokens):
        allowed = (
            code.language == "rust" and token.text == "allow" and code.at(at - 1) == "[" and code.at(at + 1) == "("
        )
        if allowed or (code.language == "java" and token.text in ("SuppressWarnings", "Suppress")):
            text = f"{shown(code.written(at))} is new, so a check no longer looks there."
            yield Found("relaxed-lint", token.text, token.line, text)
