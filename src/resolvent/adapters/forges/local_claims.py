"""Claims on the local forge: a ref per subject, made atomically; the message of its commit is the holder."""

import re

from resolvent.adapters.forges.local_git import WHO, Refs
from resolvent.errors import ForgeDown, ForgeRefused, GitError

_PLAIN = re.compile(r"[A-Za-z0-9_-](?:\.?[A-Za-z0-9_-])*")
_MOST = 100
_TRIES = 5
_BEGINNING = {f"GIT_{role}_DATE": "@0 +0000" for role in ("AUTHOR", "COMMITTER")}


def claim_ref(subject: str) -> str:
    """Where the claim on a subject is."""
    return f"refs/resolvent/claims/{claimable(subject)}"


def claimable(word: str) -> str:
    """The word as it is; refused when it cannot be part of a ref."""
    if len(word) > _MOST or not _PLAIN.fullmatch(word) or word.endswith(".lock"):
        raise ForgeRefused(f"{word!r} is neither a subject nor a holder: letters, digits, dots and dashes, at most 100")
    return word


class Claims:
    """Who holds which subject, on whichever host they are."""

    def __init__(self, refs: Refs) -> None:
        self._refs = refs

    async def claim(self, subject: str, holder: str) -> str:
        """The holder from now on: ours if there was none."""
        ref, mine = claim_ref(subject), await self._words(claimable(holder))
        failure: GitError | None = None
        for _ in range(_TRIES):
            if (there := (await self._refs.read()).get(ref)) is not None:
                return await self._holder(there)
            try:
                await self._refs.git("update-ref", "-z", "--stdin", input=f"create {ref}\0{mine}\0".encode())
            except GitError as error:
                # Someone was faster: look who.
                failure = error
            else:
                return holder
        raise ForgeDown(f"{subject} could not be claimed: {failure}", hint="try again") from failure

    async def holder(self, subject: str) -> str:
        """Who holds it; empty when nobody does."""
        there = (await self._refs.read()).get(claim_ref(subject))
        return "" if there is None else await self._holder(there)

    async def release(self, subject: str, holder: str) -> None:
        """Nobody holds it from now on, unless somebody else does."""
        ref, wanted = claim_ref(subject), claimable(holder)
        there = (await self._refs.read()).get(ref)
        if there is None or await self._holder(there) != wanted:
            return
        try:
            await self._refs.git("update-ref", "-z", "--stdin", input=f"delete {ref}\0{there}\0".encode())
        except GitError as error:
            if (await self._refs.read()).get(ref) == there:
                raise ForgeDown(f"{subject} could not be released: {error.message}", hint="try again") from error

    async def _words(self, holder: str) -> str:
        """A commit of no files that says this."""
        tree = (await self._refs.answer("mktree", input=b"")).decode().strip()
        said = await self._refs.answer("commit-tree", tree, "-F", "-", input=holder.encode(), env=WHO | _BEGINNING)
        return said.decode().strip()

    async def _holder(self, commit: str) -> str:
        # Another forge's adapter may have written it, with another author and a newline at its end.
        return (await self._refs.answer("log", "-1", "--format=%B", commit)).decode("utf-8", "replace").strip()
