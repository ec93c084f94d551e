"""The tables of the local forge: issues and pull requests under one sequence of numbers, and what is said on them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from resolvent.adapters.forges.local_words import Kind
from resolvent.adapters.journal.store import Connection, Store
from resolvent.domain.model import Value
from resolvent.domain.subject import Comment, Issue, Labelling
from resolvent.ports import Clock

T = TypeVar("T")
Row = dict[str, Any]
Opinion = Literal["approve", "request_changes", "comment", "dismissed"]

_ADD = """
INSERT INTO forge_items (kind, title, body, author, head, base, draft, created_at, updated_at)
VALUES (:kind, :title, :body, :author, :head, :base, :draft, :at, :at) ON CONFLICT DO NOTHING RETURNING number
"""
_CLOSE = """
UPDATE forge_items SET state = 'closed', closed_at = :at, updated_at = :at, reason = :reason
WHERE number = :number AND state = 'open'
"""
_REOPEN = """
UPDATE forge_items SET state = 'open', closed_at = NULL, updated_at = :at, reason = 'reopened'
WHERE number = :number AND state = 'closed'
"""
_RIVAL = """
SELECT number FROM forge_items WHERE kind = 'pull' AND state = 'open' AND number <> :number
AND head = (SELECT head FROM forge_items WHERE number = :number)
AND base = (SELECT base FROM forge_items WHERE number = :number)
"""
_MERGED = """
UPDATE forge_items SET state = 'merged', merged_at = :at, closed_at = :at, updated_at = :at
WHERE number = :number AND state <> 'merged'
"""
_LABEL = """
INSERT INTO forge_labels (number, name, by_login, created_at) VALUES (:number, :name, :by, :at) ON CONFLICT DO NOTHING
"""
_LABELLINGS = """
SELECT l.name, l.created_at, a.login FROM forge_labels l LEFT JOIN forge_accounts a ON a.login = l.by_login
WHERE l.number = :number
"""
_COMMENT = """
INSERT INTO forge_comments (number, author, body, created_at, updated_at)
VALUES (:number, :author, :body, :at, :at) RETURNING id
"""
_ON = """
SELECT c.*, i.kind FROM forge_comments c JOIN forge_items i ON i.number = c.number
"""
_REVIEW = """
INSERT INTO forge_reviews (number, author, verdict, body, on_commit, created_at)
VALUES (:number, :author, :verdict, :body, :commit, :at) RETURNING id
"""


class PullReview(Value):
    """What a person said of a pull request at one commit."""

    author: str
    verdict: Opinion
    body: str
    commit: str


class Tables:
    """Rows in, domain values out; a pull request stays a row here, because git knows the other half of it."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store = store
        self.clock = clock

    async def change(self, work: Callable[[Connection, float], T]) -> T:
        """Do the work at one instant in one transaction, and let whoever keeps a copy know."""
        at = self.clock.now()

        def changing(connection: Connection) -> T:
            done = work(connection, at)
            connection.write("UPDATE forge_version SET number = number + 1")
            return done

        return await self.store.transaction(changing)

    async def add_issue(self, *, title: str, body: str, labels: Sequence[str], author: str) -> Issue:
        """A new issue under the next number."""

        def add(connection: Connection, at: float) -> int:
            new = {"kind": "issue", "title": title, "body": body, "author": author, "head": "", "base": ""}
            number = int(connection.read(_ADD, **new, draft=0, at=at)[0]["number"])
            add_labels(connection, number, labels, author, at)
            return number

        return (await self.issues(number=await self.change(add)))[0]

    async def add_pull(self, said: Mapping[str, str], *, draft: bool) -> int | None:
        """A new pull request under the next number; None when one is open for this head and base."""
        added = await self.change(lambda connection, at: connection.read(_ADD, kind="pull", **said, draft=draft, at=at))
        return int(added[0]["number"]) if added else None

    async def issues(self, *, number: int | None = None) -> tuple[Issue, ...]:
        """All issues, or the one of that number, oldest first."""
        rows = await self.items("issue", number=number)
        labels = await self.labels(number=number)
        return tuple(_issue(row, labels.get(row["number"], ())) for row in rows)

    async def items(self, kind: Kind, *, number: int | None = None) -> list[Row]:
        """The rows of all issues or pull requests, or of the one with that number, oldest first."""
        which = "" if number is None else "AND number = :number"
        chosen: Row = {} if number is None else {"number": number}
        return await self.store.read(
            f"SELECT * FROM forge_items WHERE kind = :kind {which} ORDER BY number", kind=kind, **chosen
        )

    async def labels(self, *, number: int | None = None) -> dict[int, tuple[str, ...]]:
        """The names by issue or pull request, sorted here: the databases do not agree on the order of text."""
        which = "" if number is None else "WHERE number = :number"
        chosen: Row = {} if number is None else {"number": number}
        found: dict[int, list[str]] = {}
        for row in await self.store.read(f"SELECT number, name FROM forge_labels {which}", **chosen):
            found.setdefault(row["number"], []).append(row["name"])
        return {at: tuple(sorted(names)) for at, names in found.items()}

    async def labelling(self, number: int, label: str) -> Labelling:
        """Who put it on; who has no account is whoever has this machine, and that is nobody others could name."""
        for row in await self.store.read(_LABELLINGS, number=number):
            if row["name"].casefold() == label.casefold():
                return Labelling(by=row["login"] or "", at=row["created_at"])
        return Labelling()

    async def set_state(self, number: int, state: str, *, reason: str = "completed") -> int | None:
        """Open or closed from now on, unless it is so; the number of an open pull request that stands in its way."""

        def turn(connection: Connection, at: float) -> int | None:
            if state == "closed":
                connection.write(_CLOSE, number=number, at=at, reason=reason)
                return None
            if rivals := connection.read(_RIVAL, number=number):
                return int(rivals[0]["number"])
            connection.write(_REOPEN, number=number, at=at)
            return None

        return await self.change(turn)

    async def land(self, number: int, *, fixes: Sequence[int], by: str = "") -> None:
        """A pull request is merged, and with it the issues it fixes are closed; once."""

        def land(connection: Connection, at: float) -> None:
            if connection.write(_MERGED, number=number, at=at):
                for issue in fixes:
                    connection.write(f"{_CLOSE} AND kind = 'issue'", number=issue, at=at, reason="completed")
            sql = "UPDATE forge_items SET merged_by = :by WHERE number = :number AND merged_by = ''"
            connection.write(sql, number=number, by=by)

        await self.change(land)

    async def edit(self, number: int, **columns: str | int) -> bool:
        """These columns of an issue or pull request say this now; False when they did already."""
        says = ", ".join(f"{name} = :{name}" for name in columns)
        differs = " OR ".join(f"{name} <> :{name}" for name in columns)
        sql = f"UPDATE forge_items SET {says}, updated_at = :at WHERE number = :number AND ({differs})"
        return bool(await self.change(lambda connection, at: connection.write(sql, **columns, number=number, at=at)))

    async def touch(self, number: int) -> None:
        """Something about an issue or pull request changed now."""
        await self.change(lambda connection, at: touch(connection, number, at))

    async def add_comment(self, number: int, *, author: str, body: str) -> Comment:
        """One more comment on an issue or pull request."""

        def add(connection: Connection, at: float) -> int:
            touch(connection, number, at)
            return int(connection.read(_COMMENT, number=number, author=author, body=body, at=at)[0]["id"])

        return (await self.comments("c.id = :id", id=await self.change(add)))[0]

    async def edit_comment(self, id: int, body: str) -> None:
        """The comment says this now."""

        def edit(connection: Connection, at: float) -> None:
            sql = "UPDATE forge_comments SET body = :body, updated_at = :at WHERE id = :id"
            connection.write(sql, id=id, body=body, at=at)
            for row in connection.read("SELECT number FROM forge_comments WHERE id = :id", id=id):
                touch(connection, row["number"], at)

        await self.change(edit)

    async def comments(self, which: str, **chosen: float) -> tuple[Comment, ...]:
        """The comments that a condition chooses, oldest first."""
        return tuple(_comment(row) for row in await self.store.read(f"{_ON} WHERE {which} ORDER BY c.id", **chosen))

    async def add_review(self, number: int, review: PullReview) -> int:
        """One more review of a pull request; its id."""

        def add(connection: Connection, at: float) -> int:
            touch(connection, number, at)
            # Who has said something need not be asked any more.
            sql = "DELETE FROM forge_reviewers WHERE number = :number AND login = :login"
            connection.write(sql, number=number, login=review.author)
            return int(connection.read(_REVIEW, number=number, at=at, **review.model_dump())[0]["id"])

        return await self.change(add)

    async def reviews(self, number: int) -> tuple[PullReview, ...]:
        """All reviews of a pull request, oldest first."""
        rows = await self.store.read("SELECT * FROM forge_reviews WHERE number = :number ORDER BY id", number=number)
        return tuple(
            PullReview(author=row["author"], verdict=row["verdict"], body=row["body"], commit=row["on_commit"])
            for row in rows
        )


def touch(connection: Connection, number: int, at: float) -> None:
    """Something about it was written at this instant."""
    connection.write("UPDATE forge_items SET updated_at = :at WHERE number = :number", number=number, at=at)


def add_labels(connection: Connection, number: int, labels: Sequence[str], by: str, at: float) -> int:
    """Give it labels in somebody's name, made if they are new; how many it did not have."""
    added = 0
    for name in dict.fromkeys(labels):
        connection.write("INSERT INTO forge_known_labels (name) VALUES (:name) ON CONFLICT DO NOTHING", name=name)
        added += connection.write(_LABEL, number=number, name=name, by=by, at=at)
    return added


def remove_labels(connection: Connection, number: int, labels: Sequence[str]) -> int:
    """Take labels away; how many it had."""
    sql = "DELETE FROM forge_labels WHERE number = :number AND name = :name"
    return sum(connection.write(sql, number=number, name=name) for name in dict.fromkeys(labels))


def _issue(row: Row, labels: Sequence[str]) -> Issue:
    return Issue(
        number=row["number"],
        title=row["title"],
        body=row["body"],
        url=f"local:issues/{row['number']}",
        author=row["author"],
        labels=tuple(labels),
        state=row["state"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def _comment(row: Row) -> Comment:
    return Comment(
        id=str(row["id"]),
        author=row["author"],
        body=row["body"],
        url=f"local:{row['kind']}s/{row['number']}#comment-{row['id']}",
        target=f"{'pr' if row['kind'] == 'pull' else 'issue'}-{row['number']}",
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )
