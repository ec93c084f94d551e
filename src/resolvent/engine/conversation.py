"""The verbs ask and edit: one agent, one branch, one answer; one repair turn when it does not fit."""

import json
from dataclasses import dataclass, replace
from functools import cache
from itertools import zip_longest
from typing import Any

from resolvent.domain import design, verdicts
from resolvent.domain.events import AgentReplaced
from resolvent.domain.job import Branch, JobExit, Reply
from resolvent.domain.model import Value
from resolvent.domain.record import AgentChoice, Frozen, stand_ins
from resolvent.engine.answers import grammar, parse
from resolvent.engine.asking import first_turn, later_turn
from resolvent.engine.prompts import Prompt, quoted, read, render
from resolvent.engine.requests import Request
from resolvent.engine.talk import Taken, Talk
from resolvent.engine.turns import where
from resolvent.engine.world import World
from resolvent.errors import AgentBusy, AgentMissing, Bug, KeyRefused, MalformedAnswer, StepFailed

SHOWN_IGNORED = 100
ANSWERS: dict[str, type[Value]] = {
    model.__name__: model
    for model in (
        verdicts.Analysis,
        verdicts.Implementation,
        verdicts.Fix,
        verdicts.Review,
        verdicts.Verification,
        verdicts.Variants,
        design.DesignDraft,
        design.DesignRevision,
        design.DesignReview,
    )
}


async def ask(world: World, frozen: Frozen, request: Request) -> dict[str, Any]:
    """Ask an agent about a branch; it may write what it likes, nothing of it becomes a change."""
    heard = await _converse(world, frozen, request)
    # Steps that build upon this one must find its files, also after a power loss: it will not be done again for them.
    await world.workspace.snapshot(heard.branch)
    return _said(heard)


async def edit(world: World, frozen: Frozen, request: Request) -> dict[str, Any]:
    """Let an agent change a branch; what it leaves becomes one commit, or no change at all."""
    heard = await _converse(world, frozen, request)
    message = f"{request.inputs['subject']}\n\nResolvent-Run: {request.run}\nResolvent-Step: {request.name}\n"
    # First made to last: a commit must not outlive the files it was made of.
    await world.workspace.snapshot(heard.branch)
    change = await world.workspace.export(heard.branch, message=message, at=heard.exit.ended_at)
    left_out = {"ignored": world.workspace.ignored(heard.branch)[:SHOWN_IGNORED]}
    if change is None:
        return _said(heard) | left_out | {"change": None, "summary": "changed nothing"}
    branch = heard.branch.model_copy(update={"commit": change.commit})
    await world.journal.save_branch(request.run, branch)
    return (
        _said(heard)
        | left_out
        | {
            "change": change.model_dump(mode="json"),
            "branch": branch.model_dump(mode="json"),
            "summary": f"{_token(heard.value)}, commit {change}",
        }
    )


@dataclass(frozen=True)
class Heard:
    """An answer that fits, where it was given, and how the process ended."""

    value: Value
    branch: Branch
    exit: JobExit
    agent: str


async def _converse(world: World, frozen: Frozen, request: Request) -> Heard:
    """Ask who plays the role, or, where a person named one, who takes its place when it cannot be had."""
    prompt = read(request.name, frozen.prompts[request.name])
    choices = stand_ins(frozen.agents[prompt.role], frozen.fallbacks)
    for choice, substitute in zip_longest(choices, choices[1:]):
        talk = replace(_talk(world, frozen, request, choice), substitute=choice is not choices[0])
        if substitute is not None and await _still_away(world, request, choice):
            talk = replace(talk, hurried=True)
        try:
            return await _heard(world, talk)
        except (AgentMissing, KeyRefused, AgentBusy) as error:
            if substitute is None:
                raise
            told = AgentReplaced(step=request.id, agent=choice.name, by=substitute.name, reason=error.message)
            key = f"{request.id}:replaced:{choice.name}"
            await world.journal.tell(request.run, told, at=world.clock.now(), key=key)
    raise Bug("a step has nobody to ask")


async def _still_away(world: World, request: Request, choice: AgentChoice) -> bool:
    """The last step of this run that asked it was answered by another in its place."""
    jobs = await world.journal.jobs(request.run)
    asked = [row.step for row in jobs if row.agent == choice.name and row.step != request.id]
    steps = {step.id: step for step in await world.journal.steps(request.run)} if asked else {}
    result = steps[asked[-1]].result if asked else None
    return bool((result or {}).get("ok", {}).get("agent", choice.name) != choice.name)


def _talk(world: World, frozen: Frozen, request: Request, choice: AgentChoice) -> Talk:
    prompt, model = read(request.name, frozen.prompts[request.name]), ANSWERS[request.inputs["model"]]
    return Talk(request, frozen, world.agent(choice), choice, prompt, model, _schema(model))


async def _heard(world: World, talk: Talk) -> Heard:
    question = _question(talk.request, talk.prompt, talk.model)
    taken = await first_turn(world, talk, question, _form(talk.model))
    try:
        value = _fitting(talk, taken.left)
    except MalformedAnswer as error:
        value = await _repaired(world, talk, taken, error)
    return Heard(value, taken.turn.branch, taken.exit, talk.choice.name)


async def _repaired(world: World, talk: Talk, taken: Taken, error: MalformedAnswer) -> Value:
    """One more turn of the same session on the same files to say it properly; what it edits is thrown away."""
    branch = taken.turn.branch
    scratch = await world.workspace.fork(branch, id=f"{branch.id}.repair")
    await world.journal.save_branch(talk.request.run, scratch)
    text = (
        "Your last answer could not be read, so it does not count:\n"
        f"{quoted(error.message)}\n\nIt ended like this:\n{quoted(str(error.details.get('raw', ''))[-2000:])}\n\n"
        "Give the same answer again, complete, in the required form. Change no files.\n" + _form(talk.model)
    )
    session = taken.session or talk.agent.session(*await where(world, talk, taken.turn))
    try:
        again = await later_turn(world, talk, taken.turn.after(text=text, session=session, branch=scratch))
        await world.drop(scratch.id)
        return _fitting(talk, again.left)
    except StepFailed as failed:
        # Where the work stands is where a person looks first, not where it was only said again.
        failed.details["branch"] = branch.id
        raise


def _fitting(talk: Talk, reply: Reply | MalformedAnswer) -> Value:
    """The answer, if it fits its model and speaks only of what was asked."""
    if isinstance(reply, MalformedAnswer):
        raise reply
    value = parse(talk.model, reply)
    if isinstance(value, verdicts.Verification):
        known = [finding["id"] for finding in talk.request.inputs["prompt"]["findings"]]
        strange = [item.finding for item in value.triage if item.finding not in known]
        if strange:
            said = f"the triage names {', '.join(strange)}, but the findings are {', '.join(known)}"
            raise MalformedAnswer(said, raw=reply.text[-65536:])
    return value


def _question(request: Request, prompt: Prompt, model: type[Value]) -> str:
    return render(request.name, prompt, request.inputs["prompt"] | {"shown": request.shown}) + "\n" + _form(model)


def _form(model: type[Value]) -> str:
    """How to answer: the token grammar, or JSON in the answer file."""
    return (
        f"\n## How to answer\n{grammar(model)}\n\nOr leave the answer as JSON in the file that $RESOLVENT_ANSWER "
        f"names, after this schema:\n| {_schema(model)}\n"
    )


@cache
def _schema(model: type[Value]) -> str:
    return json.dumps(model.model_json_schema())


def _said(heard: Heard) -> dict[str, Any]:
    return {
        "value": heard.value.model_dump(mode="json"),
        "branch": heard.branch.model_dump(mode="json"),
        "agent": heard.agent,
        "summary": _token(heard.value),
    }


def _token(value: Value) -> str:
    return str(getattr(value, "verdict", "") or getattr(value, "mode", ""))
