"""What the body of a test in a brace language holds, and under which conditions."""

import hashlib
from collections import defaultdict
from typing import NamedTuple

from resolvent.domain.integrity.cases import Assertion, Skip
from resolvent.domain.integrity.token_asserts import about, called, chained, parts, plain
from resolvent.domain.integrity.tokens import Source

_FALSE = frozenset(("( false )", "false", "( 0 )", "( 1 == 2 )", "( ! true )"))
_GO_FAILS = frozenset(("Error", "Errorf", "Fatal", "Fatalf", "Fail", "FailNow"))
_SKIPS = frozenset(("Skip", "Skipf", "SkipNow", "skip", "assumeTrue", "assumeFalse", "pending"))


class Held(NamedTuple):
    """What was found in a body."""

    assertions: tuple[Assertion, ...]
    skips: tuple[Skip, ...]


class Reading:
    """One walk through the tokens of a body."""

    def __init__(self, code: Source, start: int, end: int) -> None:
        self._code = code
        self._start, self._end = start, end
        self._found: list[tuple[Assertion, int, int]] = []
        self._skips: list[Skip] = []
        # Conditions that hold up to a token, and those that hold for the rest of the body.
        self._open: list[tuple[int, str, int]] = []
        self._rest: list[str] = []

    def read(self) -> Held:
        """Walk to the end, or to where nothing more is reached."""
        at = self._start
        while at < self._end:
            while self._open and self._open[-1][0] <= at:
                self._open.pop()
            at = self._next(at)
        contexts = self._contexts()
        held = tuple(one._replace(context=_context(one, contexts)) for one, _, _ in self._found)
        return Held(held, tuple(dict.fromkeys(self._skips)))

    def _next(self, at: int) -> int:
        code = self._code
        match code.at(at):
            case "if" | "while":
                return self._condition(at)
            case "try" if code.at(at + 1) == "{" and self._silenced(at + 1):
                return code.closing.get(at + 1, at) + 1
            case "return" if code.at(at + 1) in (";", "}", ")") or self._line_ends(at):
                if not self._open:
                    return self._end
                # What follows a way out is only reached the other way.
                self._rest.append(f"not ({self._open[-1][1]})")
                return at + 1
        end = self._assertion(at) or self._skip(at) or self._row(at)
        return end if end > at else at + 1

    def _line_ends(self, at: int) -> bool:
        return at + 1 < len(self._code.tokens) and self._code.tokens[at + 1].line > self._code.tokens[at].line

    def _condition(self, at: int) -> int:
        """Note a condition for the block it is for; a block that is never entered is passed over."""
        code = self._code
        block, depth = at + 1, 0
        while block < self._end and block - at < 400:
            if code.at(block) == "{" and not depth:
                break
            if code.at(block) == "(" and block in code.closing:
                block = code.closing[block]
                if code.language in ("js", "java") and code.at(block + 1) != "{":
                    break
            block += 1
        braced = code.at(block) == "{"
        condition = code.text(at + 1, block if braced else block + 1)
        closing = code.closing.get(block, block) if braced else _statement(code, block + 1, self._end)
        if condition in _FALSE:
            return closing + 1
        self._open.append((closing, condition, at))
        return block + 1

    def _silenced(self, block: int) -> bool:
        code = self._code
        handler = code.closing.get(block, -2) + 1
        if code.at(handler) != "catch":
            return False
        body = handler + 1
        if code.at(body) == "(":
            body = code.closing.get(body, body) + 1
        if code.at(body) != "{" or body not in code.closing:
            return False
        return not any(code.at(index) in ("(", "throw") for index in range(body + 1, code.closing[body]))

    def _guards(self) -> tuple[str, ...]:
        return (*self._rest, *(condition for _, condition, _ in self._open))

    def _hold(self, one: Assertion, start: int, end: int) -> int:
        self._found.append((one._replace(guards=(*one.guards, *self._guards())), start, end))
        return end

    def _assertion(self, at: int) -> int:
        code, word = self._code, self._code.at(at)
        if self._code.tokens[at].kind != "word" or (code.at(at - 1) in (".", "fn", "func", "fun") and at > self._start):
            return 0
        if word in ("expect", "assertThat", "verify") and (call := called(code, word, at + 1)):
            chain, given, end = chained(code, code.closing[call.opening])
            if not chain:
                return 0
            subject = call.arguments[0] if call.arguments else ""
            if code.language == "java" and "isCloseTo" in chain:
                given = given[:2]
            return self._hold(about(code, call, kind=chain, given=given, subject=subject), at, end)
        if code.language == "go" and word in ("t", "b") and code.at(at + 2) in _GO_FAILS and code.at(at + 1) == ".":
            return self._fails(at)
        name, opening = _dotted(code, at)
        if code.language == "rust" and code.at(opening) == "!":
            opening += 1
        call = called(code, name, opening) if _asserts(name, code) else None
        return self._hold(plain(code, call), at, code.closing[call.opening] + 1) if call else 0

    def _fails(self, at: int) -> int:
        """A failure that is called under a condition holds the opposite of the condition."""
        code = self._code
        end = code.closing.get(at + 3, at + 2) + 1
        call = called(code, "fails", at + 3)
        if call is None:
            return 0
        closing, condition, start = self._open.pop() if self._open else (0, "", at)
        left, unequal, right = condition.rpartition(" != ")
        if unequal:
            held = about(code, call, kind="equal", given=(right,), subject=left)
        else:
            held = about(code, call, kind="fails", given=(), subject=condition or "always")
        # The condition is part of what is held, not of what stands around it.
        self._hold(held, start, end)
        if closing:
            self._open.append((closing, condition, start))
        return end

    def _skip(self, at: int) -> int:
        code = self._code
        if code.at(at) not in _SKIPS or code.at(at + 1) != "(" or (code.language == "go" and code.at(at - 1) != "."):
            return 0
        condition = " and ".join(self._guards())
        if code.at(at).startswith("assume"):
            condition = code.text(at + 2, code.closing.get(at + 1, at + 2))
        self._skips.append(Skip(f"{code.at(at)}()", condition, code.tokens[at].line))
        return at + 1

    def _row(self, at: int) -> int:
        """A row of a table that a test goes through: all but the last of it is the input."""
        code = self._code
        if code.language != "go" or code.at(at) != "{" or at not in code.closing:
            return 0
        if code.at(at - 1) not in ("{", ",") or code.at(code.closing[at] + 1) not in (",", "}"):
            return 0
        given = parts(code, at)
        if given:
            self._hold(row(code, at, given), at, code.closing[at] + 1)
        return at + 1

    def _contexts(self) -> dict[str, str]:
        asserted = {index for _, start, end in self._found for index in range(start, end)}
        lines: dict[int, list[str]] = defaultdict(list)
        for index in range(self._start, self._end):
            if index not in asserted:
                lines[self._code.tokens[index].line].append(self._code.at(index))
        words: dict[str, list[str]] = defaultdict(list)
        for said in lines.values():
            text = " ".join(said)
            for word in dict.fromkeys(one for one in said if one[0].isalpha()):
                words[word].append(text)
        return {word: hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12] for word, texts in words.items()}


def row(code: Source, opening: int, given: tuple[str, ...]) -> Assertion:
    """One row of a table as something that is held."""
    subject, expected = (" , ".join(given[:-1]), given[-1]) if len(given) > 1 else (given[0], "")
    return Assertion(
        kind="row",
        subject=subject,
        expected=expected,
        literal=bool(expected),
        path=code.path,
        line=code.tokens[opening].line,
        source=code.written(opening),
    )


def _dotted(code: Source, at: int) -> tuple[str, int]:
    names = [code.at(at)]
    at += 1
    while code.at(at) == "." and at + 1 < len(code.tokens) and len(names) < 6:
        names.append(code.at(at + 1))
        at += 2
    return ".".join(names), at


def _asserts(name: str, code: Source) -> bool:
    first, _, rest = name.partition(".")
    if first in ("assert", "require", "Assert", "Assertions", "chai"):
        return code.language != "go" or bool(rest)
    if code.language == "js" and first == "t":
        return rest in ("is", "deepEqual", "equal", "truthy", "true", "false", "throws", "same", "not", "ok")
    last = name.rpartition(".")[2]
    return last.startswith(("assert", "debug_assert")) or last in ("shouldBe", "shouldThrow")


def _statement(code: Source, at: int, end: int) -> int:
    while at < end and code.at(at) not in (";", "}"):
        at = code.closing.get(at, at) + 1
    return at


def _context(one: Assertion, contexts: dict[str, str]) -> str:
    words = "".join(char if char.isalnum() or char in "_$" else " " for char in one.subject[:2000]).split()
    return "".join(contexts.get(word, "") for word in dict.fromkeys(words))
