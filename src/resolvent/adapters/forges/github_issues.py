"""Issues and comments on GitHub, and what issues and pull requests have in common: state, labels, reactions."""

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Any

from resolvent.adapters.forges import github_read as read
from resolvent.adapters.forges.github_api import Api, Params
from resolvent.adapters.forges.github_place import Kind, instant
from resolvent.adapters.forges.local_words import filled, label_name, matches, sendable, title_line
from resolvent.domain.subject import Comment, Issue, Labelling, Listed, Reaction
from resolvent.errors import ForgeRefused

# GitHub's index is behind by minutes at most; what we wrote since then is looked for in the listing itself.
_INDEX_LAG = timedelta(days=1)
_MAX_FOUND = 300
# Where no more are open than fit on one page, that page is all there is to search: it is never behind, and mostly 304.
_LISTED = 100
# GitHub takes 256 characters of a search; the rest is looked for in what it finds.
_MAX_SEARCH = 160
_TERMS = re.compile(r'"([^"]*)(?:"|$)|([^\s"]+)')


class Issues:
    """The issues of one repository, and what is said on them and on pull requests."""

    def __init__(self, api: Api, kinds: dict[int, Kind]) -> None:
        self._api = api
        self._where = api.where
        # What a number is never changes.
        self._kinds = kinds

    async def one(self, reference: str) -> Issue:
        """By number, `#number` or URL."""
        number = self._where.number(reference, "issue")
        said = await self._item(number)
        if read.is_pull(said):
            raise self._where.unknown(reference, "issue")
        return read.issue(said)

    async def listed(self, state: Listed, labels: Sequence[str], since: float) -> tuple[Issue, ...]:
        """Those in that state with all these labels that changed since; oldest first."""
        asked: dict[str, str | int] = {"state": state, "sort": "created", "direction": "asc", **_since(since)}
        wanted = {label.casefold() for label in labels}
        # A comma in a name would be two names to GitHub.
        if named := [label for label in labels if "," not in label]:
            asked["labels"] = ",".join(named)
        found: dict[int, Issue] = {}
        for said in await self._api.every("Issue", self._where.path("issues"), asked):
            if not read.is_pull(said) and wanted <= {label.casefold() for label in read.labels(said)}:
                found[said.number] = read.issue(said)
        return tuple(found[number] for number in sorted(found))

    async def search(self, words: str, *, limit: int, login: str) -> tuple[Issue, ...]:
        """Open issues that match; where there are many, ours come from the listing and others from the index."""
        terms = _terms(words)
        if not terms or limit <= 0:
            return ()
        found = await self._newest()
        if len(found) >= _LISTED:
            asked = f"repo:{self._where.repo} is:issue is:open in:title,body {terms}"
            found += await self._ours(login)
            found += await self._indexed({"q": asked, "sort": "created", "order": "asc"})
        every = {said.number: read.issue(said) for said in found if not read.is_pull(said)}
        matching = (every[number] for number in sorted(every) if every[number].state == "open")
        return tuple(issue for issue in matching if matches(issue, words))[:limit]

    async def open(self, *, title: str, body: str, labels: Sequence[str]) -> Issue:
        """A new issue in our name."""
        said = {
            "title": title_line(title),
            "body": sendable(body),
            "labels": list(dict.fromkeys(map(label_name, labels))),
        }
        made = await self._api.send("POST", self._where.path("issues"), said, model="Issue")
        self._kinds[made.number] = "issue"
        return read.issue(made)

    async def set_state(self, target: str, state: str) -> None:
        """Open or closed; as it is already: nothing to do."""
        number, kind = self._where.target(target)
        if state not in ("open", "closed"):
            raise ForgeRefused(f"{target} can be open or closed, not {state!r}")
        said = await self._item(number, kind, target)
        if said.state == state:
            return
        if kind == "pull" and said.pull_request.merged_at:
            raise ForgeRefused(f"{target} is merged: it cannot be {state}")
        await self._api.send("PATCH", self._path(number, kind), {"state": state})

    async def label(self, target: str, add: Sequence[str], remove: Sequence[str]) -> None:
        """Give and take labels, where that changes anything."""
        number, kind = self._where.target(target)
        there = {name.casefold(): name for name in read.labels(await self._item(number, kind, target))}
        new = [label for label in dict.fromkeys(map(label_name, add)) if label.casefold() not in there]
        if new:
            await self._api.send("POST", self._where.path("issues", number, "labels"), {"labels": new})
        for label in remove:
            if label.casefold() in there:
                await self._api.remove(self._where.path("issues", number, "labels", there[label.casefold()]))

    async def labelling(self, target: str, label: str) -> Labelling:
        """Who put it on last, as the events of the target tell."""
        place = self._where.path("issues", await self._number(target), "events")
        found = Labelling()
        async for said in self._api.each(read.Event, place):
            named = (said.label.name or "") if said.event == "labeled" and said.label else ""
            # The oldest come first, GitHub says, but does not promise.
            if named.casefold() == label.casefold() and instant(said.created_at) >= found.at:
                found = Labelling(by=said.actor.login if said.actor else "", at=instant(said.created_at))
        return found

    async def comments(self, target: str) -> tuple[Comment, ...]:
        """All comments on a target, oldest first."""
        number = await self._number(target)
        return await self._remarks(("issues", number, "comments"), {})

    async def comments_since(self, at: float) -> tuple[Comment, ...]:
        """Those on any target that were written or edited since, oldest first."""
        return await self._remarks(("issues", "comments"), {"sort": "created", "direction": "asc", **_since(at)})

    async def comment(self, target: str, body: str) -> Comment:
        """One more comment in our name."""
        text = filled(body, "a comment")
        place = self._where.path("issues", await self._number(target), "comments")
        return read.comment(await self._api.send("POST", place, {"body": text}, model="IssueComment"), self._where)

    async def edit_comment(self, comment: Comment, body: str) -> Comment:
        """Let it say this instead."""
        text = filled(body, "a comment")
        id, _ = self._where.comment(comment.url)
        place = self._where.path("issues", "comments", id)
        return read.comment(await self._api.send("PATCH", place, {"body": text}, model="IssueComment"), self._where)

    async def comment_at(self, url: str) -> Comment:
        """The comment at that link."""
        id, on = self._where.comment(url)
        found = read.comment(
            await self._api.get("IssueComment", self._where.path("issues", "comments", id)), self._where
        )
        if on is not None and self._where.target(found.target) != on:
            raise self._where.unknown(url, "issue")
        return found

    async def react(self, to: Comment | str, reaction: Reaction) -> None:
        """A reaction of ours; GitHub keeps one of each."""
        if isinstance(to, str):
            place = self._where.path("issues", await self._number(to), "reactions")
        else:
            place = self._where.path("issues", "comments", self._where.comment(to.url)[0], "reactions")
        await self._api.send("POST", place, {"content": reaction})

    # --- looking

    async def _item(self, number: int, kind: Kind | None = None, reference: str = "") -> Any:
        """An issue or pull request as GitHub lists both; NotFound when it is of the other kind."""
        if number <= 0:
            raise self._where.unknown(reference or str(number), kind or "issue")
        said = await self._api.get("Issue", self._where.path("issues", number))
        if said.number != number:
            # One that was transferred is another's by now.
            raise self._where.unknown(reference or str(number), kind or "issue")
        self._kinds[number] = "pull" if read.is_pull(said) else "issue"
        if kind is not None and self._kinds[number] != kind:
            raise self._where.unknown(reference, kind)
        return said

    async def _number(self, target: str) -> int:
        """The number of a target that exists and is what it is called."""
        number, kind = self._where.target(target)
        if number not in self._kinds:
            await self._item(number, kind, target)
        if self._kinds[number] != kind:
            raise self._where.unknown(target, kind)
        return number

    def _path(self, number: int, kind: Kind) -> str:
        return self._where.path("issues" if kind == "issue" else "pulls", number)

    async def _remarks(self, parts: tuple[str | int, ...], asked: Params) -> tuple[Comment, ...]:
        found = await self._api.every("IssueComment", self._where.path(*parts), asked)
        return tuple(read.comment(said, self._where) for said in sorted(found, key=lambda said: said.id))

    async def _newest(self) -> list[Any]:
        """The newest of what is open, up to a page."""
        asked: Params = {"state": "open", "sort": "created", "direction": "desc"}
        return await _taken(self._api.each("Issue", self._where.path("issues"), asked), _LISTED)

    async def _ours(self, login: str) -> list[Any]:
        """The open issues we wrote lately, newest first."""
        asked: dict[str, str | int] = {"state": "open", "sort": "created", "direction": "desc"}
        # An App is no creator that could be asked for by its login.
        if not login.endswith("[bot]"):
            asked["creator"] = login
        listed = self._api.each("Issue", self._where.path("issues"), asked)
        lately = await _taken(listed, _MAX_FOUND, since=datetime.now(UTC) - _INDEX_LAG)
        return [said for said in lately if read.login(said.user) == login]

    async def _indexed(self, asked: Params) -> list[Any]:
        return await _taken(self._api.each(read.Found, "/search/issues", asked, within="items"), _MAX_FOUND)


async def _taken(listed: AsyncGenerator[Any, None], most: int, *, since: datetime | None = None) -> list[Any]:
    """The first of a listing, and no page more than they need; `since`: those that were made after it."""
    found: list[Any] = []
    async with aclosing(listed):
        async for said in listed:
            if since and said.created_at < since:
                break
            found.append(said)
            if len(found) >= most:
                break
    return found


def _since(at: float) -> dict[str, str | int]:
    """GitHub tells whole seconds, so it is asked from the second's beginning on."""
    return {"since": datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")} if at > 0 else {}


def _terms(words: str) -> str:
    """The words as GitHub's search takes them: each in quotes, so that none is one of its own words."""
    phrases = [" ".join((quoted or word).split()) for quoted, word in _TERMS.findall(words)]
    said, room = [], _MAX_SEARCH
    for phrase in filter(None, phrases):
        said.append(f'"{phrase[:room]}"')
        room -= len(phrase) + 3
        if room <= 0:
            break
    return " ".join(said)
