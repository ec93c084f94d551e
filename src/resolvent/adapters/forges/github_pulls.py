"""Pull requests on GitHub: opened, read with their merge commits, made ready, reviewed, merged."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from resolvent.adapters.forges import github_read as read
from resolvent.adapters.forges.github_api import Api
from resolvent.adapters.forges.github_place import Kind, is_branch, ref_parts
from resolvent.adapters.forges.local_words import sendable, title_line
from resolvent.domain.change import Change
from resolvent.domain.subject import Listed, MergeMethod, PullRequest
from resolvent.errors import ForgeDown, ForgeRefused, HeadMoved, NotFound

_MERGED_AT_ONCE = 50
_TRIES = 5
_DRAFT = "mutation($id: ID!) { convertPullRequestToDraft(input: {pullRequestId: $id}) { pullRequest { isDraft } } }"
_READY = "mutation($id: ID!) { markPullRequestReadyForReview(input: {pullRequestId: $id}) { pullRequest { isDraft } } }"


class Pulls:
    """The pull requests of one repository."""

    def __init__(self, api: Api, kinds: dict[int, Kind], *, pause_s: float) -> None:
        self._api = api
        self._kinds = kinds
        self._where = api.where
        self._pause_s = pause_s
        # A merge is for ever: number → its commit.
        self._merges: dict[int, str] = {}

    async def one(self, reference: str) -> PullRequest:
        """By number, `#number` or URL."""
        return (await self._whole([await self._said(reference)]))[0]

    async def listed(self, head: str, state: Listed) -> tuple[PullRequest, ...]:
        """Those in that state, of that branch of this repository if one is named; newest first."""
        asked: dict[str, str | int] = {"state": state, "sort": "created", "direction": "desc"}
        if head and not is_branch(head):
            return ()
        if head:
            asked["head"] = f"{self._where.owner}:{head}"
        found = {}
        for said in await self._api.every("PullRequestSimple", self._where.path("pulls"), asked):
            # GitHub leaves out a filter it does not understand.
            if not head or (said.head.ref == head and not read.pull(said).from_fork):
                found[said.number] = said
                self._kinds[said.number] = "pull"
        return await self._whole(found[number] for number in sorted(found, reverse=True))

    async def open(self, *, head: str, base: str, title: str, body: str, draft: bool) -> PullRequest:
        """A new pull request in our name; the one that is open already is named."""
        for branch in (head, base):
            if not is_branch(branch):
                raise ForgeRefused(f"{branch!r} cannot be the name of a branch")
        said = {"head": head, "base": base, "title": title_line(title), "body": sendable(body), "draft": draft}
        try:
            made = await self._api.send("POST", self._where.path("pulls"), said, model="PullRequest")
        except ForgeRefused as error:
            if "head invalid" in error.message and await self._is_there(head):
                # It was pushed just now, and not all of GitHub has heard of it.
                raise ForgeDown(f"GitHub has {head}, but takes no pull request for it yet", hint="try again") from error
            if "already exists" not in error.message:
                raise _explained(error, head, base) from error
            for pull in await self.listed(head, "open"):
                if pull.base == base:
                    raise ForgeRefused(
                        f"#{pull.number} is open for {head} onto {base}",
                        hint=f"gh pr view {pull.url}",
                        number=pull.number,
                    ) from error
            raise
        self._kinds[made.number] = "pull"
        return read.pull(made)

    async def set_draft(self, pull: PullRequest, draft: bool) -> PullRequest:
        """A draft, or ready; only GraphQL can say it."""
        said = await self._said(str(pull.number))
        if bool(said.draft) == draft:
            return (await self._whole([said]))[0]
        await self._api.query(_DRAFT if draft else _READY, {"id": said.node_id}, write=True)
        return await self.one(str(pull.number))

    async def ask_for_review(self, pull: PullRequest, logins: Sequence[str]) -> None:
        """Ask all of them, or say who cannot be asked."""
        asked = list(dict.fromkeys(logins))
        if not asked:
            return
        place = self._where.path("pulls", pull.number, "requested_reviewers")
        try:
            await self._api.send("POST", place, {"reviewers": asked})
        except (ForgeRefused, NotFound) as error:
            if error.details.get("auth") or error.details.get("status") not in (404, 422):
                raise
            unknown = [login for login in asked if login == pull.author or not await self._collaborates(login)]
            raise ForgeRefused(
                f"{', '.join(unknown or asked)} cannot be asked to review #{pull.number}: {error.message}",
                hint=f"gh api {self._where.path('collaborators').removeprefix('/')} --jq '.[].login'",
                logins=unknown or asked,
            ) from error

    async def merge(self, pull: PullRequest, *, expect: Change, method: MergeMethod) -> PullRequest:
        """Merge exactly that head, once, and read back that it is."""
        now = await self.one(str(pull.number))
        for nth in range(1, _TRIES + 1):
            if now.state != "open" or now.head_commit != expect.commit:
                return _as_expected(now, expect)
            asked = {"sha": expect.commit, "merge_method": method}
            try:
                await self._api.send("PUT", self._where.path("pulls", pull.number, "merge"), asked)
                break
            except ForgeRefused as error:
                status = error.details.get("status")
                # So it also says of what is merged: by us, when the answer was lost, while what we read was older.
                if status in (405, 409) and (await self._said(str(pull.number))).merged_at:
                    break
                if status == 409:
                    raise HeadMoved(f"the head of #{pull.number} is not {expect.commit}: {error.message}") from error
                # The base moved while GitHub merged: it said so, and did nothing.
                if "Base branch was modified" not in error.message or nth == _TRIES:
                    raise await self._not_merged(now, error) from error
            await asyncio.sleep(self._pause_s)
            now = await self.one(str(pull.number))
        return await self._landed(pull.number, expect)

    # --- looking

    async def _said(self, reference: str) -> Any:
        number = self._where.number(reference, "pull")
        if number <= 0:
            raise self._where.unknown(reference, "pull")
        try:
            return await self._api.get("PullRequest", self._where.path("pulls", number))
        except NotFound as error:
            raise self._where.unknown(reference, "pull") from error

    async def _whole(self, every: Iterable[Any]) -> tuple[PullRequest, ...]:
        """With the merge commits of those that are merged."""
        listed = list(every)
        new = [said.number for said in listed if said.merged_at and said.number not in self._merges]
        for at in range(0, len(new), _MERGED_AT_ONCE):
            await self._learn_merges(new[at : at + _MERGED_AT_ONCE])
        return tuple(
            read.pull(said, merge_commit=self._merges.get(said.number, "") if said.merged_at else "") for said in listed
        )

    async def _learn_merges(self, numbers: Sequence[int]) -> None:
        """Ask for the merge commits of many at once: REST does not tell them any more."""
        asked = " ".join(f"n{number}: pullRequest(number: {number}) {{ mergeCommit {{ oid }} }}" for number in numbers)
        text = f"query($owner: String!, $name: String!) {{ repository(owner: $owner, name: $name) {{ {asked} }} }}"
        owner, name = self._where.repo.split("/")
        found = (await self._api.query(text, {"owner": owner, "name": name})).get("repository") or {}
        for number in numbers:
            commit = (found.get(f"n{number}") or {}).get("mergeCommit") or {}
            if commit.get("oid"):
                self._merges[number] = str(commit["oid"])

    async def _landed(self, number: int, expect: Change) -> PullRequest:
        """Wait until what is read says what was done."""
        for _ in range(_TRIES):
            now = await self.one(str(number))
            if now.state == "merged" and now.merge_commit:
                return _as_expected(now, expect)
            await asyncio.sleep(self._pause_s)
        raise ForgeDown(f"#{number} was merged, but GitHub does not say so yet", hint="try again")

    async def _not_merged(self, pull: PullRequest, error: ForgeRefused) -> ForgeRefused:
        """Why it was not, with the files both sides changed where they are in conflict."""
        said = await self._said(str(pull.number))
        both = await self._changed_by_both(pull) if said.mergeable is False else []
        files = f" ({', '.join(both)} changed on both sides)" if both else ""
        state = "" if said.mergeable_state in ("clean", "unknown") else f", it is {said.mergeable_state}"
        return ForgeRefused(
            f"#{pull.number} is not merged onto {pull.base}{state}{files}: {error.message}",
            hint=f"gh pr view {pull.url}",
        )

    async def _changed_by_both(self, pull: PullRequest) -> list[str]:
        changed = []
        for one, other in ((pull.base, pull.head_commit), (pull.head_commit, pull.base)):
            place = self._where.path("compare", f"{one}...{other}")
            compared = await self._api.get("CommitComparison", place)
            changed.append([file.filename for file in compared.files or ()])
        return [name for name in changed[0] if name in changed[1]]

    async def _is_there(self, branch: str) -> bool:
        try:
            await self._api.get("GitRef", self._where.path("git", "ref", *ref_parts(branch)))
        except NotFound:
            return False
        return True

    async def _collaborates(self, login: str) -> bool:
        try:
            await self._api.get(
                "RepositoryCollaboratorPermission", self._where.path("collaborators", login, "permission")
            )
        except (NotFound, ForgeRefused):
            return False
        return True


def _as_expected(pull: PullRequest, expect: Change) -> PullRequest:
    """A pull request that is merged at that commit; whatever else it is, is said."""
    if pull.head_commit != expect.commit:
        raise HeadMoved(f"the head of #{pull.number} is {pull.head_commit}, not {expect.commit}")
    if pull.state != "merged":
        raise ForgeRefused(f"#{pull.number} is {pull.state}", hint=f"gh pr view {pull.url}")
    return pull


def _explained(error: ForgeRefused, head: str, base: str) -> ForgeRefused:
    hint = error.hint or ("set policy.draft = false" if "raft" in error.message else f"git log {base}..{head}")
    return ForgeRefused(f"no pull request for {head} onto {base}: {error.message}", hint=hint, **error.details)
