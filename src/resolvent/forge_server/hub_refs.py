"""What can be written to the repository itself: refs, commits, trees; and what follows from a push."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from resolvent.adapters.forges.local_git import NONE
from resolvent.adapters.git_refs import refs_of
from resolvent.errors import ForgeRefused, GitError
from resolvent.forge_server.holdings import Account, Commit, Occurrence
from resolvent.forge_server.hub_pulls import HubPulls

# What is kept beside them says what was merged, and is nobody's to write.
_WRITABLE = ("refs/heads/", "refs/tags/", "refs/resolvent/claims/")
_ID = re.compile(r"[0-9a-f]{40,64}")
_HEADS = "refs/heads/"


class HubRefs(HubPulls):
    """Branches and objects."""

    async def create_ref(self, by: Account, ref: str, commit: str) -> None:
        """A new ref at a commit; ForgeRefused when there is one, with `exists`."""
        await self.allow(by, "write")
        await self._named(ref)
        await self._there(commit)
        await self._move(by, f"create {ref}\0{commit}\0", exists=ref)

    async def update_ref(self, by: Account, ref: str, commit: str, *, force: bool = False) -> None:
        """Move a ref, forwards unless it is forced."""
        await self.allow(by, "write")
        old = await self._at(ref)
        await self._there(commit)
        if not force and await self.shared(old, commit) != old:
            raise ForgeRefused("Update is not a fast forward", status=422)
        await self._move(by, f"update {ref}\0{commit}\0{old}\0")

    async def delete_ref(self, by: Account, ref: str) -> None:
        """Remove a ref; the pull requests of a branch are closed with it."""
        await self.allow(by, "write")
        old = await self._at(ref)
        if ref == f"{_HEADS}{(await self.holdings()).default_branch}":
            raise ForgeRefused("Cannot delete the default branch", status=422)
        await self._move(by, f"delete {ref}\0{old}\0")

    async def create_commit(self, by: Account, message: str, tree: str, parents: Sequence[str] = ()) -> Commit:
        """A commit of a tree that is there."""
        await self.allow(by, "write")
        if not _ID.fullmatch(tree) or await self._type(tree) != "tree":
            raise ForgeRefused("Tree SHA does not exist", status=422)
        for parent in parents:
            await self._there(parent)
        email = f"{by.id}+{by.login}@users.noreply.localhost"
        who = {
            f"GIT_{role}_{what}": value
            for role in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", by.login), ("EMAIL", email), ("DATE", f"@{int(self.clock.now())} +0000"))
        }
        onto = (word for parent in parents for word in ("-p", parent))
        said = message.encode("utf-8", "replace")
        made = (await self.git("commit-tree", tree, *onto, "-F", "-", input=said, env=who)).decode().strip()
        commit = await self.commit(made)
        assert commit is not None
        return commit

    async def create_blob(self, by: Account, content: bytes) -> str:
        """A file's content; its id."""
        await self.allow(by, "write")
        return (await self.git("hash-object", "-w", "--stdin", input=content)).decode().strip()

    async def create_tree(self, by: Account, entries: Sequence[tuple[str, str, str, str]]) -> str:
        """A tree of (mode, type, id, name); its id."""
        await self.allow(by, "write")
        lines = "".join(f"{mode} {type} {id}\t{name}\0" for mode, type, id, name in entries)
        try:
            return (await self.git("mktree", "-z", input=lines.encode("utf-8", "replace"))).decode().strip()
        except GitError as error:
            raise ForgeRefused(f"tree: {error.message}", field="tree", status=422) from error

    async def pushed(self, by: Account, before: Mapping[str, str], *, only: Collection[str] | None = None) -> None:
        """Let the pull requests follow, and everybody know, what moved since the refs were so.

        With `only`, just of those: somebody else may move others at the same time, and tell of them.
        """
        held, now = await self.holdings(), await self._refs.read()
        for ref in dict.fromkeys((*before, *now) if only is None else only):
            old, new = before.get(ref, NONE), now.get(ref, NONE)
            if old == new or not ref.startswith(_HEADS):
                continue
            branch = ref.removeprefix(_HEADS)
            heads = await self._heads(branch)
            if new == NONE:
                for number in heads:
                    await self._refs.keep_head(number, old)
            await self.forge.head_moved(branch)
            await self.tell(Occurrence("push", "", by, ref=ref, before=old, after=new))
            for number in heads:
                told = Occurrence("pull_request", "closed" if new == NONE else "synchronize", by, before=old, after=new)
                await self.tell(replace(told, item=await self.item(number)))
            for number in await self.forge.acting_as(by.login).find_merged(branch):
                await self.happened(by, "closed", number)
        await self.told_closed(by, held)

    async def rename_default(self, branch: str) -> None:
        """Let another branch that is there be the default one; one that is not is the present one, renamed."""
        refs, now = await self._refs.read(), await self._refs.default_branch()
        await self._named(f"{_HEADS}{branch}")
        if f"{_HEADS}{branch}" not in refs and f"{_HEADS}{now}" in refs:
            await self.git("branch", "--move", now, branch)
            sql = "UPDATE forge_items SET base = :branch WHERE base = :now AND state = 'open'"
            await self.tables.change(lambda connection, at: connection.write(sql, branch=branch, now=now))
        await self.git("symbolic-ref", "HEAD", f"{_HEADS}{branch}")

    async def _heads(self, branch: str) -> list[int]:
        """The pull requests that were open on a branch before it moved."""
        sql = "SELECT number FROM forge_items WHERE kind = 'pull' AND state = 'open' AND head = :head ORDER BY number"
        return [row["number"] for row in await self.store.read(sql, head=branch)]

    async def _move(self, by: Account, line: str, *, exists: str = "") -> None:
        before = await self._refs.read()
        try:
            await self.git("update-ref", "-z", "--stdin", input=line.encode("utf-8", "surrogateescape"))
        except GitError as error:
            if exists and exists in await self._refs.read():
                raise ForgeRefused("Reference already exists", status=422, exists=True) from error
            raise ForgeRefused("Reference update failed", status=422, why=error.message) from error
        await self.pushed(by, before, only=[line.partition("\0")[0].partition(" ")[2]])

    async def _named(self, ref: str) -> None:
        good = ref.startswith(_WRITABLE) and "\0" not in ref and "\n" not in ref
        try:
            await self.git("check-ref-format", ref if good else "")
        except GitError as error:
            raise ForgeRefused(f"{ref} is not a valid ref name.", field="ref", status=422) from error

    async def _at(self, ref: str) -> str:
        await self._named(ref)
        known = await refs_of(self.git, ref)
        if ref not in known:
            raise ForgeRefused("Reference does not exist", status=422, missing=True)
        return known[ref]

    async def _there(self, commit: str) -> None:
        if await self.commit(commit) is None:
            raise ForgeRefused("Object does not exist", field="sha", status=422)

    async def _type(self, id: str) -> str:
        words = (await self.git("cat-file", "--batch-check", input=id.encode())).decode().split()
        return words[1]
