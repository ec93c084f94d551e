"""Pull requests of the local forge: rows for what was said, git for where they are."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any, Literal, get_args

from resolvent.adapters.forges.local_git import NONE, branch_ref, last_head_ref, merged_ref
from resolvent.adapters.forges.local_issues import LocalIssues
from resolvent.adapters.forges.local_merging import Merging, merge
from resolvent.adapters.forges.local_tables import Opinion, PullReview, touch
from resolvent.adapters.forges.local_words import filled, fixed_by, sendable, title_line
from resolvent.adapters.journal.store import Connection
from resolvent.domain.change import Change
from resolvent.domain.subject import Listed, MergeMethod, Permission, PullRequest
from resolvent.errors import ForgeRefused, HeadMoved

_RANKS: tuple[Permission, ...] = get_args(Permission)
_ASK = "INSERT INTO forge_reviewers (number, login) VALUES (:number, :login) ON CONFLICT DO NOTHING"


class LocalPulls(LocalIssues):
    """Issues, and the half of the forge that git knows about."""

    async def permission(self, login: str) -> Permission:
        if login == self._names.owner:
            return "admin"
        rows = await self._tables.store.read("SELECT permission FROM forge_accounts WHERE login = :login", login=login)
        known: Permission = rows[0]["permission"] if rows else "none"
        return max(known, "write", key=_RANKS.index) if login in self._names.trusted else known

    async def push(self, change: Change, *, source: Path, head: str, expect: str | None) -> None:
        await self._refs.push(change, source=source, head=head, expect=expect)
        await self.head_moved(head)

    async def delete_branch(self, branch: str, *, expect: str) -> None:
        if branch == await self._refs.default_branch():
            raise ForgeRefused(f"{branch} is the default branch: it stays")
        for pull in await self.pull_requests(head=branch, state="open"):
            await self._refs.keep_head(pull.number, pull.head_commit)
        await self._refs.delete(branch, expect=expect)
        await self.head_moved(branch)

    async def head_moved(self, branch: str) -> None:
        """Git moved or removed a branch: its open pull requests changed now, and are closed when it is gone."""
        gone = f"refs/heads/{branch}" not in await self._refs.read()
        sql = "SELECT number FROM forge_items WHERE kind = 'pull' AND state = 'open' AND head = :head"
        for row in await self._tables.store.read(sql, head=branch):
            number = int(row["number"])
            if gone:
                await self._tables.set_state(number, "closed")
            else:
                await self._tables.touch(number)

    async def pull_request(self, reference: str) -> PullRequest:
        number = await self._number(reference, "pull")
        return (await self._pulls(number=number))[0]

    async def pull_requests(self, *, head: str = "", state: Listed = "all") -> tuple[PullRequest, ...]:
        wanted = {"open": ("open",), "closed": ("closed", "merged")}.get(state, ("open", "closed", "merged"))
        return tuple(
            pull for pull in await self.pulls("all") if pull.state in wanted and (not head or pull.head == head)
        )

    async def pulls(self, state: Literal["open", "closed", "merged", "all"] = "open") -> tuple[PullRequest, ...]:
        """The pull requests in that state, newest first; here a merged one is not a closed one."""
        return tuple(pull for pull in reversed(await self._pulls()) if state in ("all", pull.state))

    async def open_pull_request(
        self, *, head: str, base: str, title: str, body: str, draft: bool = False
    ) -> PullRequest:
        refs = await self._refs.read()
        tip, onto = refs.get(branch_ref(head)), refs.get(branch_ref(base))
        if tip is None or onto is None:
            gone = "head" if tip is None else "base"
            raise ForgeRefused(
                f"{head if tip is None else base} does not exist on the forge: push it first", invalid=gone
            )
        if await self._refs.contains(onto, tip):
            raise ForgeRefused(f"{base} holds everything of {head} already: there is nothing to propose", nothing=True)
        for pull in await self.pull_requests(head=head, state="open"):
            if pull.base == base:
                hint = f"resolvent pr show {pull.number}"
                raise ForgeRefused(f"#{pull.number} is open for {head} onto {base}", hint=hint, number=pull.number)
        said = {"title": title_line(title), "body": sendable(body), "author": self._names.login}
        number = await self._tables.add_pull({**said, "head": head, "base": base}, draft=draft)
        if number is None:
            # Someone was faster: look again, and name theirs.
            return await self.open_pull_request(head=head, base=base, title=title, body=body, draft=draft)
        return await self.pull_request(str(number))

    async def set_draft(self, pull: PullRequest, draft: bool) -> PullRequest:
        now = await self.pull_request(str(pull.number))
        if now.draft != draft:
            if now.state != "open":
                raise ForgeRefused(f"#{now.number} is {now.state}", hint=f"resolvent pr show {now.number}")
            await self._tables.edit(now.number, draft=int(draft))
        return await self.pull_request(str(pull.number))

    async def ask_for_review(self, pull: PullRequest, logins: Sequence[str]) -> None:
        now = await self.pull_request(str(pull.number))
        asked = tuple(dict.fromkeys(logins))
        for login in asked:
            if login == now.author or await self.permission(login) == "none":
                raise ForgeRefused(f"{login} cannot be asked to review #{now.number}", login=login)

        def ask(connection: Connection, at: float) -> None:
            if sum(connection.write(_ASK, number=now.number, login=login) for login in asked):
                touch(connection, now.number, at)

        await self._tables.change(ask)

    async def set_state(self, target: str, state: str, *, reason: str = "completed") -> None:
        number, kind = await self._target(target)
        if state not in ("open", "closed"):
            raise ForgeRefused(f"{target} can be open or closed, not {state!r}")
        if kind == "pull":
            pull = await self.pull_request(str(number))
            if pull.state == state:
                return
            await self._turn(pull, state)
        else:
            await self._tables.set_state(number, state, reason=reason)

    async def _turn(self, pull: PullRequest, state: str) -> None:
        shown = f"resolvent pr show {pull.number}"
        if pull.state == "merged":
            raise ForgeRefused(f"#{pull.number} is merged", hint=shown)
        if state == "closed":
            await self._refs.keep_head(pull.number, pull.head_commit)
        elif await self.head_of(pull.head) is None:
            raise ForgeRefused(f"#{pull.number} cannot be opened again: {pull.head} is gone", hint=shown)
        if rival := await self._tables.set_state(pull.number, state):
            raise ForgeRefused(f"#{rival} is open for {pull.head} onto {pull.base}", hint=shown, number=rival)

    async def merge(self, pull: PullRequest, *, expect: Change, method: MergeMethod = "merge") -> PullRequest:
        return await self.merge_as(pull, expect=expect, how=Merging(method))

    async def merge_as(self, pull: PullRequest, *, expect: Change, how: Merging) -> PullRequest:
        """Merge exactly that head with words of one's own."""
        now = await self.pull_request(str(pull.number))
        if now.state == "closed":
            raise ForgeRefused(f"#{pull.number} is closed", hint=f"resolvent pr show {pull.number}")
        if now.state == "open" and now.draft:
            raise ForgeRefused(f"#{pull.number} is a draft", hint=f"resolvent pr show {pull.number}", draft=True)
        await merge(self._refs, now, commit=expect.commit, how=how)
        if now.state != "merged":
            await self._tables.land(now.number, fixes=fixed_by(now.body), by=self._names.login)
        merged = await self.pull_request(str(pull.number))
        if merged.head_commit != expect.commit:
            raise HeadMoved(f"#{pull.number} was merged at {merged.head_commit}, not at {expect.commit}")
        return merged

    async def find_merged(self, base: str) -> tuple[int, ...]:
        """Record as merged whatever a branch that was moved by hand holds already; the numbers."""
        found = []
        tip = await self.head_of(base)
        for pull in await self.pulls("open"):
            if tip and pull.base == base and await self._refs.contains(tip, pull.head_commit):
                await merge(self._refs, pull, commit=pull.head_commit)
                await self._tables.land(pull.number, fixes=fixed_by(pull.body), by=self._names.login)
                found.append(pull.number)
        return tuple(found)

    def fetch_line(self, pull: PullRequest) -> str:
        forge = quote(str(self._refs.git.git_dir))
        if pull.state == "merged":
            return f"git fetch {forge} {quote(pull.base)} && git merge --ff-only FETCH_HEAD"
        return f"git fetch {forge} {quote(pull.head)} && git checkout FETCH_HEAD"

    async def review(self, pull: PullRequest, author: str, *, verdict: Opinion, body: str = "") -> PullReview:
        """Record what a person says of a pull request as it is now."""
        now = await self.pull_request(str(pull.number))
        review = PullReview(
            author=filled(author, "an author"), verdict=verdict, body=sendable(body), commit=now.head_commit
        )
        await self._tables.add_review(pull.number, review)
        return review

    async def reviews(self, pull: PullRequest) -> tuple[PullReview, ...]:
        """What people said of a pull request, oldest first."""
        return await self._tables.reviews(pull.number)

    async def head_of(self, branch: str) -> str | None:
        return (await self._refs.read()).get(f"refs/heads/{branch}")

    async def _pulls(self, *, number: int | None = None) -> tuple[PullRequest, ...]:
        rows: Iterable[dict[str, Any]] = await self._tables.items("pull", number=number)
        refs, labels = await self._refs.read(), await self._tables.labels(number=number)
        pulls = []
        for row in rows:
            pull = pull_of(row, refs, labels.get(row["number"], ()))
            if pull.state == "merged" and row["state"] != "merged":
                # Git was first and is right: the row, and the issues it fixes, follow.
                await self._tables.land(pull.number, fixes=fixed_by(pull.body))
                pull = (await self._pulls(number=pull.number))[0]
            pulls.append(pull)
        return tuple(pulls)


def pull_of(row: Mapping[str, Any], refs: Mapping[str, str], labels: Sequence[str]) -> PullRequest:
    """What the row and git say together."""
    number, head = row["number"], row["head"]
    live, last = refs.get(f"refs/heads/{head}"), refs.get(last_head_ref(number))
    merged = refs.get(merged_ref(number), "")
    state: Literal["open", "closed", "merged"] = "open"
    if merged:
        state = "merged"
    elif row["state"] != "open" or live is None:
        state = "closed"
    return PullRequest(
        number=number,
        url=f"local:pulls/{number}",
        title=row["title"],
        body=row["body"],
        author=row["author"],
        head=head,
        head_commit=(live if state == "open" else last or live) or NONE,
        base=row["base"],
        state=state,
        draft=bool(row["draft"]),
        merge_commit=merged,
        labels=tuple(labels),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )
