"""The hub: one repository with its issues, pull requests, checks, accounts and tokens, as the rehearsal forge shows it.

    hub = await Hub.open(directory, owner="acme", name="widget")
    ada = await hub.account("ada", permission="write")
    item = await hub.open_issue(ada, title="It panics")
    (await hub.holdings()).items[item.number]

Every write is in the name of an account, and told to who listens, in the words of webhooks. What GitHub would refuse is
a ForgeRefused whose `details["status"]` is GitHub's status; the message is GitHub's where it has one.
"""

from collections.abc import Sequence

from resolvent.adapters.forges.local_merging import Merging
from resolvent.errors import ForgeRefused, NotFound
from resolvent.forge_server.holdings import Account, CheckRun, Occurrence
from resolvent.forge_server.hub_pulls import Noted, Opining, Proposal
from resolvent.forge_server.hub_reading import check_of
from resolvent.forge_server.hub_refs import HubRefs

__all__ = ["CI", "Hub", "Merging", "Noted", "Opining", "Proposal"]

CI = "github-actions[bot]"
STARTED = ("queued", "in_progress")
ENDED = ("success", "failure", "cancelled", "timed_out", "skipped", "neutral", "action_required", "stale")


class Hub(HubRefs):
    """What the server serves."""

    async def report(
        self, commit: str, name: str, *, status: str = "completed", conclusion: str = "", log: str = ""
    ) -> CheckRun:
        """What a job of CI says of a commit: `queued`, `in_progress`, or `completed` with a conclusion."""
        word = _word(status, conclusion)
        id = await self.forge.checks.report(commit, name, word, log=log)
        return await self._checked("completed" if word in ENDED else "created", id)

    async def set_status(
        self, commit: str, name: str, *, status: str = "completed", conclusion: str = "", log: str = ""
    ) -> CheckRun:
        """What somebody says of a commit without a workflow that ran for it: a commit status."""
        word = _word(status, conclusion)
        id = await self.forge.checks.report(commit, name, word, log=log, run=False)
        check = await self.check(id)
        await self.tell(Occurrence("status", "", await self._ci(), check=check))
        return check

    async def rerun(self, check_id: int) -> CheckRun:
        """Ask for one more attempt of the check that this was one of; the new attempt."""
        check = await self.check(check_id)
        return await self._checked("rerequested", await self.forge.checks.rerun(check.commit, check.name))

    async def check(self, id: int) -> CheckRun:
        """The attempt of a check with that id; NotFound if there is none."""
        rows = await self.store.read("SELECT * FROM forge_check_runs WHERE id = :id", id=id)
        if not rows:
            raise NotFound(f"there is no check run {id}")
        return check_of(rows[0])

    async def require(self, names: Sequence[str]) -> None:
        """Let exactly these checks be required."""
        there = (await self.holdings()).required
        for name in there:
            if name not in names:
                await self.forge.unrequire_check(name)
        for name in names:
            await self.forge.require_check(name)

    async def archive(self, on: bool) -> None:
        """From now on nobody may write, or everybody again who might before."""
        await self.set_note("archived", "yes" if on else "no")

    async def _checked(self, action: str, id: int) -> CheckRun:
        check = await self.check(id)
        await self.tell(Occurrence("check_run", action, await self._ci(), check=check))
        return check

    async def _ci(self) -> Account:
        known = (await self.holdings()).accounts.get(CI)
        return known or await self.account(CI, kind="Bot", permission="read")


def _word(status: str, conclusion: str) -> str:
    if (status in STARTED and not conclusion) or (status == "completed" and conclusion in ENDED):
        return conclusion or status
    raise ForgeRefused(f"a check cannot be {status!r} with the conclusion {conclusion!r}", status=422)
