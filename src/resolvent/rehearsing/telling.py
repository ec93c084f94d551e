"""What happens on the rehearsal forge in our name: what would have happened on the real one."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from resolvent.domain.model import Value
from resolvent.domain.subject import HIDDEN
from resolvent.forge_server.holdings import Account, Item, Occurrence
from resolvent.forge_server.hub import Hub
from resolvent.rehearsing.rehearsal import Rehearsal

NONE = "0" * 40
# The words for what happens to issues and pull requests; what is not here follows from something that is.
ACTIONS = {
    "closed": "close",
    "reopened": "reopen",
    "labeled": "label",
    "unlabeled": "take a label away",
    "review_requested": "ask for a review",
    "ready_for_review": "mark ready",
    "converted_to_draft": "make a draft",
    "assigned": "assign",
    "edited": "edit",
}


class Would(Value):
    """One thing that would have happened there; a later one of the same key tells it anew."""

    key: str
    what: str
    where: str
    said: str = ""


@dataclass(frozen=True)
class Teller:
    """Writes down what our login does, and plays the CI that looks at what it pushes."""

    hub: Hub
    rehearsal: Rehearsal

    async def heard(self, occurrence: Occurrence) -> None:
        """After every write."""
        if occurrence.by.login == self.rehearsal.login and (would := await self._told(occurrence)):
            with self.rehearsal.happened.open("a", encoding="utf-8") as file:
                file.write(would.model_dump_json() + "\n")
        if occurrence.kind == "push" and occurrence.after != NONE:
            for name in (await self.hub.holdings()).required:
                await self._checked(occurrence.after, name)
        elif occurrence.kind == "check_run" and occurrence.action == "rerequested" and occurrence.check:
            await self._checked(occurrence.check.commit, occurrence.check.name)

    async def _checked(self, commit: str, name: str) -> None:
        said = {"passed": "success", "failed": "failure"}[self.rehearsal.ci]
        log = f"{name} {self.rehearsal.ci}, because the rehearsal was told so: --ci {self.rehearsal.ci}\n"
        await self.hub.report(commit, name, conclusion=said, log=log)

    async def _told(self, occurrence: Occurrence) -> Would | None:
        if occurrence.kind == "push":
            return await self._pushed(occurrence)
        if occurrence.kind == "check_run":
            return _rerun(occurrence)
        item = occurrence.item
        if item is None:
            return None
        if occurrence.kind == "issue_comment" and occurrence.remark:
            body = "" if occurrence.action == "deleted" else first_line(occurrence.remark.body)
            return Would(key=f"comment-{occurrence.remark.id}", what="comment", where=f"#{item.number}", said=body)
        return _changed(item, occurrence)

    async def _pushed(self, occurrence: Occurrence) -> Would | None:
        branch = occurrence.ref.removeprefix("refs/heads/")
        if occurrence.after == NONE:
            return Would(key=f"gone-{branch}", what="delete branch", where=branch)
        commit = await self.hub.commit(occurrence.after)
        said = commit.message.strip().splitlines()[:1] if commit else []
        return Would(key=f"push-{occurrence.after}", what="push", where=branch, said=(said or [""])[0])


def _rerun(occurrence: Occurrence) -> Would | None:
    check = occurrence.check
    if occurrence.action != "rerequested" or check is None:
        return None
    return Would(key=f"rerun-{check.id}", what="run a check again", where=check.commit[:10], said=check.name)


def _changed(item: Item, occurrence: Occurrence) -> Would | None:
    action, where = occurrence.action, f"#{item.number}"
    if action == "opened":
        what = "issue" if item.kind == "issue" else "draft pull request" if item.draft else "pull request"
        return Would(key=f"open-{item.number}", what=what, where=where, said=item.title)
    if action == "closed" and item.state == "merged":
        return Would(key=f"merge-{item.number}", what="merge", where=where, said=f"{item.head} into {item.base}")
    if action not in ACTIONS:
        return None
    about = occurrence.label or occurrence.login
    return Would(key=f"{action}-{item.number}-{about}", what=ACTIONS[action], where=where, said=about or item.title)


def first_line(body: str) -> str:
    """The first words of a comment that people see."""
    lines = [line.strip().lstrip("# ") for line in HIDDEN.sub("", body).splitlines()]
    return next((line for line in lines if line.strip("*_->| ")), "")


def would(rehearsal: Rehearsal) -> list[Would]:
    """Everything in the order it began; what was written again and again is told once, as it stands."""
    told: dict[str, Would] = {}
    if rehearsal.happened.is_file():
        for line in rehearsal.happened.read_text(encoding="utf-8").splitlines():
            one = Would.model_validate(json.loads(line))
            told[one.key] = one
    return list(told.values())


@asynccontextmanager
async def opened(rehearsal: Rehearsal) -> AsyncIterator[tuple[Hub, Account]]:
    """Its forge with somebody who tells, and the account that a run has there."""
    hub = await Hub.open(rehearsal.forge, owner=rehearsal.owner, name=rehearsal.name)
    try:
        account = (await hub.holdings()).accounts[rehearsal.login]
        if rehearsal.ci == "none":
            await hub.require([])
        hub.listen(Teller(hub, rehearsal).heard)
        yield hub, account
    finally:
        await hub.close()
