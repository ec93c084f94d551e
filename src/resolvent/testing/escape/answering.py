"""Attacks by what is left in the private directory: the answer, the commits, the HOME the host comes back to."""

import asyncio
import os
from functools import partial
from pathlib import Path

from resolvent.adapters.agents.command import CommandAgent
from resolvent.adapters.git import Git
from resolvent.adapters.workspace.bundles import take_bundle
from resolvent.domain.job import Task
from resolvent.domain.record import AgentChoice
from resolvent.errors import ExportRefused, ResolventError
from resolvent.testing.escape.arena import Arena, Attack
from resolvent.testing.escape.found import Found, escaped, safe
from resolvent.testing.escape.leaving import leaked


async def odd_answer(arena: Arena, *, kind: str) -> Found:
    """Leave an answer that is no file, for whoever reads it on the host."""
    job, private, branch = await arena.prepare("answer", {"kind": kind, "target": str(arena.secret_file)}, branch=None)
    inside = arena.workspace.inside(str(private))
    report = await arena.start(
        job.model_copy(update={"environment": job.environment | {"RESOLVENT_ANSWER": f"{inside}/answer.json"}}),
        private,
        branch,
    )
    choice = AgentChoice(name="attacker", use="command", command=("/bin/sh",))
    task, agent = _task(private, inside), CommandAgent("attacker", choice, environment={})
    try:
        reply = await asyncio.to_thread(agent.reply, task, report.exit, arena.home.jobs().output(report.job))
    except ResolventError as error:
        return escaped("the secret is in the error") if arena.secret in str(error) else safe(error.message[-60:])
    return escaped("the secret is the answer") if arena.secret in str(reply) else safe("taken for no answer")


async def spoil_home(arena: Arena) -> Found:
    """Leave a link and a file where the host looks for our HOME and TMPDIR when it comes back for the same job."""
    job, private, branch = await arena.prepare(
        "spoil_home", {"target": str(arena.canary("made-through-a-link"))}, branch=None
    )
    report = await arena.start(job, private, branch)
    again = arena.home.private_directory(job.id)
    agent = CommandAgent("attacker", AgentChoice(name="attacker", use="command", command=("/bin/sh",)), environment={})
    agent.job(_task(private, arena.workspace.inside(again)), id=job.id)
    await arena.workspace.enter(branch, job, private=again, unsafe=arena.unsafe)
    if arena.canary("made-through-a-link").exists():
        return escaped("the host made a directory through a link")
    return safe(f"{report.said}; asked again, nothing was followed and nothing broke")


def _task(private: Path, inside: str) -> Task:
    asked = {"run": "prove", "step": "ask", "attempt": 1, "turn": 1, "prompt": "", "json_schema": "{}"}
    return Task.model_validate(asked | {"directory": str(private), "inside": inside})


async def odd_bundle(arena: Arena) -> Found:
    """Leave a link, a pipe and rubbish where the agent's own commits are looked for."""
    place = arena.directory / "bundles"
    place.mkdir(exist_ok=True)
    report = await arena.attack("links", {"secret": str(arena.secret_file), "directory": str(arena.outside)})
    said = []
    for number, plant in enumerate(PLANTS):
        left, scratch = report.private / f"home/bundle-{number}", place / str(number)
        scratch.mkdir()
        plant(left, arena.secret_file)
        try:
            await take_bundle(Git(arena.repository.path), left, branch=report.branch.id, scratch=scratch)
        except ExportRefused as error:
            said.append(error.message)
    leaking = arena.secret in "".join(said) or await leaked(arena, arena.secret)
    if leaking:
        return escaped("a secret was read")
    return safe("all refused") if len(said) == len(PLANTS) else escaped(f"only {len(said)} of {len(PLANTS)} refused")


def _link(left: Path, target: Path) -> None:
    left.symlink_to(target)


def _pipe(left: Path, _: Path) -> None:
    os.mkfifo(left)


def _rubbish(left: Path, _: Path) -> None:
    left.write_bytes(b"# v2 git bundle\n" + b"0" * 40 + b" HEAD\n\nPACK rubbish")


PLANTS = (_link, _pipe, _rubbish)


ATTACKS = (
    *(
        Attack(f"answer.json is a {kind}", "opened without following or waiting", partial(odd_answer, kind=kind))
        for kind in ("link", "fifo", "directory")
    ),
    Attack("HOME is a link when the host comes back", "made once, never followed", spoil_home),
    Attack("an odd bundle of commits", "copied as data, then fsck", odd_bundle),
)
