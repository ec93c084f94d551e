"""Issues of the local forge, and what issues and pull requests have in common: states, labels, comments, reactions."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from itertools import islice
from typing import Self

from resolvent.adapters.forges.local_git import Refs
from resolvent.adapters.forges.local_tables import Tables, add_labels, remove_labels, touch
from resolvent.adapters.forges.local_words import (
    Kind,
    filled,
    label_name,
    matches,
    number_of,
    sendable,
    target_of,
    title_line,
    unknown,
)
from resolvent.adapters.journal.store import Connection
from resolvent.domain.subject import Comment, Issue, Labelling, Listed, Reaction
from resolvent.errors import ForgeRefused, NotFound

_REACT = """
INSERT INTO forge_reactions (number, comment, login, content, created_at)
VALUES (:number, :comment, :login, :content, :at) ON CONFLICT DO NOTHING
"""
REACTIONS = ("+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes")


@dataclass(frozen=True)
class Names:
    """Who writes, who owns the forge, and whose markers count besides."""

    login: str
    owner: str
    trusted: tuple[str, ...]


class LocalIssues:
    """The half of the forge that needs only its tables."""

    def __init__(self, tables: Tables, refs: Refs, names: Names) -> None:
        self._tables = tables
        self._refs = refs
        self._names = names

    def acting_as(self, login: str) -> Self:
        """The same forge, written to in another name."""
        other = copy(self)
        other._names = Names(filled(login, "a login"), self._names.owner, self._names.trusted)
        return other

    async def login(self) -> str:
        return self._names.login

    async def trusted(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self._names.login, *self._names.trusted)))

    async def issue(self, reference: str) -> Issue:
        number = await self._number(reference, "issue")
        return (await self._tables.issues(number=number))[0]

    async def issues(
        self, state: Listed = "open", *, labels: Sequence[str] = (), since: float = 0.0
    ) -> tuple[Issue, ...]:
        return tuple(
            issue
            for issue in await self._tables.issues()
            if state in ("all", issue.state) and issue.updated_at >= since and set(labels) <= set(issue.labels)
        )

    async def search_issues(self, words: str, *, limit: int = 10) -> tuple[Issue, ...]:
        found = (issue for issue in await self.issues("open") if matches(issue, words))
        return tuple(islice(found, max(0, limit)))

    async def open_issue(self, *, title: str, body: str, labels: Sequence[str] = ()) -> Issue:
        return await self.create_issue(title, body, labels=labels)

    async def create_issue(self, title: str, body: str, *, labels: Sequence[str] = (), author: str = "") -> Issue:
        """Open an issue in anyone's name."""
        return await self._tables.add_issue(
            title=title_line(title),
            body=sendable(body),
            labels=[label_name(label) for label in labels],
            author=sendable(author) or self._names.login,
        )

    async def rewrite(self, reference: str, *, title: str, body: str) -> Issue:
        """Let an issue say something else."""
        await self._tables.edit(await self._number(reference, "issue"), title=title_line(title), body=sendable(body))
        return await self.issue(reference)

    async def label(self, target: str, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> None:
        number, _ = await self._target(target)
        wanted, by = [label_name(name) for name in add], self._names.login

        def change(connection: Connection, at: float) -> None:
            if remove_labels(connection, number, remove) + add_labels(connection, number, wanted, by, at):
                touch(connection, number, at)

        await self._tables.change(change)

    async def labelling(self, target: str, label: str) -> Labelling:
        number, _ = await self._target(target)
        return await self._tables.labelling(number, label)

    async def comments(self, target: str) -> tuple[Comment, ...]:
        number, _ = await self._target(target)
        return await self._tables.comments("c.number = :number", number=number)

    async def comments_since(self, instant: float) -> tuple[Comment, ...]:
        return await self._tables.comments("c.updated_at >= :since", since=instant)

    async def comment(self, target: str, body: str, *, author: str = "") -> Comment:
        number, _ = await self._target(target)
        text = filled(body, "a comment")
        return await self._tables.add_comment(number, author=sendable(author) or self._names.login, body=text)

    async def edit_comment(self, comment: Comment, body: str) -> Comment:
        text = filled(body, "a comment")
        await self._tables.edit_comment(int((await self.comment_at(comment.url)).id), text)
        return await self.comment_at(comment.url)

    async def comment_at(self, url: str) -> Comment:
        number, _ = await self._target(url)
        for comment in await self._tables.comments("c.number = :number", number=number):
            if comment.url == url:
                return comment
        raise NotFound(f"there is no comment at {url!r}", hint="resolvent issue ls")

    async def react(self, to: Comment | str, reaction: Reaction) -> None:
        if reaction not in REACTIONS:
            raise ForgeRefused(f"{reaction!r} is no reaction: one of {', '.join(REACTIONS)}")
        there = await self.comment_at(to.url) if isinstance(to, Comment) else None
        number, _ = await self._target(there.target if there else str(to))
        on = int(there.id) if there else 0
        said: dict[str, int | str] = {
            "number": number,
            "comment": on,
            "login": self._names.login,
            "content": reaction,
        }
        await self._tables.change(lambda connection, at: connection.write(_REACT, **said, at=at))

    async def _number(self, reference: str, kind: Kind) -> int:
        """The number a reference names, when there is such an issue or pull request."""
        number = number_of(reference, kind)
        if not await self._tables.items(kind, number=number):
            raise unknown(reference, kind)
        return number

    async def _target(self, text: str) -> tuple[int, Kind]:
        number, kind = target_of(text)
        return await self._number(str(number), kind), kind
