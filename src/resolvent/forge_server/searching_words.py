"""The qualifiers of a search, each a question to one issue or pull request."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from resolvent.forge_server.holdings import Item
from resolvent.forge_server.shapes.checks import latest, state_of
from resolvent.forge_server.shapes.sight import RANKS, Sight

_DECISIVE = ("approve", "request_changes", "dismissed")


@dataclass(frozen=True)
class Where:
    """What is searched, and which texts of it: title, body, comments."""

    sight: Sight
    scope: tuple[str, ...]

    def login(self, name: str) -> str:
        """A login as somebody wrote it."""
        return self.sight.viewer.login if name.lower() == "@me" else name.removeprefix("@").removeprefix("app/")

    def same(self, wanted: str, *logins: str) -> bool:
        """One of the logins is the wanted one; `*` is anybody."""
        login = self.login(wanted).lower()
        return any(one.lower() == login or login == "*" for one in logins)


Question = Callable[[Where, Item, str], bool]


def written(item: Item, scope: tuple[str, ...]) -> str:
    """The texts of an item that are searched; a word cannot reach from one into the next."""
    texts = [item.title] if "title" in scope else []
    texts += [item.body] if "body" in scope else []
    texts += [remark.body for remark in item.remarks] if "comments" in scope else []
    return "\0".join(texts).casefold()


def review_decision(sight: Sight, item: Item) -> str:
    """`approved` or `changes_requested`, by the last word of each reviewer who may write; nothing without one."""
    last = {one.author: one.opinion for one in item.reviews if one.opinion in _DECISIVE}
    counted = {opinion for login, opinion in last.items() if _may_write(sight, login)}
    return "changes_requested" if "request_changes" in counted else "approved" if "approve" in counted else ""


def _may_write(sight: Sight, login: str) -> bool:
    return RANKS.index(sight.account(login).permission) >= RANKS.index("write")


def _is(where: Where, item: Item, word: str) -> bool:
    answers = {
        "issue": item.kind == "issue",
        "pr": item.kind == "pull",
        "pull-request": item.kind == "pull",
        "open": item.state == "open",
        "closed": item.state != "open",
        "merged": item.state == "merged",
        "unmerged": item.kind == "pull" and item.state != "merged",
        "draft": item.draft,
        "locked": item.locked,
        "unlocked": not item.locked,
        "public": True,
    }
    return answers.get(word.lower(), False)


def _repository(where: Where, item: Item, word: str) -> bool:
    return word.lower() == where.sight.full_name.lower()


def _owner(where: Where, item: Item, word: str) -> bool:
    return where.same(word, where.sight.holdings.owner)


def _missing(where: Where, item: Item, word: str) -> bool:
    held: dict[str, tuple[str, ...]] = {"label": item.labels, "assignee": item.assignees}
    return not held.get(word.lower(), ())


def mentioned(where: Where, item: Item, word: str) -> bool:
    """Somebody is named with an @ in the body or a comment."""
    at = re.compile(rf"(?<![\w@])@{re.escape(where.login(word))}(?![\w-])", re.I)
    return any(at.search(text) for text in (item.body, *(remark.body for remark in item.remarks)))


def _involved(where: Where, item: Item, word: str) -> bool:
    people = (item.author, *item.assignees, *(remark.author for remark in item.remarks))
    return where.same(word, *people) or mentioned(where, item, word)


def _review(where: Where, item: Item, word: str) -> bool:
    if item.kind != "pull":
        return False
    decided = review_decision(where.sight, item)
    return decided == word.lower() if word.lower() not in ("none", "required") else not decided


def _status(where: Where, item: Item, word: str) -> bool:
    states = {state_of(run) for run in latest(where.sight, item.head_commit)} if item.kind == "pull" else set()
    together = next((state for state in ("failure", "pending", "success") if state in states), "")
    return together == word.lower()


def _reason(where: Where, item: Item, word: str) -> bool:
    return item.state == "closed" and item.reason == word.lower().replace(" ", "_")


def _counted(where: Where, item: Item, word: str) -> bool:
    return _within(len(item.remarks), word, lambda text: (float(text), float(text) + 1))


def _dated(when: Callable[[Item], float | None]) -> Question:
    def question(where: Where, item: Item, word: str) -> bool:
        at = when(item)
        return at is not None and _within(at, word, _span)

    return question


def _within(value: float, word: str, span: Callable[[str], tuple[float, float]]) -> bool:
    """`>=2024-01-01`, `<5`, `1..9`, `*..9` or one exact thing; what is no such thing holds nothing."""
    operator, first, second = _parts(word)
    try:
        low = span(first) if first != "*" else (float("-inf"), float("-inf"))
        high = span(second) if second != "*" else (float("inf"), float("inf"))
    except (ValueError, OverflowError):
        return False
    held = {">": value >= low[1], ">=": value >= low[0], "<": value < low[0], "<=": value < low[1]}
    return held.get(operator, low[0] <= value < high[1])


def _parts(word: str) -> tuple[str, str, str]:
    if between := re.fullmatch(r"(.+?)\.\.(.+)", word):
        return "", between[1], between[2]
    operator = next((one for one in (">=", "<=", ">", "<") if word.startswith(one)), "")
    return operator, word[len(operator) :], word[len(operator) :]


def _span(text: str) -> tuple[float, float]:
    """From when until when a date or a time lasts."""
    at = datetime.fromisoformat(text)
    began = at if at.tzinfo else at.replace(tzinfo=UTC)
    lasts = timedelta(days=1) if len(text) <= len("2024-01-01") else timedelta(seconds=1)
    return began.timestamp(), (began + lasts).timestamp()


def _anything(where: Where, item: Item, word: str) -> bool:
    return True


QUALIFIERS: Mapping[str, Question] = {
    "is": _is,
    "type": _is,
    "state": _is,
    "repo": _repository,
    "user": _owner,
    "org": _owner,
    "owner": _owner,
    "in": _anything,
    "sort": _anything,
    "author": lambda where, item, word: where.same(word, item.author),
    "assignee": lambda where, item, word: where.same(word, *item.assignees),
    "commenter": lambda where, item, word: where.same(word, *(remark.author for remark in item.remarks)),
    "mentions": mentioned,
    "involves": _involved,
    "label": lambda where, item, word: word.lower() in (name.lower() for name in item.labels),
    "no": _missing,
    "head": lambda where, item, word: item.kind == "pull" and item.head.startswith(word.rpartition(":")[2]),
    "base": lambda where, item, word: item.kind == "pull" and item.base.startswith(word),
    "draft": lambda where, item, word: item.kind == "pull" and item.draft == (word.lower() == "true"),
    "archived": lambda where, item, word: where.sight.holdings.archived == (word.lower() == "true"),
    "review": _review,
    "review-requested": lambda where, item, word: where.same(word, *item.reviewers),
    "user-review-requested": lambda where, item, word: where.same(word, *item.reviewers),
    "reviewed-by": lambda where, item, word: where.same(word, *(one.author for one in item.reviews)),
    "status": _status,
    "reason": _reason,
    "comments": _counted,
    "created": _dated(lambda item: item.created_at),
    "updated": _dated(lambda item: item.updated_at),
    "closed": _dated(lambda item: item.closed_at),
    "merged": _dated(lambda item: item.merged_at),
    "sha": lambda where, item, word: len(word) >= 7 and item.head_commit.startswith(word.lower()),
}
