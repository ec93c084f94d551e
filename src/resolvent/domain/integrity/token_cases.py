"""The tests of brace languages: which there are, and whether they are run."""

from collections.abc import Iterator
from typing import NamedTuple

from resolvent.domain.integrity.cases import Assertion, Case, Skip
from resolvent.domain.integrity.kinds import is_test
from resolvent.domain.integrity.token_asserts import parts
from resolvent.domain.integrity.token_reading import Reading, row
from resolvent.domain.integrity.tokens import Source

_JS_TESTS = frozenset(("it", "test", "specify", "xit", "xtest", "xspecify", "fit", "ftest"))
_JS_GROUPS = frozenset(("describe", "context", "suite", "xdescribe", "xcontext", "fdescribe", "fcontext"))
_JS_OFF = frozenset(("skip", "todo", "failing", "fails", "skipIf", "runIf", "fixme"))
_JAVA_OFF = frozenset(("Disabled", "Ignore", "DisabledIf", "DisabledOnOs", "EnabledIf", "EnabledOnOs", "Ignored"))
_JAVA_ROWS = frozenset(("CsvSource", "ValueSource", "CsvFileSource"))


class _Span(NamedTuple):
    name: str
    at: int
    start: int
    end: int
    skips: tuple[Skip, ...] = ()
    rows: tuple[Assertion, ...] = ()


def token_cases(code: Source) -> list[Case]:
    """Every test in a file."""
    spans = {"js": _js, "go": _go, "rust": _marked, "java": _marked}.get(code.language)
    whole = _whole(code)
    return [_case(code, span, whole) for span in spans(code)] if spans else []


def _whole(code: Source) -> tuple[Skip, ...]:
    """Skips of the whole file that stand in its head."""
    builds = [one for one in code.comments if one.text.startswith(("//go:build", "// +build"))]
    return tuple(Skip("go:build", one.text.partition(" ")[2], one.line) for one in builds)


def _case(code: Source, span: _Span, whole: tuple[Skip, ...]) -> Case:
    held = Reading(code, span.start, span.end).read()
    return Case(
        path=code.path,
        name=span.name,
        line=code.tokens[span.at].line,
        assertions=(*span.rows, *held.assertions),
        skips=(*whole, *span.skips, *held.skips),
        body=code.text(span.start, span.end) if span.end > span.start else "",
    )


def _js(code: Source) -> Iterator[_Span]:
    groups: list[tuple[int, str, tuple[Skip, ...]]] = []
    at = 0
    while at < len(code.tokens):
        while groups and groups[-1][0] <= at:
            groups.pop()
        word = code.at(at)
        known = word in _JS_TESTS or word in _JS_GROUPS
        opened = _js_call(code, at) if known and code.at(at - 1) not in (".", "function") else None
        if opened is None:
            at += 1
            continue
        opening, words, rows = opened
        name = code.at(opening + 1).strip('"')
        line = code.tokens[at].line
        off = tuple(Skip(f".{one}", "", line) for one in words if one in _JS_OFF)
        off += (Skip(word, "", line),) if word.startswith("x") else ()
        inherited = groups[-1][2] if groups else ()
        full = f"{groups[-1][1]} > {name}" if groups else name
        end = code.closing[opening]
        if word in _JS_GROUPS:
            groups.append((end, full, (*inherited, *off)))
            at = opening + 1
        else:
            start = _body(code, opening, end)
            yield _Span(full, at, start, end, (*inherited, *off, *_options(code, opening, start)), rows)
            at = end + 1


def _options(code: Source, start: int, end: int) -> list[Skip]:
    """Skips that are given to a test as an option before its function."""
    given = [
        at for at in range(start, min(end, start + 40)) if code.at(at) in ("skip", "todo") and code.at(at + 1) == ":"
    ]
    return [Skip(f"{code.at(at)}:", "", code.tokens[at].line) for at in given if code.at(at + 2) != "false"]


def _body(code: Source, opening: int, end: int) -> int:
    """Where the function that is given to a test starts; its end when there is nothing in it."""
    at = opening + 1
    while at < end:
        if code.at(at) == "{" and code.at(at - 1) in ("=>", ")"):
            return at + 1 if code.closing.get(at, end) > at + 1 else end
        if code.at(at) == "=>" and code.at(at + 1) != "{":
            return at + 1
        at = at + 1 if code.at(at) in ("=>", "async", "function") else code.closing.get(at, at) + 1
    return end


def _js_call(code: Source, at: int) -> tuple[int, list[str], tuple[Assertion, ...]] | None:
    """The bracket that a test's name stands in, the words before it, and the rows it is run with."""
    words: list[str] = []
    rows: tuple[Assertion, ...] = ()
    at += 1
    while True:
        if code.at(at) == ".":
            words.append(code.at(at + 1))
            at += 2
        elif code.at(at) == "(" and words and words[-1] in ("each", "for", "skipIf", "runIf") and at in code.closing:
            rows += _js_rows(code, at)
            words.append("")
            at = code.closing[at] + 1
        elif at < len(code.tokens) and code.tokens[at].kind == "text" and words and words[-1] == "each":
            at += 1
        else:
            break
    named = at + 1 < len(code.tokens) and code.tokens[at + 1].kind in ("text", "word")
    return (at, words, rows) if code.at(at) == "(" and at in code.closing and named else None


def _js_rows(code: Source, opening: int) -> tuple[Assertion, ...]:
    table = opening + 1
    if code.at(table) != "[" or table not in code.closing:
        return ()
    found, at = [], table + 1
    while at < code.closing[table]:
        if code.at(at) in ("[", "{") and at in code.closing:
            found.append(row(code, at, parts(code, at)))
        elif code.at(at) != ",":
            found.append(row(code, at, (code.at(at),)))
        at = code.closing.get(at, at) + 1
    return tuple(found)


def _go(code: Source) -> Iterator[_Span]:
    for at in range(len(code.tokens) - 3):
        name = code.at(at + 1)
        if code.at(at) != "func" or not name.startswith(("Test", "Fuzz", "Example", "Benchmark")):
            continue
        brace = code.closing.get(at + 2, at) + 1
        if code.at(brace) == "{" and brace in code.closing and is_test(code.path):
            yield _Span(name, at, brace + 1, code.closing[brace])


def _marked(code: Source) -> Iterator[_Span]:
    """Tests of Rust and Java: functions with a mark before them, inside classes that may be marked themselves."""
    marks: list[tuple[str, str, int]] = []
    groups: list[tuple[int, tuple[Skip, ...], str]] = []
    at = 0
    while at < len(code.tokens):
        while groups and groups[-1][0] <= at:
            groups.pop()
        if mark := _mark(code, at):
            marks.append((mark[0], mark[1], at))
            at = mark[2]
            continue
        word = code.at(at)
        if word in ("class", "mod", "object") and (brace := _opened(code, at)):
            inherited = groups[-1][1] if groups else ()
            prefix = groups[-1][2] if groups else ""
            groups.append((code.closing[brace], (*inherited, *_off(code, marks)), f"{prefix}{code.at(at + 1)}."))
            marks, at = [], brace + 1
        elif (named := _function(code, at)) and (brace := _opened(code, named)):
            if _is_case(code, marks, code.at(named)):
                inherited, prefix = (groups[-1][1], groups[-1][2]) if groups else ((), "")
                skips = (*inherited, *_off(code, marks))
                rows = _rows(code, marks)
                yield _Span(prefix + code.at(named), named, brace + 1, code.closing[brace], skips, rows)
            marks, at = [], code.closing[brace] + 1
        else:
            marks = [] if word in (";", "}") else marks
            at += 1


def _mark(code: Source, at: int) -> tuple[str, str, int] | None:
    """An attribute or annotation: its name, the whole of it, and where it ends."""
    if code.language == "rust" and code.at(at) == "#" and code.at(at + 1) == "[" and at + 1 in code.closing:
        end = code.closing[at + 1]
        text = code.text(at + 2, end)
        name = text.partition("(")[0].partition("=")[0].strip()
        return name.rpartition(":: ")[2], text, end + 1
    if code.language == "java" and code.at(at) == "@" and code.at(at + 1) != "interface":
        end = at + 2
        while code.at(end) == ".":
            end += 2
        name = code.at(end - 1)
        end = code.closing.get(end, end - 1) + 1 if code.at(end) == "(" else end
        return name, code.text(at + 1, end), end
    return None


def _opened(code: Source, at: int) -> int:
    """The brace that opens the body of what is named here; 0 when it has none."""
    while at < len(code.tokens) and code.at(at) not in ("{", ";", "}"):
        at = code.closing.get(at, at) + 1
    return at if code.at(at) == "{" and at in code.closing else 0


def _function(code: Source, at: int) -> int:
    """Where the name of a function stands that starts here; 0 for none."""
    if code.at(at) in ("fn", "fun") and code.at(at + 1):
        return at + 1
    is_word = code.tokens[at].kind == "word" and code.language == "java"
    typed = at > 0 and (code.tokens[at - 1].kind == "word" or code.at(at - 1) in (">", "]"))
    if is_word and typed and code.at(at - 1) not in ("new", "return", "else", "throw") and code.at(at + 1) == "(":
        after = code.closing.get(at + 1, at) + 1
        return at if code.at(after) in ("{", "throws") else 0
    return 0


def _is_case(code: Source, marks: list[tuple[str, str, int]], name: str) -> bool:
    named = {mark[0] for mark in marks}
    if code.language == "rust":
        return bool(named & {"test", "rstest", "case", "test_case", "quickcheck"})
    return bool(named & {"Test", "ParameterizedTest", "RepeatedTest", "TestFactory", "Property"}) or (
        name.startswith("test") and is_test(code.path) and name[4:5].isupper()
    )


def _off(code: Source, marks: list[tuple[str, str, int]]) -> tuple[Skip, ...]:
    found = []
    for name, text, at in marks:
        line = code.tokens[at].line
        if name == "ignore" or name in _JAVA_OFF:
            found.append(Skip(name, "", line))
        elif name == "cfg" and text != "cfg ( test )":
            found.append(Skip("cfg", text, line))
        elif name == "Test" and "expected" not in text and "enabled = false" in text:
            found.append(Skip("enabled = false", "", line))
    return tuple(found)


def _rows(code: Source, marks: list[tuple[str, str, int]]) -> tuple[Assertion, ...]:
    found = []
    for name, text, at in marks:
        if name in ("case", "test_case", "should_panic"):
            found.append(row(code, at, (text,)))
        elif name in _JAVA_ROWS:
            texts = [piece for piece in text.split('"')[1::2] if piece]
            found += [row(code, at, tuple(piece.split(","))) for piece in texts]
        elif name == "Test" and "expected =" in text:
            found.append(row(code, at, (text,)))
    return tuple(found)
