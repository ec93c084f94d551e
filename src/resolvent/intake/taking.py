"""An arrival becomes a run: acknowledged, claimed, submitted. Every step may be done again, and is then done once."""

from resolvent.domain.arrival import BEGINNING, Arrival, Rules, counts, may_ask, may_label, runs_named_in
from resolvent.domain.entry import Entry
from resolvent.domain.subject import Comment, Reaction
from resolvent.engine.claiming import Claims
from resolvent.engine.stopping import release
from resolvent.errors import (
    AgentMissing,
    ConfigError,
    ForgeRefused,
    KeyRefused,
    NoSandbox,
    NotFound,
    PromptError,
    SubjectTaken,
    UsageError,
)
from resolvent.intake.configured import Configured
from resolvent.intake.desk import Desk
from resolvent.intake.watching import Cause, call_off, notice
from resolvent.intake.words import understood
from resolvent.submissions import Submission

# What is wrong here, not with what was asked: it is mended here, and then taken up.
OURS = (ConfigError, PromptError, AgentMissing, KeyRefused, NoSandbox)


async def take(desk: Desk, arrival: Arrival) -> Arrival:
    """Do what an arrival asks for; returned as it was when its time has not come yet."""
    if arrival.kind not in BEGINNING:
        return await notice(desk, arrival)
    if arrival.kind != "mentioned":
        return await _begin_labelled(desk, arrival)
    forge, rules = await desk.forge(), await _rules(desk)
    if not counts(arrival.by, bot=arrival.bot, own=await forge.login(), rules=rules):
        return await desk.settle(arrival, "nothing")
    if not await _allowed(desk, arrival, rules):
        await acknowledge(desk, arrival, "confused")
        return await desk.settle(arrival, "refused", reason=f"{arrival.by} may not ask")
    if arrival.wish == "stop":
        return await _stop(desk, arrival)
    if arrival.wish == "unclear":
        return await _answer(desk, arrival, rules)
    since = arrival.comment.updated_at if arrival.comment else arrival.at
    return await _begin(desk, arrival, await desk.configuration.now(), since=since)


async def _rules(desk: Desk) -> Rules:
    """Those of the default branch; while it is broken, those it had: whoever may stop a run must be heard."""
    try:
        return (await desk.configuration.now()).rules
    except ConfigError:
        return desk.configuration.rules


async def _allowed(desk: Desk, arrival: Arrival, rules: Rules) -> bool:
    if rules.lists(arrival.by):
        return True
    return may_ask(arrival.by, await (await desk.forge()).permission(arrival.by), rules)


async def acknowledge(desk: Desk, arrival: Arrival, reaction: Reaction) -> bool:
    """React to what asked, where that can be done; False when it is not there any more."""
    try:
        await (await desk.forge()).react(_place(arrival), reaction)
    except NotFound:
        return False
    except ForgeRefused as error:
        # A locked issue, or somebody who blocked us: nothing that a later try would change.
        if error.details.get("auth"):
            raise
    desk.boundary("reacted")
    return True


async def _begin_labelled(desk: Desk, arrival: Arrival) -> Arrival:
    """As the issue is now: what told us may be old."""
    configured = await desk.configuration.now()
    if arrival.kind == "reopened" and not await _may_reopen(desk, arrival, configured.rules):
        return await desk.settle(arrival, "nothing", reason=f"{arrival.by} may not ask")
    try:
        issue = await (await desk.forge()).issue(arrival.subject.removeprefix("issue-"))
    except NotFound:
        return await desk.settle(arrival, "nothing", reason="it is gone")
    if not configured.rules.labels(issue.labels):
        # Whoever puts it on again asks again, also where we did not see that it was off.
        await desk.arrivals.unlabel(arrival.subject, at=issue.updated_at)
    if issue.state != "open" or not configured.rules.labels(issue.labels):
        return await desk.settle(arrival, "nothing", reason="it was withdrawn")
    if arrival.kind == "reopened":
        return await _begin(desk, arrival, configured, since=arrival.at)
    labelling = await (await desk.forge()).labelling(arrival.subject, configured.rules.label)
    if not await _may_label(desk, labelling.by, configured.rules):
        await acknowledge(desk, arrival, "confused")
        return await desk.settle(arrival, "refused", reason=f"{labelling.by} put the label on, and may not")
    return await _begin(desk, arrival, configured, since=labelling.at)


async def _may_reopen(desk: Desk, arrival: Arrival, rules: Rules) -> bool:
    """An author may open it again who could not have put the label on."""
    own = await (await desk.forge()).login()
    return counts(arrival.by, bot=arrival.bot, own=own, rules=rules) and await _allowed(desk, arrival, rules)


async def _may_label(desk: Desk, login: str, rules: Rules) -> bool:
    """A template gives its labels to what anybody opens, in their name."""
    if may_label(login, "none", rules):
        return True
    return may_label(login, await (await desk.forge()).permission(login), rules)


async def _begin(desk: Desk, arrival: Arrival, configured: Configured, *, since: float) -> Arrival:
    """Unless it was begun since it was asked for, here or by another host that has let go of it again."""
    journal = await desk.journal()
    busy = await desk.arrivals.at_work(arrival.subject)
    if await _submitted(desk, arrival.run):
        return await desk.settle(arrival, "taken", reason=arrival.run)
    if busy and (await journal.run(busy)).cancelling:
        # It is about to end; whoever asked was told how to start again.
        return arrival
    other = "" if busy else await _elsewhere(desk, arrival.subject, since)
    if other:
        return await desk.settle(arrival, "elsewhere", reason=other)
    if not await acknowledge(desk, arrival, "eyes"):
        return await desk.settle(arrival, "nothing", reason="it was withdrawn")
    if busy:
        return await desk.settle(arrival, "repeated", reason=busy)
    claims = Claims(journal, await desk.forge(), desk.home.clock, desk.home.host, desk.boundary)
    try:
        async with claims.holding(arrival.run, (arrival.subject,)):
            return await _submit(desk, arrival, configured)
    except SubjectTaken as taken:
        holder, run = taken.details.get("holder"), taken.details["run"]
        settled = await desk.settle(arrival, "elsewhere" if holder else "repeated", reason=str(holder or run))
        # What was claimed for a run that will not come to be is free again.
        await release(journal, claims.forge)
        return settled


async def _submit(desk: Desk, arrival: Arrival, configured: Configured) -> Arrival:
    kind, _, number = arrival.subject.partition("-")
    asked = Submission(
        entry=Entry(kind="issue" if kind == "issue" else "pull", reference=number),
        playbook="design" if arrival.wish == "design" else "resolve",
        run=arrival.run,
        said=arrival.said if kind == "issue" else "",
    )
    try:
        await configured.app.submit(asked)
    except (*OURS, SubjectTaken):
        raise
    except UsageError as error:
        await acknowledge(desk, arrival, "confused")
        return await desk.settle(arrival, "refused", reason=error.message)
    desk.boundary("submitted")
    return await desk.settle(arrival, "taken", reason=arrival.run)


async def _elsewhere(desk: Desk, subject: str, since: float) -> str:
    """A run that is none of ours and said something there since; empty when there is none, or nobody knows since when.

    Whoever is at work holds the claim; whoever was, and is done before we look, left only words.
    """
    forge = await desk.forge()
    trusted = await forge.trusted()
    try:
        said = await forge.comments(subject) if since else ()
    except NotFound:
        return ""
    named = [runs_named_in(one.body) for one in said if one.author in trusted and one.created_at > since]
    for run in dict.fromkeys(run for runs in named for run in runs):
        if not await _submitted(desk, run):
            return run
    return ""


async def _submitted(desk: Desk, run: str) -> bool:
    try:
        await (await desk.journal()).run(run)
    except NotFound:
        return False
    return True


async def _stop(desk: Desk, arrival: Arrival) -> Arrival:
    """Nothing is said where nobody works here: the run may be on another host."""
    run = await desk.arrivals.at_work(arrival.subject)
    if not run:
        return await desk.settle(arrival, "nothing")
    await acknowledge(desk, arrival, "eyes")
    subject = (await (await desk.journal()).run(run)).subject
    await call_off(desk, run, Cause("mentioned", subject, f"{arrival.by} asked to stop"))
    return await desk.settle(arrival, "stopped", reason=f"{run}: {arrival.by} asked to stop")


async def _answer(desk: Desk, arrival: Arrival, rules: Rules) -> Arrival:
    """Say once what is understood, to those who may ask."""
    forge = await desk.forge()
    marker = f"<!-- resolvent-heard:{arrival.comment.id if arrival.comment else arrival.subject} -->"
    trusted = await forge.trusted()
    try:
        there = await forge.comments(arrival.subject)
        if arrival.comment and arrival.comment.id not in (one.id for one in there):
            return await desk.settle(arrival, "nothing", reason="it was withdrawn")
        if not any(one.author in trusted and marker in one.body for one in there):
            await forge.comment(arrival.subject, understood(rules, marker=marker))
            desk.boundary("answered")
    except NotFound:
        return await desk.settle(arrival, "nothing", reason="it is gone")
    except ForgeRefused as error:
        if error.details.get("auth"):
            raise
        return await desk.settle(arrival, "refused", reason=error.message)
    return await desk.settle(arrival, "answered")


def _place(arrival: Arrival) -> Comment | str:
    """Where a reaction goes: to the comment that asked, else to the issue itself."""
    return arrival.comment or arrival.subject
