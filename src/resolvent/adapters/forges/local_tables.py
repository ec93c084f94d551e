"""The tables of the local forge: issues and pull requests under one sequence of numbers, and what is said on them."""

from collections.abc import Sequence
from typing import Any, Literal

from resolvent.adapters.forges.local_words import Kind
from resolvent.adapters.journal.store import Connection, Store
from resolvent.domain.model import Value
from resolvent.domain.subject import Comment, Issue

Opinion = Literal["approve", "request_changes", "comment"]

SCHEMA: Sequence[Sequence[str]] = (
    (
        """CREATE TABLE forge_items (number {serial}, kind TEXT NOT NULL, title TEXT NOT NULL, body TEXT NOT NULL,
           author TEXT NOT NULL, state TEXT NOT NULL DEFAULT 'open', head TEXT NOT NULL DEFAULT '',
           base TEXT NOT NULL DEFAULT '')""",
        """CREATE UNIQUE INDEX forge_one_open_pull ON forge_items (head, base)
           WHERE kind = 'pull' AND state = 'open'""",
        "CREATE TABLE forge_labels (number BIGINT NOT NULL, name TEXT NOT NULL, PRIMARY KEY (number, name))",
        """CREATE TABLE forge_comments (id {serial}, number BIGINT NOT NULL, author TEXT NOT NULL,
           body TEXT NOT NULL)""",
        "CREATE INDEX forge_comments_of ON forge_comments (number)",
        """CREATE TABLE forge_reviews (id {serial}, number BIGINT NOT NULL, author TEXT NOT NULL,
           verdict TEXT NOT NULL, body TEXT NOT NULL, on_commit TEXT NOT NULL)""",
        "CREATE TABLE forge_required (name TEXT PRIMARY KEY)",
        """CREATE TABLE forge_checks (on_commit TEXT NOT NULL, name TEXT NOT NULL, state TEXT NOT NULL,
           log TEXT NOT NULL, PRIMARY KEY (on_commit, name))""",
        "CREATE TABLE forge_reruns (id {serial}, on_commit TEXT NOT NULL, name TEXT NOT NULL)",
    ),
)

_ADD = """
INSERT INTO forge_items (kind, title, body, author, head, base) VALUES (:kind, :title, :body, :author, :head, :base)
ON CONFLICT DO NOTHING RETURNING number
"""
_CLOSE = "UPDATE forge_items SET state = 'closed' WHERE number = :number AND state = 'open'"
_CLOSE_ISSUE = f"{_CLOSE} AND kind = 'issue'"
_MERGED = "UPDATE forge_items SET state = 'merged' WHERE number = :number AND state <> 'merged'"


class PullReview(Value):
    """What a person said of a pull request at one commit."""

    author: str
    verdict: Opinion
    body: str
    commit: str


class Tables:
    """Rows in, domain values out; a pull request stays a row here, because git knows the other half of it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def add_issue(self, *, title: str, body: str, labels: Sequence[str], author: str) -> Issue:
        """A new issue under the next number."""

        def add(connection: Connection) -> int:
            new = {"kind": "issue", "title": title, "body": body, "author": author, "head": "", "base": ""}
            number = int(connection.read(_ADD, **new)[0]["number"])
            _label(connection, number, labels)
            return number

        return (await self.issues(number=await self._store.transaction(add)))[0]

    async def add_pull(self, *, title: str, body: str, author: str, head: str, base: str) -> int | None:
        """A new pull request under the next number; None when one is open for this head and base."""
        new = {"kind": "pull", "title": title, "body": body, "author": author, "head": head, "base": base}
        added = await self._store.transaction(lambda connection: connection.read(_ADD, **new))
        return int(added[0]["number"]) if added else None

    async def issues(self, *, number: int | None = None) -> tuple[Issue, ...]:
        """All issues, or the one of that number, oldest first."""
        rows = await self.items("issue", number=number)
        labels: dict[int, list[str]] = {}
        which = "" if number is None else "WHERE number = :number"
        chosen = {} if number is None else {"number": number}
        for row in await self._store.read(f"SELECT number, name FROM forge_labels {which}", **chosen):
            labels.setdefault(row["number"], []).append(row["name"])
        return tuple(_issue(row, sorted(labels.get(row["number"], ()))) for row in rows)

    async def items(self, kind: Kind, *, number: int | None = None) -> list[dict[str, Any]]:
        """The rows of all issues or pull requests, or of the one with that number, oldest first."""
        which = "" if number is None else "AND number = :number"
        chosen: dict[str, Any] = {} if number is None else {"number": number}
        return await self._store.read(
            f"SELECT * FROM forge_items WHERE kind = :kind {which} ORDER BY number", kind=kind, **chosen
        )

    async def set_labels(self, number: int, labels: Sequence[str]) -> None:
        """The issue has exactly these labels."""
        await self._store.transaction(lambda connection: _label(connection, number, labels))

    async def close(self, number: int) -> None:
        """An open issue or pull request is closed; any other stays as it is."""
        await self._store.write(_CLOSE, number=number)

    async def land(self, number: int, *, fixes: Sequence[int]) -> None:
        """A pull request is merged, and with it the issues it fixes are closed; once."""

        def land(connection: Connection) -> None:
            if connection.write(_MERGED, number=number):
                for issue in fixes:
                    connection.write(_CLOSE_ISSUE, number=issue)

        await self._store.transaction(land)

    async def add_comment(self, number: int, *, kind: Kind, author: str, body: str) -> Comment:
        """One more comment on an issue or pull request."""
        row: dict[str, Any] = {"number": number, "author": author, "body": body}
        sql = "INSERT INTO forge_comments (number, author, body) VALUES (:number, :author, :body) RETURNING id"
        added = await self._store.transaction(lambda connection: connection.read(sql, **row))
        return _comment({**row, "id": added[0]["id"]}, kind)

    async def edit_comment(self, id: str, body: str) -> None:
        """The comment says this now."""
        await self._store.write("UPDATE forge_comments SET body = :body WHERE id = :id", id=int(id), body=body)

    async def comments(self, number: int, *, kind: Kind) -> tuple[Comment, ...]:
        """All comments on an issue or pull request, oldest first."""
        rows = await self._store.read("SELECT * FROM forge_comments WHERE number = :number ORDER BY id", number=number)
        return tuple(_comment(row, kind) for row in rows)

    async def add_review(self, number: int, review: PullReview) -> None:
        """One more review of a pull request."""
        await self._store.write(
            """INSERT INTO forge_reviews (number, author, verdict, body, on_commit)
               VALUES (:number, :author, :verdict, :body, :commit)""",
            number=number,
            **review.model_dump(),
        )

    async def reviews(self, number: int) -> tuple[PullReview, ...]:
        """All reviews of a pull request, oldest first."""
        rows = await self._store.read("SELECT * FROM forge_reviews WHERE number = :number ORDER BY id", number=number)
        return tuple(
            PullReview(author=row["author"], verdict=row["verdict"], body=row["body"], commit=row["on_commit"])
            for row in rows
        )


def _label(connection: Connection, number: int, labels: Sequence[str]) -> None:
    connection.write("DELETE FROM forge_labels WHERE number = :number", number=number)
    for name in dict.fromkeys(labels):
        connection.write("INSERT INTO forge_labels (number, name) VALUES (:number, :name)", number=number, name=name)


def _issue(row: dict[str, Any], labels: Sequence[str]) -> Issue:
    return Issue(
        number=row["number"],
        title=row["title"],
        body=row["body"],
        url=f"local:issues/{row['number']}",
        author=row["author"],
        labels=tuple(labels),
        state=row["state"],
    )


def _comment(row: dict[str, Any], kind: Kind) -> Comment:
    url = f"local:{kind}s/{row['number']}#comment-{row['id']}"
    return Comment(id=str(row["id"]), author=row["author"], body=row["body"], url=url)
