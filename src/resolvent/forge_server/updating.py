"""The branch of a pull request brought up to date with its base, as the button on its page does."""

from typing import Literal

from resolvent.adapters.forges.local_git import Refs
from resolvent.adapters.forges.local_merging import Merging, replayed
from resolvent.errors import ForgeRefused, GitError
from resolvent.forge_server.holdings import Account, Item
from resolvent.forge_server.hub import Hub


async def update_branch(hub: Hub, by: Account, item: Item, *, how: Literal["merge", "rebase"] = "merge") -> None:
    """Merge the base into the head, or put the commits of the head on top of the base; ForgeRefused if it cannot be."""
    await hub.allow(by, "write", own=item.author)
    if item.state != "open" or not await hub.between(item.head_commit, item.base_commit):
        raise ForgeRefused("There are no new commits on the base branch.", status=422)
    tip = await (_merged(hub, by, item) if how == "merge" else _rebased(hub, item))
    await hub.update_ref(by, f"refs/heads/{item.head}", tip, force=how == "rebase")


async def _merged(hub: Hub, by: Account, item: Item) -> str:
    try:
        tree = await hub.git("merge-tree", "--write-tree", item.head_commit, item.base_commit)
    except GitError as error:
        raise ForgeRefused("merge conflict between base and head", status=422) from error
    message = f"Merge branch '{item.base}' into {item.head}"
    made = await hub.create_commit(by, message, tree.decode().split()[0], (item.head_commit, item.base_commit))
    return made.id


async def _rebased(hub: Hub, item: Item) -> str:
    pull = await hub.forge.pull_request(str(item.number))
    try:
        return await replayed(Refs(hub.git), pull, tip=item.base_commit, commit=item.head_commit, how=Merging("rebase"))
    except ForgeRefused as error:
        raise ForgeRefused("merge conflict between base and head", status=422, why=error.message) from error
