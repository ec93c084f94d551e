"""GitHub's search for issues and pull requests, for REST and GraphQL alike: words, phrases, qualifiers, AND, OR, NOT.

found(sight, 'panic in:title,body state:open repo:acme/widget')
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from resolvent.forge_server.holdings import Item
from resolvent.forge_server.searching_words import QUALIFIERS, Where, written
from resolvent.forge_server.shapes.sight import Sight

Test = Callable[[Item], bool]
MAX_DEPTH = 50
_TOKENS = re.compile(r'[()]|-?(?:[A-Za-z-]+:)?"[^"]*(?:"|$)|[^\s()"]+(?:"[^"]*(?:"|$))?')
_QUALIFIED = re.compile(r"([A-Za-z-]+):(.+)", re.S)


class Unreadable(ValueError):
    """A search that cannot be understood."""


def found(sight: Sight, query: str) -> list[Item]:
    """The issues and pull requests that a search finds, in the order it asks for, else the newest first.

    Unreadable when parentheses or operators do not fit.
    """
    tokens = [token for token in _TOKENS.findall(query) if token.strip('"')]
    if not tokens:
        return []
    scope = [part for token in tokens if token.lower().startswith("in:") for part in token[3:].lower().split(",")]
    test = _Reading(tokens, Where(sight, tuple(scope) or ("title", "body", "comments"))).whole()
    return _ordered([item for item in sight.holdings.items.values() if test(item)], tokens)


def _ordered(items: list[Item], tokens: list[str]) -> list[Item]:
    sort = next((token[5:].lower() for token in tokens if token.lower().startswith("sort:")), "created-desc")
    by, _, direction = sort.partition("-")
    keys: dict[str, Callable[[Item], float]] = {
        "created": lambda item: item.created_at,
        "updated": lambda item: item.updated_at,
        "comments": lambda item: len(item.remarks),
    }
    key = keys.get(by, keys["created"])
    return sorted(items, key=lambda item: (key(item), item.number), reverse=direction != "asc")


@dataclass
class _Reading:
    """Reads the tokens of a search, once, from left to right."""

    tokens: list[str]
    where: Where
    at: int = 0
    depth: int = 0

    def whole(self) -> Test:
        test = self._either()
        if self.at < len(self.tokens):
            raise Unreadable("a parenthesis is closed that was never opened")
        return test

    def _either(self) -> Test:
        tests = [self._all()]
        while self._next("OR"):
            tests.append(self._all())
        return tests[0] if len(tests) == 1 else lambda item: any(test(item) for test in tests)

    def _all(self) -> Test:
        tests = list(self._terms())
        return lambda item: all(test(item) for test in tests)

    def _terms(self) -> Iterator[Test]:
        while self.at < len(self.tokens) and self.tokens[self.at] not in (")", "OR"):
            if not self._next("AND"):
                yield self._term()

    def _term(self) -> Test:
        if self._next("NOT"):
            if self.at == len(self.tokens):
                raise Unreadable("NOT is about nothing")
            denied = self._term()
            return lambda item: not denied(item)
        if self._next("("):
            return self._nested()
        token = self.tokens[self.at]
        self.at += 1
        if token.startswith("-") and len(token) > 1:
            refused = _simple(token[1:], self.where)
            return lambda item: not refused(item)
        return _simple(token, self.where)

    def _nested(self) -> Test:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unreadable("there are too many parentheses")
        inner = self._either()
        if not self._next(")"):
            raise Unreadable("a parenthesis is never closed")
        self.depth -= 1
        return inner

    def _next(self, word: str) -> bool:
        if self.at < len(self.tokens) and self.tokens[self.at] == word:
            self.at += 1
            return True
        return False


def _simple(token: str, where: Where) -> Test:
    """One word, phrase, or qualifier; a qualifier that nobody knows is a word."""
    qualified = _QUALIFIED.fullmatch(token)
    qualifier = QUALIFIERS.get(qualified[1].lower()) if qualified else None
    if qualified is None or qualifier is None:
        text = token.strip('"').casefold()
        return lambda item: text in written(item, where.scope)
    # `label:a,"b c"` is either of them.
    wanted = [part.strip('"') for part in re.findall(r'"[^"]*"?|[^,]+', qualified[2])]
    return lambda item: any(qualifier(where, item, one) for one in wanted)
