"""Source text of brace languages as tokens: what is a string or a comment is never taken for code."""

import re
from typing import NamedTuple

from resolvent.domain.integrity.kinds import Language

_WORD = re.compile(r"[^\W\d][\w$]*|\$[\w$]*")
_NUMBER = re.compile(r"\d[\w.]*")
_SPACE = re.compile(r"[ \t\r\f\v]+")
_OPERATOR = re.compile(r"===|!==|==|!=|<=|>=|=>|->|::|&&|\|\||:=|\?\.|\?\?|[^\s]")
_RAW = re.compile(r'b?r(#{0,20})"')
_CLOSERS = {")": "(", "]": "[", "}": "{"}
# After these a slash starts a regular expression; after anything else it divides.
_BEFORE_PATTERN = frozenset(
    [
        "(",
        ",",
        "=",
        ":",
        "[",
        "!",
        "&",
        "|",
        "?",
        "{",
        "}",
        ";",
        "=>",
        "&&",
        "||",
        "return",
        "typeof",
        "case",
        "in",
        "of",
    ]
)


class Token(NamedTuple):
    """A piece of source: `kind` is word, number, text, comment or mark."""

    kind: str
    text: str
    line: int


class Source(NamedTuple):
    """The tokens of a file without comments, which bracket closes which, and the comments."""

    path: str
    language: Language
    tokens: tuple[Token, ...]
    closing: dict[int, int]
    comments: tuple[Token, ...]
    lines: tuple[str, ...]

    def text(self, start: int, end: int) -> str:
        """Tokens in one normal form: quotes, spaces, trailing commas and semicolons make no difference."""
        return " ".join(one.text for one in self.tokens[start:end] if one.text != ";")

    def at(self, index: int) -> str:
        """The text of one token; empty outside of the file."""
        return self.tokens[index].text if 0 <= index < len(self.tokens) else ""

    def within(self, opening: int) -> range:
        """The places between a bracket that opens here and the one that closes it; none for anything else."""
        return range(opening + 1, self.closing.get(opening, opening))

    def written(self, index: int) -> str:
        """The line of a token as it stands in the file."""
        line = self.tokens[index].line
        return self.lines[line - 1].strip() if line <= len(self.lines) else ""


def source(path: str, text: str, spoken: Language) -> Source:
    """Read a file; whatever it holds, in one pass and without an error."""
    reader = _Reader(text, spoken)
    reader.run()
    code: list[Token] = []
    for one in (token for token in reader.found if token.kind != "comment"):
        if one.text in _CLOSERS and code and code[-1].text == ",":
            code.pop()
        code.append(one)
    comments = tuple(token for token in reader.found if token.kind == "comment")
    return Source(path, spoken, tuple(code), _closing(code), comments, tuple(text.split("\n")))


def _closing(code: list[Token]) -> dict[int, int]:
    found: dict[int, int] = {}
    opened: dict[str, list[int]] = {"(": [], "[": [], "{": []}
    for index, one in enumerate(code):
        if one.kind != "mark":
            continue
        if one.text in opened:
            opened[one.text].append(index)
        elif one.text in _CLOSERS and opened[_CLOSERS[one.text]]:
            found[opened[_CLOSERS[one.text]].pop()] = index
    return found


class _Reader:
    def __init__(self, text: str, spoken: Language) -> None:
        self.found: list[Token] = []
        self._text = text
        self._spoken = spoken
        self._at = 0
        self._line = 1

    def run(self) -> None:
        while self._at < len(self._text):
            char = self._text[self._at]
            if char == "\n":
                self._line += 1
                self._at += 1
            elif space := _SPACE.match(self._text, self._at):
                self._at = space.end()
            elif not (self._comment() or self._string(char) or self._pattern(char)):
                self._plain()

    def _take(self, kind: str, end: int, text: str | None = None) -> bool:
        raw = self._text[self._at : end]
        self.found.append(Token(kind, raw if text is None else text, self._line))
        self._line += raw.count("\n")
        self._at = end
        return True

    def _plain(self) -> None:
        for kind, pattern in (("word", _WORD), ("number", _NUMBER), ("mark", _OPERATOR)):
            if match := pattern.match(self._text, self._at):
                self._take(kind, match.end())
                return
        self._at += 1

    def _until(self, closing: str, start: int) -> int:
        end = self._text.find(closing, start)
        return len(self._text) if end < 0 else end + len(closing)

    def _comment(self) -> bool:
        if self._text.startswith("//", self._at):
            end = self._text.find("\n", self._at)
            return self._take("comment", len(self._text) if end < 0 else end)
        if self._text.startswith("/*", self._at):
            return self._take("comment", self._until("*/", self._at + 2))
        return False

    def _string(self, char: str) -> bool:
        if self._spoken == "rust" and (raw := _RAW.match(self._text, self._at)):
            return self._quoted(raw.end(), '"' + raw[1])
        if self._spoken == "java" and self._text.startswith('"""', self._at):
            return self._quoted(self._at + 3, '"""')
        if self._spoken == "go" and char == "`":
            return self._quoted(self._at + 1, "`")
        if self._spoken == "rust" and char == "'":
            return self._rust_quote()
        return self._escaped(char) if char in "\"'" or (char == "`" and self._spoken == "js") else False

    def _quoted(self, start: int, closing: str) -> bool:
        end = self._until(closing, start)
        return self._take("text", end, '"' + self._text[start : max(start, end - len(closing))] + '"')

    def _rust_quote(self) -> bool:
        end = self._at + (4 if self._text.startswith("\\", self._at + 1) else 3)
        if self._text[end - 1 : end] == "'":
            return self._take("text", end)
        return self._take("mark", self._at + 1)  # a lifetime

    def _escaped(self, quote: str) -> bool:
        end = self._at + 1
        while end < len(self._text):
            char = self._text[end]
            if char == "\\":
                end += 2
                continue
            if char == quote or (char == "\n" and quote != "`"):
                break
            end += 1
        inner = self._text[self._at + 1 : end]
        return self._take("text", min(end + 1, len(self._text)) if self._closed(end, quote) else end, f'"{inner}"')

    def _closed(self, end: int, quote: str) -> bool:
        return end < len(self._text) and self._text[end] == quote

    def _pattern(self, char: str) -> bool:
        before = self.found[-1].text if self.found else "("
        if char != "/" or self._spoken != "js" or before not in _BEFORE_PATTERN:
            return False
        end, inside = self._at + 1, False
        while end < len(self._text) and self._text[end] != "\n":
            one = self._text[end]
            if one == "\\":
                end += 1
            elif one == "/" and not inside:
                return self._take("text", end + 1)
            inside = one == "[" or (inside and one != "]")
            end += 1
        return False
