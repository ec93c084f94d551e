"""The verbs ask and edit: one agent, one branch, one answer; one repair turn when it does not fit."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from resolvent.domain import verdicts
from resolvent.domain.events import JobStarted
from resolvent.domain.job import Branch, Job, JobExit, Reply, Task
from resolvent.domain.model import Value
from resolvent.domain.record import AgentChoice, Frozen, JobRow
from resolvent.engine.answers import grammar, parse
from resolvent.engine.jobs import supervise
from resolvent.engine.prompts import Prompt, quoted, read, render
from resolvent.engine.requests import Request
from resolvent.engine.world import World
from resolvent.errors import AgentBusy, Bug, MalformedAnswer, StepFailed
from resolvent.ports import Agent

SHOWN_IGNORED = 100
ANSWERS: dict[str, type[Value]] = {
    model.__name__: model
    for model in (
        verdicts.Analysis,
        verdicts.Implementation,
        verdicts.Fix,
        verdicts.Review,
        verdicts.Verification,
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


@dataclass(frozen=True)
class _Turn:
    """Everything one turn needs besides the world."""

    request: Request
    agent: Agent
    choice: AgentChoice
    prompt: Prompt
    model: type[Value]
    unsafe: bool


async def _converse(world: World, frozen: Frozen, request: Request) -> Heard:
    prompt = read(request.name, frozen.prompts[request.name])
    choice = frozen.agents[prompt.role]
    model = ANSWERS[request.inputs["model"]]
    turn = _Turn(request, world.agent(choice), choice, prompt, model, frozen.unsafe)
    text = _question(request, prompt, model)
    branch, exit, said, tries = await _first_turn(world, turn, text)
    try:
        value = _fitting(turn, said)
    except MalformedAnswer as error:
        with _failing_in(branch):
            value = await _repaired(world, turn, branch, error=error, tries=tries)
    return Heard(value, branch, exit, choice.name)


async def _first_turn(world: World, turn: _Turn, text: str) -> tuple[Branch, JobExit, Reply | MalformedAnswer, int]:
    """The same step from the same parent again when the agent's own world was down for a moment."""
    parent = Branch.model_validate(turn.request.inputs["on"])
    for tries, delay in enumerate((*world.backoff.delays(), None), start=1):
        branch = await world.workspace.fork(parent, id=f"{turn.request.id}.{tries}")
        await world.journal.save_branch(turn.request.run, branch)
        try:
            with _failing_in(branch):
                exit, said = await _take_turn(world, turn, branch, text=text, name=f"{tries}.1")
        except AgentBusy:
            if delay is None:
                raise
            await asyncio.sleep(delay)
        else:
            return branch, exit, said, tries
    raise Bug("a turn neither ended nor failed")


@contextmanager
def _failing_in(branch: Branch) -> Iterator[None]:
    """A step that fails names its branch: that is where a person looks first."""
    try:
        yield
    except StepFailed as error:
        error.details["branch"] = branch.id
        raise


async def _repaired(world: World, turn: _Turn, branch: Branch, *, error: MalformedAnswer, tries: int) -> Value:
    """One more turn on the same files to say it properly; what it edits is thrown away."""
    scratch = await world.workspace.fork(branch, id=f"{turn.request.id}.{tries}.repair")
    await world.journal.save_branch(turn.request.run, scratch)
    text = (
        "Your last answer could not be read, so it does not count:\n"
        f"{quoted(error.message)}\n\nIt ended like this:\n{quoted(str(error.details.get('raw', ''))[-2000:])}\n\n"
        "Give the same answer again, complete, in the required form. Change no files.\n" + _form(turn.model)
    )
    _, reply = await _take_turn(world, turn, scratch, text=text, name=f"{tries}.2")
    await world.drop(scratch.id)
    return _fitting(turn, reply)


async def _take_turn(
    world: World, turn: _Turn, branch: Branch, *, text: str, name: str
) -> tuple[JobExit, Reply | MalformedAnswer]:
    """How the process ended and what it left; what it left may already be malformed as a file."""
    request = turn.request
    id = f"{request.file_name}.{name}"
    number = int(name.rpartition(".")[2])
    private = world.private_directory(id)
    task = Task(
        run=request.run,
        step=request.name,
        attempt=request.attempt,
        turn=number,
        prompt=text,
        json_schema=_schema(turn.model),
        directory=private,
        inside=world.workspace.inside(private),
    )
    row = JobRow(id=id, run=request.run, step=request.id, name=request.name, agent=turn.choice.name, turn=number)
    async with world.slots.take("agents", request.run):
        began = JobStarted(step=request.id, job=id, agent=turn.choice.name)
        await world.journal.tell(request.run, began, at=world.clock.now(), key=f"{id}:job")
        job = _limited(turn.agent.job(task, id=id), turn)
        job = await world.workspace.enter(branch, job, private=private, unsafe=turn.unsafe)
        row, exit = await supervise(world, row, job)
    try:
        reply = turn.agent.reply(task, exit, world.jobs.output(id))
    except MalformedAnswer as error:
        return exit, error
    await world.journal.save_job(row.model_copy(update={"usage": reply.usage}))
    return exit, reply


def _limited(job: Job, turn: _Turn) -> Job:
    wall = turn.prompt.timeout_s
    limits = job.limits if wall is None else job.limits.model_copy(update={"wall_s": min(wall, job.limits.wall_s)})
    return job.model_copy(update={"limits": limits})


def _fitting(turn: _Turn, reply: Reply | MalformedAnswer) -> Value:
    """The answer, if it fits its model and speaks only of what was asked."""
    if isinstance(reply, MalformedAnswer):
        raise reply
    value = parse(turn.model, reply)
    if isinstance(value, verdicts.Verification):
        known = [finding["id"] for finding in turn.request.inputs["prompt"]["findings"]]
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
