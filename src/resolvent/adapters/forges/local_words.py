"""How people and programs name things on the local forge, and which texts it takes. Pure."""

import re
from typing import Literal

from resolvent.domain.subject import CLOSING, Issue
from resolvent.errors import ForgeRefused, NotFound

Kind = Literal["issue", "pull"]

_NUMBER = r"(?P<number>[0-9]{1,15})"
_REFERENCES: dict[Kind, re.Pattern[str]] = {
    "issue": re.compile(rf"(?:#|local:issues/)?{_NUMBER}"),
    "pull": re.compile(rf"(?:#|local:pulls/)?{_NUMBER}"),
}
_TARGETS: dict[Kind, re.Pattern[str]] = {
    "issue": re.compile(rf"issue-{_NUMBER}|local:issues/(?P<at>[0-9]{{1,15}})#comment-[0-9]+"),
    "pull": re.compile(rf"pr-{_NUMBER}|local:pulls/(?P<at>[0-9]{{1,15}})#comment-[0-9]+"),
}
_TERMS = re.compile(r'"([^"]*)(?:"|$)|([^\s"]+)')
_UNSENDABLE = re.compile("[\0\ud800-\udfff]")
MAX_TITLE, MAX_BODY, MAX_LABEL = 256, 65536, 50
_NOUNS: dict[Kind, tuple[str, str]] = {"issue": ("issue", "issue"), "pull": ("pull request", "pr")}


def number_of(reference: str, kind: Kind) -> int:
    """The number in `3`, `#3` or a URL."""
    named = _REFERENCES[kind].fullmatch(reference.strip())
    if not named:
        raise unknown(reference, kind)
    return int(named["number"])


def unknown(reference: str, kind: Kind) -> NotFound:
    """The error for a reference to nothing."""
    noun, command = _NOUNS[kind]
    return NotFound(f"there is no {noun} {reference!r} on the local forge", hint=f"resolvent {command} ls")


def target_of(text: str) -> tuple[int, Kind]:
    """What `issue-3`, `pr-4` or the URL of a comment is about."""
    for kind, pattern in _TARGETS.items():
        if named := pattern.fullmatch(text):
            return int(named["number"] or named["at"]), kind
    raise NotFound(f"{text!r} names no issue, pull request or comment here", hint="resolvent issue ls")


def fixed_by(body: str) -> list[int]:
    """The issues that merging a pull request with this body closes."""
    named = (found["issue"] for found in CLOSING.finditer(body))
    return [int(one[1:]) for one in named if re.fullmatch(r"#[0-9]{1,15}", one)]


def matches(issue: Issue, words: str) -> bool:
    """Title or body holds every word and every quoted phrase; nothing matches no words at all."""
    terms = [(phrase or word).casefold() for phrase, word in _TERMS.findall(words) if phrase or word]
    texts = (issue.title.casefold(), issue.body.casefold())
    return bool(terms) and all(any(term in text for text in texts) for term in terms)


def sendable(text: str) -> str:
    """The text as it is; refused when it has no exact bytes that every forge can hold, or too many."""
    if _UNSENDABLE.search(text):
        raise ForgeRefused("a text with NUL or half a character cannot be written to a forge")
    if len(text) > MAX_BODY:
        raise ForgeRefused(f"a text of {len(text)} characters is longer than the {MAX_BODY} that a forge takes")
    return text


def filled(text: str, what: str) -> str:
    """A sendable text that is not blank."""
    if not text.strip():
        raise ForgeRefused(f"{what} needs a text")
    return sendable(text)


def title_line(text: str) -> str:
    """A sendable text on one line."""
    if len(text.strip().splitlines()) != 1:
        raise ForgeRefused(f"a title is one line of text, not {text!r}")
    if len(text.strip()) > MAX_TITLE:
        raise ForgeRefused(f"a title has at most {MAX_TITLE} characters, not {len(text.strip())}")
    return sendable(text.strip())


def label_name(text: str) -> str:
    """A name that can be a label everywhere: one line without a comma, not too long."""
    name = filled(text, "a label").strip()
    if len(name) > MAX_LABEL or len(name.splitlines()) != 1 or "," in name:
        raise ForgeRefused(f"a label is one line without a comma, of at most {MAX_LABEL} characters, not {text!r}")
    return name
