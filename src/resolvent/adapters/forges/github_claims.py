"""Claims on GitHub: a ref per subject, which GitHub makes only once; the message of its commit is the holder."""

from collections.abc import Awaitable, Callable

from resolvent.adapters.forges.github_api import Api
from resolvent.adapters.forges.github_git import Remote
from resolvent.adapters.forges.github_place import ref_parts
from resolvent.adapters.forges.local_claims import claim_ref, claimable
from resolvent.errors import ForgeDown, ForgeRefused, NotFound

_TRIES = 3


class Claims:
    """Who holds which subject, on whichever host they are."""

    def __init__(self, api: Api, remote: Remote) -> None:
        self._api = api
        self._remote = remote
        self._where = api.where
        # Any tree that is there will do: one is looked for once.
        self._tree = ""
        # What a commit says never changes.
        self._holders: dict[str, str] = {}

    async def claim(self, subject: str, holder: str, *, default_branch: Callable[[], Awaitable[str]]) -> str:
        """The holder from now on: ours if there was none."""
        ref, mine = claim_ref(subject), ""
        claimable(holder)
        for _ in range(_TRIES):
            if (there := await self._there(ref)) is not None:
                return there[1]
            mine = mine or await self._words(holder, default_branch)
            try:
                await self._api.send("POST", self._where.path("git", "refs"), {"ref": ref, "sha": mine})
            except ForgeRefused as error:
                # Someone was faster: look who.
                if "already exists" not in error.message:
                    raise
            else:
                return holder
        raise ForgeDown(f"{subject} is claimed and released all the time", hint="try again")

    async def holder(self, subject: str) -> str:
        """Who holds it; empty when nobody does."""
        there = await self._there(claim_ref(subject))
        return "" if there is None else there[1]

    async def release(self, subject: str, holder: str) -> None:
        """Nobody holds it from now on, unless somebody else does."""
        ref, wanted = claim_ref(subject), claimable(holder)
        there = await self._there(ref)
        if there is None or there[1] != wanted:
            return
        try:
            # By git, from exactly that commit: REST deletes whatever has the name by then, be it another's new claim.
            await self._remote.remove(ref, at=there[0])
        except (ForgeDown, ForgeRefused, NotFound):
            # Gone meanwhile is fine, and so is a lost answer; refused is what it is when it is still there.
            if await self._there(ref) == there:
                raise

    async def _there(self, ref: str) -> tuple[str, str] | None:
        """The commit of a claim and its holder."""
        place = self._where.path("git", "ref", *ref.removeprefix("refs/").split("/"))
        try:
            commit = (await self._api.get("GitRef", place)).object_.sha
        except NotFound:
            return None
        if commit not in self._holders:
            said = await self._api.get("GitCommit", self._where.path("git", "commits", commit))
            self._holders[commit] = str(said.message).strip()
        return str(commit), self._holders[commit]

    async def _words(self, holder: str, branch: Callable[[], Awaitable[str]]) -> str:
        """A commit of its own that says this; its tree is one that is there, since GitHub makes no empty one."""
        if not self._tree:
            head = await self._api.get("GitRef", self._where.path("git", "ref", *ref_parts(await branch())))
            tip = await self._api.get("GitCommit", self._where.path("git", "commits", head.object_.sha))
            self._tree = str(tip.tree.sha)
        asked = {"message": holder, "tree": self._tree, "parents": []}
        made = await self._api.send("POST", self._where.path("git", "commits"), asked, model="GitCommit")
        self._holders[str(made.sha)] = holder
        return str(made.sha)
