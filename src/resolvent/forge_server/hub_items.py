"""What can be written about issues and pull requests alike, each in the name of an account."""

from collections.abc import Sequence

from resolvent.adapters.forges.local_issues import REACTIONS
from resolvent.adapters.forges.local_tables import add_labels, remove_labels, touch
from resolvent.adapters.forges.local_words import filled, label_name, sendable, title_line
from resolvent.adapters.journal.store import Connection
from resolvent.errors import ForgeRefused, NotFound
from resolvent.forge_server.holdings import Account, Item, Label, Occurrence, Reacted, Remark
from resolvent.forge_server.hub_core import HubCore

KINDS = {"issue": "issues", "pull": "pull_request"}
_REASONS = ("", "completed", "not_planned", "duplicate")
_ASSIGN = "INSERT INTO forge_assignees (number, login) VALUES (:number, :login) ON CONFLICT DO NOTHING"
_UNASSIGN = "DELETE FROM forge_assignees WHERE number = :number AND login = :login"
_REACT = """
INSERT INTO forge_reactions (number, comment, login, content, created_at)
VALUES (:number, :comment, :login, :content, :at) ON CONFLICT DO NOTHING
"""
_LABEL = """
INSERT INTO forge_known_labels (name, color, description) VALUES (:name, :color, :description)
ON CONFLICT (name) DO UPDATE SET color = excluded.color, description = excluded.description
"""


class HubItems(HubCore):
    """Issues, and what they share with pull requests."""

    async def open_issue(self, by: Account, *, title: str, body: str = "", labels: Sequence[str] = ()) -> Item:
        """A new issue; labels count only from who may label."""
        await self.allow(by, "read")
        given = labels if by.permission not in ("none", "read") else ()
        issue = await self.forge.acting_as(by.login).open_issue(title=title, body=body, labels=given)
        item = await self.happened(by, "opened", issue.number or 0)
        for name in item.labels:
            await self.happened(by, "labeled", item.number, label=name)
        return item

    async def edit_item(self, by: Account, number: int, *, title: str | None = None, body: str | None = None) -> Item:
        """Let its title or body be another."""
        item = await self.item(number)
        await self.allow(by, "triage", own=item.author)
        said = {"title": None if title is None else title_line(title), "body": None if body is None else sendable(body)}
        wanted = {name: text for name, text in said.items() if text is not None}
        if wanted and await self.tables.edit(number, **wanted):
            return await self.happened(by, "edited", number)
        return item

    async def set_state(self, by: Account, number: int, state: str, *, reason: str = "") -> Item:
        """Open or closed; a reason is `completed` or `not_planned`."""
        item = await self.item(number)
        await self.allow(by, "triage", own=item.author)
        if reason not in _REASONS:
            raise ForgeRefused(f"{reason!r} is no reason", field="state_reason", status=422)
        if item.state == state:
            return item
        target = f"{'pr' if item.kind == 'pull' else 'issue'}-{number}"
        await self.forge.acting_as(by.login).set_state(target, state, reason=reason or "completed")
        return await self.happened(by, "closed" if state == "closed" else "reopened", number)

    async def lock(self, by: Account, number: int, on: bool) -> Item:
        """Nobody but who may write can say more, or everybody again."""
        await self.item(number)
        await self.allow(by, "triage")
        if await self.tables.edit(number, locked=int(on)):
            return await self.happened(by, "locked" if on else "unlocked", number)
        return await self.item(number)

    # --- labels and assignees

    async def label(self, by: Account, number: int, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> Item:
        """Give labels, made if they are new, and take others away."""
        item = await self.item(number)
        await self.allow(by, "triage")
        added = [name for name in dict.fromkeys(map(label_name, add)) if name not in item.labels]
        removed = [name for name in dict.fromkeys(remove) if name in item.labels]
        if not added and not removed:
            return item

        def change(connection: Connection, at: float) -> None:
            remove_labels(connection, number, removed)
            add_labels(connection, number, added, by.login, at)
            touch(connection, number, at)

        await self.tables.change(change)
        for name in removed:
            await self.happened(by, "unlabeled", number, label=name)
        for name in added:
            await self.happened(by, "labeled", number, label=name)
        return await self.item(number)

    async def set_labels(self, by: Account, number: int, labels: Sequence[str]) -> Item:
        """Let it have exactly these labels."""
        there = (await self.item(number)).labels
        return await self.label(by, number, add=labels, remove=[name for name in there if name not in labels])

    async def make_label(self, by: Account, name: str, color: str = "ededed", description: str = "") -> Label:
        """A label of the repository, made or changed to look so."""
        await self.allow(by, "write")
        said = {"name": label_name(name), "color": sendable(color), "description": sendable(description)}
        await self.tables.change(lambda connection, at: connection.write(_LABEL, **said))
        return (await self.holdings()).labels[said["name"]]

    async def delete_label(self, by: Account, name: str) -> None:
        """Take a label from the repository, and from whatever has it."""
        await self.allow(by, "write")
        if name not in (await self.holdings()).labels:
            raise NotFound(f"there is no label {name!r}")

        def delete(connection: Connection, at: float) -> None:
            for table in ("forge_known_labels", "forge_labels"):
                connection.write(f"DELETE FROM {table} WHERE name = :name", name=name)

        await self.tables.change(delete)

    async def assign(self, by: Account, number: int, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> Item:
        """Who is to work on it; somebody without an account is left out, as on GitHub."""
        item = await self.item(number)
        await self.allow(by, "triage")
        known = (await self.holdings()).accounts
        added = [login for login in dict.fromkeys(add) if login in known and login not in item.assignees]
        removed = [login for login in dict.fromkeys(remove) if login in item.assignees]
        if not added and not removed:
            return item

        def change(connection: Connection, at: float) -> None:
            for login in removed:
                connection.write(_UNASSIGN, number=number, login=login)
            for login in added:
                connection.write(_ASSIGN, number=number, login=login)
            touch(connection, number, at)

        await self.tables.change(change)
        for action, logins in (("unassigned", removed), ("assigned", added)):
            for login in logins:
                await self.happened(by, action, number, login=login)
        return await self.item(number)

    # --- remarks and reactions

    async def remark(self, by: Account, number: int, body: str) -> Remark:
        """One more comment."""
        item = await self.item(number)
        await self.allow(by, "write" if item.locked else "read")
        made = await self.tables.add_comment(number, author=by.login, body=filled(body, "a comment"))
        return await self._remarked(by, "created", int(made.id))

    async def edit_remark(self, by: Account, id: int, body: str) -> Remark:
        """Let a comment say this instead."""
        await self.allow(by, "write", own=(await self.find_remark(id)).author)
        await self.tables.edit_comment(id, filled(body, "a comment"))
        return await self._remarked(by, "edited", id)

    async def delete_remark(self, by: Account, id: int) -> None:
        """Take a comment away."""
        remark = await self.find_remark(id)
        await self.allow(by, "write", own=remark.author)

        def delete(connection: Connection, at: float) -> None:
            connection.write("DELETE FROM forge_comments WHERE id = :id", id=id)
            connection.write("DELETE FROM forge_reactions WHERE comment = :id", id=id)
            touch(connection, remark.number, at)

        await self.tables.change(delete)
        item = await self.item(remark.number)
        await self.tell(Occurrence("issue_comment", "deleted", by, item=item, remark=remark))

    async def react(self, by: Account, content: str, *, number: int = 0, remark: int = 0) -> Reacted:
        """A reaction to an issue or pull request, or to a comment; once."""
        await self.allow(by, "read")
        if content not in REACTIONS:
            raise ForgeRefused(f"{content!r} is no reaction", field="content", status=422)
        on = (await self.find_remark(remark)).number if remark else (await self.item(number)).number
        said: dict[str, int | str] = {"number": on, "comment": remark, "login": by.login, "content": content}
        await self.tables.change(lambda connection, at: connection.write(_REACT, **said, at=at))
        there = (await self.find_remark(remark)).reactions if remark else (await self.item(number)).reactions
        return next(one for one in there if (one.login, one.content) == (by.login, content))

    async def unreact(self, by: Account, id: int) -> None:
        """Take a reaction back; one's own, or any if one may write."""
        rows = await self.store.read("SELECT login FROM forge_reactions WHERE id = :id", id=id)
        if not rows:
            raise NotFound(f"there is no reaction {id}")
        await self.allow(by, "write", own=rows[0]["login"])
        sql = "DELETE FROM forge_reactions WHERE id = :id"
        await self.tables.change(lambda connection, at: connection.write(sql, id=id))

    async def find_remark(self, id: int) -> Remark:
        """The comment with that id; NotFound if there is none."""
        rows = await self.store.read("SELECT number FROM forge_comments WHERE id = :id", id=id)
        for row in rows:
            for remark in (await self.item(row["number"])).remarks:
                if remark.id == id:
                    return remark
        raise NotFound(f"there is no comment {id}")

    async def happened(self, by: Account, action: str, number: int, *, label: str = "", login: str = "") -> Item:
        """Tell what happened to an issue or pull request; as it is now."""
        item = await self.item(number)
        await self.tell(Occurrence(KINDS[item.kind], action, by, item=item, label=label, login=login))
        return item

    async def _remarked(self, by: Account, action: str, id: int) -> Remark:
        remark = await self.find_remark(id)
        item = await self.item(remark.number)
        await self.tell(Occurrence("issue_comment", action, by, item=item, remark=remark))
        return remark
