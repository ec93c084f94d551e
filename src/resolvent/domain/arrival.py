"""What comes from the forge by itself: who asks for a run, who calls one off, and in which words. Pure.

Text from outside is read for a mention of us and the one word after it, and for nothing else.
"""

import re
from bisect import bisect_right
from hashlib import sha256
from typing import Literal, get_args

from resolvent.domain.model import Value
from resolvent.domain.subject import Comment, Permission

Kind = Literal["labelled", "mentioned", "edited", "closed", "unlabelled", "reopened"]
Wish = Literal["resolve", "design", "stop", "unclear"]
# What became of it: a run; nothing, because of who asked, or because somebody is at work already, here or elsewhere; an
# answer; a run called off; or there was nothing to do.
Fate = Literal["new", "taken", "refused", "repeated", "elsewhere", "answered", "stopped", "nothing"]
WORDS: tuple[Wish, ...] = ("resolve", "design", "stop")
# Written before the claim, made, about to be given back; or somebody else had it.
HoldState = Literal["held", "claimed", "leaving", "refused"]
BEGINNING: tuple[Kind, ...] = ("labelled", "reopened", "mentioned")
_LADDER: tuple[Permission, ...] = get_args(Permission)

_HIDDEN = re.compile(r"<!--.*?(?:-->|\Z)|<(pre|code|blockquote)\b.*?(?:</\1\s*>|\Z)", re.S | re.I)
_FENCE = re.compile(r"[ \t>]*(?:(?:[-+*]|\d{1,9}[.)])[ \t]+)*(?:(`{3,})[^`]*|(~{3,}).*)$")
_QUOTED = re.compile(r"[ \t]{0,3}>|\t| {4}")
_RUN_MARKER = re.compile(r"<!-- resolvent(?:-stopped)?:(r[0-9a-f]{8})\b")
_OWN_MARKER = re.compile(r"<!--\s*resolvent\b", re.I)


class Rules(Value):
    """Which arrivals count, as the default branch configures it."""

    label: str = ""
    mention: str = ""
    allow: Permission = "write"
    logins: tuple[str, ...] = ()

    def labels(self, names: tuple[str, ...]) -> bool:
        """One of these labels is the one that asks for us."""
        return bool(self.label) and self.label.casefold() in (name.casefold() for name in names)

    def lists(self, login: str) -> bool:
        """A person named this login as one who may always ask."""
        return login.casefold() in (name.casefold() for name in self.logins)


class Arrival(Value):
    """One thing that happened on the forge; `run` is the name of the run that comes of it, if one does."""

    kind: Kind
    subject: str
    by: str = ""
    bot: bool = False
    at: float
    wish: Wish = "resolve"
    comment: Comment | None = None
    # The digest of the title and body of the issue as it was told with this; empty where that was not told.
    said: str = ""
    # The webhook that told it; empty when we found it ourselves.
    delivery: str = ""
    run: str = ""
    fate: Fate = "new"
    reason: str = ""
    seen_at: float = 0.0
    # How often it could not be done for a reason that lies in itself.
    tries: int = 0

    @property
    def id(self) -> str:
        """The same for whoever tells it: a comment asks once, anything else once in its instant."""
        if self.kind == "mentioned":
            return f"mentioned:{self.subject}:{self.comment.id if self.comment else 'body'}"
        return f"{self.kind}:{self.subject}@{self.at:.3f}"


class Hold(Value):
    """What we claimed on the forge for a run: a subject, and the name we claimed it under."""

    run: str
    subject: str
    holder: str
    at: float = 0.0
    state: HoldState = "held"
    # So long somebody is about to begin the run, and nobody gives the claim back.
    until: float = 0.0


def digest(title: str, body: str) -> str:
    """What tells one text of an issue from another, whoever shows it and however the lines end."""
    return sha256("\n\n".join((title, body)).replace("\r\n", "\n").encode("utf-8", "surrogatepass")).hexdigest()


def counts(login: str, *, bot: bool, own: str, rules: Rules) -> bool:
    """Whether a mention by this login is read at all: ours and those of bots are not, unless they are listed."""
    ours = login.casefold() == own.casefold()
    robot = bot or _bot(login)
    return bool(login) and (not (ours or robot) or rules.lists(login))


def may_ask(login: str, permission: Permission, rules: Rules) -> bool:
    """Whether this login may ask for a run or call one off by a mention."""
    return rules.lists(login) or _LADDER.index(permission) >= _LADDER.index(rules.allow)


def may_label(login: str, permission: Permission, rules: Rules) -> bool:
    """Whether a label that this login put on counts: it does from who may label, and from who may ask.

    A template labels in the name of whoever opens the issue. Nobody knows of some who put it on; a bot was let in.
    """
    enough = min(_LADDER.index(rules.allow), _LADDER.index("triage"))
    return not login or rules.lists(login) or _bot(login) or _LADDER.index(permission) >= enough


def _bot(login: str) -> bool:
    return login.casefold().endswith("[bot]")


def runs_named_in(text: str) -> tuple[str, ...]:
    """The runs whose marker is in a comment: they were at work there."""
    return tuple(dict.fromkeys(_RUN_MARKER.findall(text)))


def wish_in(text: str, mention: str) -> Wish | None:
    """What a text asks of us; None when it does not mention us outside of code, quotations and hidden parts."""
    if not mention or _OWN_MARKER.search(text):
        return None
    named = re.compile(rf"(?<![\w@/.+-])@{re.escape(mention)}(?![\w/-]|\.\w)(?P<rest>[^\n]*)", re.I)
    wishes = [_wish(found["rest"]) for found in named.finditer(_spoken(text))]
    said = {wish for wish in wishes if wish in WORDS}
    if not wishes:
        return None
    if "stop" in said:
        return "stop"
    if len(said) == 1:
        return said.pop()
    return "resolve" if not said and "unclear" not in wishes else "unclear"


def _wish(rest: str) -> Wish | None:
    """The word after a mention; None when there is none. What follows it is not read, and options are no words."""
    words = rest.split()
    first = words[0].strip(".,:;!?()*_").lower() if words else ""
    while words and not first:
        words = words[1:]
        first = words[0].strip(".,:;!?()*_").lower() if words else ""
    if not re.search(r"\w", first):
        return None
    known = next((word for word in WORDS if word == first), None)
    options = any(word.startswith("-") and len(word) > 1 for word in words[1:])
    return known if known and (known == "stop" or not options) else "unclear"


def _spoken(text: str) -> str:
    """The text without what its author only shows: code, quotations, and what a page does not show at all."""
    lines: list[str] = []
    fence = ""
    for line in _HIDDEN.sub(" ", text.replace("\r\n", "\n")).split("\n"):
        mark = _FENCE.match(line)
        if fence:
            bare = line.strip(" \t>")
            if bare and set(bare) == {fence[0]} and len(bare) >= len(fence):
                fence = ""
        elif mark:
            fence = mark[1] or mark[2]
            lines.append("")
        elif not _QUOTED.match(line):
            lines.append(line)
    # A span of code does not reach beyond its paragraph.
    return "\n\n".join(_without_spans(part) for part in re.split(r"\n[ \t]*\n", "\n".join(lines)))


def _without_spans(text: str) -> str:
    """A paragraph without its code spans; linear in its length, however many backticks there are."""
    runs = [(found.start(), found.end()) for found in re.finditer("`+", text)]
    places: dict[int, list[int]] = {}
    for start, end in runs:
        places.setdefault(end - start, []).append(start)
    kept: list[str] = []
    at = 0
    for start, end in runs:
        if start < at:
            continue
        same = places[end - start]
        nth = bisect_right(same, start)
        if nth < len(same):
            kept.append(f"{text[at:start]} · ")
            at = same[nth] + end - start
    return "".join([*kept, text[at:]])
