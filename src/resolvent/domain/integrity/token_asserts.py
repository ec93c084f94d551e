"""What an assertion in a brace language holds, and how strictly, by the names its libraries have for it."""

from typing import NamedTuple

from resolvent.domain.integrity.cases import Assertion
from resolvent.domain.integrity.tokens import Source

# How strict a matcher is; the longest name that fits the end of the chain counts.
_STRENGTH = {
    # JavaScript and TypeScript
    "toBe": 6, "toEqual": 6, "toStrictEqual": 6, "toBeNull": 6, "toBeUndefined": 6, "toHaveBeenCalledWith": 6,
    "toHaveBeenLastCalledWith": 6, "toThrowError": 5, "toThrow": 5, "toBeCloseTo": 5, "toMatchObject": 4,
    "toHaveLength": 4, "toMatchSnapshot": 4, "toMatchInlineSnapshot": 4, "toHaveBeenCalledTimes": 4,
    "toHaveBeenCalled": 2, "toBeTruthy": 1, "toBeFalsy": 3, "toBeDefined": 1, "equal": 6, "equals": 6, "eql": 6,
    "strictEqual": 6, "deepEqual": 6, "deepStrictEqual": 6, "is": 6, "exist": 1, "exists": 1, "ok": 1, "truthy": 1,
    "throws": 5, "rejects": 5, "closeTo": 5, "a": 2.5, "an": 2.5, "notEqual": 2, "not": 2, "include": 3, "match": 3,
    # Go
    "Equal": 6, "EqualValues": 6, "Exactly": 6, "JSONEq": 6, "ErrorIs": 6, "EqualError": 6, "ErrorContains": 5,
    "InDelta": 5, "InEpsilon": 5, "Len": 4, "Error": 4, "NoError": 4, "Nil": 5, "ElementsMatch": 5, "Contains": 3,
    "NotNil": 2, "NotEmpty": 2, "NotEqual": 2, "True": 1, "False": 3, "Zero": 4, "Empty": 4, "Panics": 4,
    # Rust
    "assert_eq": 6, "assert_ne": 2, "assert_matches": 4, "debug_assert_eq": 6,
    # Java and Kotlin
    "assertEquals": 6, "assertSame": 6, "assertArrayEquals": 6, "assertIterableEquals": 6, "assertNull": 6,
    "assertThrows": 6, "assertThrowsExactly": 6, "assertTrue": 1, "assertFalse": 3, "assertNotNull": 2,
    "assertNotEquals": 2, "isEqualTo": 6, "isSameAs": 6, "containsExactly": 6, "isNull": 6, "hasSize": 4,
    "isCloseTo": 5, "contains": 3, "isNotNull": 2, "isNotEmpty": 2, "isNotEqualTo": 2, "isTrue": 4, "isFalse": 4,
    "isPresent": 2, "isInstanceOf": 3, "assertContentEquals": 6, "shouldBe": 6, "shouldNotBe": 2,
}  # fmt: skip
_CLOSE = {"toBeCloseTo", "InDelta", "InEpsilon", "closeTo", "isCloseTo"}
_EXPECTED_FIRST = {
    "assertEquals", "assertSame", "assertArrayEquals", "assertNotEquals", "assertIterableEquals", "Equal", "NotEqual",
    "EqualValues", "Exactly", "JSONEq", "assertThrows", "assertThrowsExactly", "assertContentEquals",
}  # fmt: skip
_WORTHLESS = frozenset(("true", "1", "! false", "1 == 1", "true == true", "1 === 1", "true , true"))


class Call(NamedTuple):
    """A call by its name, the place of its brackets, and what stands between the commas."""

    name: str
    opening: int
    arguments: tuple[str, ...]


def called(code: Source, name: str, opening: int) -> Call | None:
    """The call whose bracket opens here; None when it does not."""
    if code.at(opening) != "(" or opening not in code.closing:
        return None
    return Call(name, opening, parts(code, opening))


def parts(code: Source, opening: int) -> tuple[str, ...]:
    """What stands between the commas of a bracket, in normal form."""
    found: list[str] = []
    start = at = opening + 1
    end = code.closing[opening]
    while at < end:
        if code.at(at) == ",":
            found.append(code.text(start, at))
            start = at + 1
        at = code.closing.get(at, at) + 1
    return (*found, code.text(start, end)) if start < end else tuple(found)


def chained(code: Source, end: int) -> tuple[str, tuple[str, ...], int]:
    """The chain of names after a bracket that closes at `end`, the last call's arguments, and where it all ends."""
    names: list[str] = []
    arguments: tuple[str, ...] = ()
    at = end + 1
    while code.at(at) in (".", "?.") and at + 1 < len(code.tokens):
        names.append(code.at(at + 1))
        at += 2
        if code.at(at) == "(" and at in code.closing:
            arguments = parts(code, at)
            at = code.closing[at] + 1
    return " ".join(names), arguments, at


def strength(chain: str) -> float:
    """How strict a matcher is by its name; what is not known is in the middle."""
    words = chain.split()
    known = next((float(_STRENGTH[word]) for word in reversed(words) if word in _STRENGTH), 3.0)
    return min(known, 2.0) if "not" in words else known


def about(code: Source, call: Call, *, kind: str, given: tuple[str, ...], subject: str) -> Assertion:
    """An assertion by its subject, the matcher and what the matcher was given."""
    expected = " , ".join(given)
    close = kind.rsplit(maxsplit=1)[-1] in _CLOSE if kind else False
    rated = strength(kind)
    if (subject in _WORTHLESS and not given) or (given and subject == given[0]):
        rated = 0.0
    elif "expect . any" in expected:
        rated = 1.0
    return Assertion(
        kind="approx" if close else kind,
        subject=subject,
        expected=given[0] if close and given else expected,
        strength=rated,
        slack=_slack(kind, given[1:]) if close else 0.0,
        literal=_literal(expected),
        shape=_blank(expected),
        path=code.path,
        line=code.tokens[call.opening].line,
        source=code.written(call.opening),
    )


def plain(code: Source, call: Call) -> Assertion:
    """An assertion that is one call: expected and actual value are its arguments."""
    given = call.arguments
    kind = call.name.rpartition(".")[2]
    if code.language == "go" and given and given[0] in ("t", "b", "tb"):
        given = given[1:]
    if kind in _EXPECTED_FIRST and len(given) > 1:
        given = (given[1], given[0], *given[2:])
    subject, rest = (given[0], given[1:]) if given else ("", ())
    if kind in ("assert", "ok", "assertTrue", "assert_", "True", "isTrue", "truthy"):
        for sign, name in ((" === ", "equal"), (" == ", "equal"), (" != ", "not equal"), (" !== ", "not equal")):
            left, found, right = subject.partition(sign)
            if found and left.count("(") == left.count(")"):
                return about(code, call, kind=name, given=(right,), subject=left)
        return about(code, call, kind="truthy", given=(), subject=subject)
    if kind not in ("assertThrows", "assertThrowsExactly") and len(rest) > 1 and kind not in _CLOSE:
        rest = rest[:1] if kind not in ("assertEquals",) or not _number(rest[1]) else rest
    if kind == "assertEquals" and len(rest) > 1 and (slack := _number(rest[1])) is not None:
        near = about(code, call, kind="isCloseTo", given=(rest[0],), subject=subject)
        return near._replace(slack=slack)
    return about(code, call, kind=kind, given=rest, subject=subject)


def _slack(kind: str, more: tuple[str, ...]) -> float:
    given = _number(more[0].replace("within ( ", "").partition(" ")[0]) if more else None
    if kind.endswith("toBeCloseTo"):
        return float(10.0 ** -min(max(2.0 if given is None else given, -300.0), 300.0))
    return given if given is not None else 0.0


def _number(text: str) -> float | None:
    try:
        return float(text.replace("- ", "-").rstrip("fFdDL"))
    except ValueError:
        return None


def _literal(text: str) -> bool:
    return bool(text) and all(
        word[0] in "\"'0123456789-[]{},:()" or word in ("true", "false", "null", "undefined", "nil", "None")
        for word in _blank_strings(text).split()
    )


def _blank_strings(text: str) -> str:
    """Texts without what is in them, so that their words are not taken for names."""
    pieces = text.split('"')
    return '""'.join(pieces[::2])


def _blank(text: str) -> str:
    return " ".join("0" if word[0].isdigit() else word for word in _blank_strings(text).split())
