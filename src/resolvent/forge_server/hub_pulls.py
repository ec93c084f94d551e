"""What can be written about pull requests, each in the name of an account."""

from collections.abc import Sequence
from dataclasses import dataclass

from resolvent.adapters.forges.local_merging import Merging
from resolvent.adapters.forges.local_tables import PullReview, touch
from resolvent.adapters.forges.local_words import filled, sendable
from resolvent.adapters.journal.store import Connection
from resolvent.domain.change import Change
from resolvent.errors import ForgeRefused, HeadMoved, NotFound
from resolvent.forge_server.holdings import Account, Holdings, Item, Occurrence, Opined, Opinion
from resolvent.forge_server.hub_items import HubItems

_REMARK = """
INSERT INTO forge_line_remarks (review, author, body, path, line, on_commit, created_at)
VALUES (:review, :author, :body, :path, :line, :commit, :at)
"""


@dataclass(frozen=True)
class Proposal:
    """A pull request that is to be opened."""

    head: str
    base: str
    title: str
    body: str = ""
    draft: bool = False


@dataclass(frozen=True)
class Noted:
    """What a review says of one line of a file."""

    path: str
    line: int
    body: str


@dataclass(frozen=True)
class Opining:
    """A review that is to be written; without a commit it is about the head as it is now."""

    opinion: Opinion
    body: str = ""
    commit: str = ""
    remarks: Sequence[Noted] = ()


class HubPulls(HubItems):
    """Pull requests."""

    async def open_pull(self, by: Account, proposal: Proposal) -> Item:
        """A new pull request; ForgeRefused says which of head and base is `invalid`, that there is `nothing` between
        them, or the `number` of the one that is open already."""
        await self.allow(by, "read")
        said = {name: getattr(proposal, name) for name in ("head", "base", "title", "body", "draft")}
        pull = await self.forge.acting_as(by.login).open_pull_request(**said)
        return await self.happened(by, "opened", pull.number)

    async def set_draft(self, by: Account, number: int, draft: bool) -> Item:
        """A draft, or ready for review."""
        item = await self.item(number, "pull")
        await self.allow(by, "write", own=item.author)
        if item.draft == draft:
            return item
        await self.forge.acting_as(by.login).set_draft(await self.forge.pull_request(str(number)), draft)
        return await self.happened(by, "converted_to_draft" if draft else "ready_for_review", number)

    async def set_base(self, by: Account, number: int, base: str) -> Item:
        """Propose it onto another branch."""
        item = await self.item(number, "pull")
        await self.allow(by, "triage", own=item.author)
        if await self.forge.head_of(base) is None:
            raise ForgeRefused(f"{base} does not exist", invalid="base", field="base", status=422)
        for other in (await self.holdings()).items.values():
            if (other.head, other.base, other.state) == (item.head, base, "open") and other.number != number:
                raise ForgeRefused(f"#{other.number} is open for {item.head} onto {base}", number=other.number)
        if await self.tables.edit(number, base=base):
            return await self.happened(by, "edited", number)
        return item

    async def ask_for_review(self, by: Account, number: int, logins: Sequence[str]) -> Item:
        """Ask these people; ForgeRefused names who cannot be asked."""
        item = await self.item(number, "pull")
        await self.allow(by, "triage", own=item.author)
        await self.forge.ask_for_review(await self.forge.pull_request(str(number)), logins)
        for login in dict.fromkeys(logins):
            if login not in item.reviewers:
                await self.happened(by, "review_requested", number, login=login)
        return await self.item(number)

    async def unask(self, by: Account, number: int, logins: Sequence[str]) -> Item:
        """Ask these people no more."""
        item = await self.item(number, "pull")
        await self.allow(by, "triage", own=item.author)
        removed = [login for login in dict.fromkeys(logins) if login in item.reviewers]
        sql = "DELETE FROM forge_reviewers WHERE number = :number AND login = :login"

        def change(connection: Connection, at: float) -> None:
            for login in removed:
                connection.write(sql, number=number, login=login)
                touch(connection, number, at)

        await self.tables.change(change)
        for login in removed:
            await self.happened(by, "review_request_removed", number, login=login)
        return await self.item(number)

    async def opine(self, by: Account, number: int, review: Opining) -> Opined:
        """Write a review."""
        item = await self.item(number, "pull")
        await self.allow(by, "write" if item.locked else "read")
        if by.login == item.author and review.opinion != "comment":
            verb = "approve" if review.opinion == "approve" else "request changes on"
            raise ForgeRefused(f"Can not {verb} your own pull request", status=422)
        commit = review.commit or item.head_commit
        if await self.commit(commit) is None:
            raise ForgeRefused("commit_id is not part of the pull request", field="commit_id", status=422)
        if review.opinion != "approve" and not review.remarks:
            filled(review.body, "a review")
        said = PullReview(author=by.login, verdict=review.opinion, body=sendable(review.body), commit=commit)
        remarks = [(sendable(one.path), one.line, filled(one.body, "a remark")) for one in review.remarks]
        id = await self.tables.add_review(number, said)

        def add(connection: Connection, at: float) -> None:
            for path, line, body in remarks:
                place: dict[str, int | str] = {"path": path, "line": line, "commit": commit}
                connection.write(_REMARK, review=id, author=by.login, body=body, at=at, **place)

        await self.tables.change(add)
        return await self._opined(by, "submitted", number, id)

    async def dismiss(self, by: Account, number: int, id: int) -> Opined:
        """A review counts no longer."""
        await self.item(number, "pull")
        await self.allow(by, "write")
        sql = "UPDATE forge_reviews SET verdict = 'dismissed' WHERE id = :id AND number = :number"

        def dismiss(connection: Connection, at: float) -> None:
            if not connection.write(sql, id=id, number=number):
                raise NotFound(f"#{number} has no review {id}")
            touch(connection, number, at)

        await self.tables.change(dismiss)
        return await self._opined(by, "dismissed", number, id)

    async def _opined(self, by: Account, action: str, number: int, id: int) -> Opined:
        item = await self.item(number)
        review = next(one for one in item.reviews if one.id == id)
        await self.tell(Occurrence("pull_request_review", action, by, item=item, review=review))
        for remark in review.remarks if action == "submitted" else ():
            told = Occurrence("pull_request_review_comment", "created", by, item=item, review=review, line=remark)
            await self.tell(told)
        return review

    async def merge(self, by: Account, number: int, how: Merging | None = None, *, expect: str = "") -> Item:
        """Merge a pull request; with `expect`, only if that is its head. HeadMoved, or ForgeRefused with status 405."""
        item = await self.item(number, "pull")
        await self.allow(by, "write")
        if item.state != "open":
            raise ForgeRefused("Pull Request is not mergeable", status=405)
        if item.draft:
            raise ForgeRefused("Pull Request is still a draft", status=405)
        if expect and expect != item.head_commit:
            raise HeadMoved("Head branch was modified. Review and try the merge again.", status=409)
        how = how or Merging()
        before = await self.holdings()
        pull = await self.forge.pull_request(str(number))
        exactly = Change(commit=item.head_commit, tree=item.head_commit)
        try:
            await self.forge.acting_as(by.login).merge_as(pull, expect=exactly, how=how)
        except ForgeRefused as error:
            said = "Pull Request is not mergeable" if how.method != "rebase" else "This branch can't be rebased"
            raise ForgeRefused(said, status=405, why=error.message) from error
        merged = await self.happened(by, "closed", number)
        ref = f"refs/heads/{item.base}"
        await self.tell(Occurrence("push", "", by, ref=ref, before=before.refs[ref], after=merged.merge_commit))
        await self.told_closed(by, before)
        return merged

    async def told_closed(self, by: Account, before: Holdings) -> None:
        """Tell of the issues that a merge closed since everything was so."""
        for issue in (await self.holdings()).items.values():
            was = before.items.get(issue.number)
            if issue.kind == "issue" and issue.state == "closed" and was is not None and was.state == "open":
                await self.tell(Occurrence("issues", "closed", by, item=issue))
