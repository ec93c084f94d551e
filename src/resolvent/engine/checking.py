"""The check verb: run one command on one commit, and make the evidence. Nothing else makes any."""

import asyncio
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from resolvent.domain.change import Change, Check, Evidence, execution_of, signature_of
from resolvent.domain.job import Branch, Job, JobExit
from resolvent.domain.record import Frozen, JobRow
from resolvent.engine.jobs import supervise
from resolvent.engine.reaching import Reached, Reaching
from resolvent.engine.requests import Request
from resolvent.engine.world import World
from resolvent.errors import ExportRefused

TELLING_BYTES = 1 << 20
QUOTED_CHARACTERS = 4000
NOTHING_RAN = JobExit(ending="unstartable", exit=126, started_at=0.0, ended_at=0.0, seconds=0.0)


async def check(world: World, frozen: Frozen, request: Request) -> dict[str, Any]:
    """Run the command on a fresh checkout of exactly that commit; never on an agent's branch."""
    asked = Check.model_validate(request.inputs["check"])
    change = Change.model_validate(request.inputs["on"])
    branch = Branch(id=request.id, parent=None, commit=change.commit)
    reached: Reached | Literal[""] = "unknown" if "watch" in request.inputs else ""
    try:
        exit, output, log, reached = await _execute(world, frozen, request, asked=asked, branch=branch)
    except ExportRefused as error:
        # Files that cannot be laid over the checkout: nothing ran, so nothing is shown.
        exit, output, log = NOTHING_RAN, (sha256(error.message.encode()).hexdigest(), error.message), ""
    evidence = Evidence(
        id=request.id,
        check=asked,
        on=change.commit,
        exit=exit.exit,
        seconds=round(exit.seconds, 3),
        digest=output[0],
        log=log,
        branch=branch.id,
        nth=int(request.inputs["nth"]),
        # A message on a job that ended by itself says that output was lost: what is left proves nothing.
        execution=execution_of(asked, exit=exit.exit, output=output[1], ended=exit.ended and not exit.message),
        signature=signature_of(asked, exit=exit.exit, output=output[1]),
        reached=reached,
        tail=output[1][-QUOTED_CHARACTERS:],
    )
    await world.journal.save_evidence(request.run, evidence)
    await world.drop(branch.id)
    return {"evidence": evidence.model_dump(mode="json"), "summary": f"{evidence.execution}, exit {evidence.exit}"}


async def _execute(
    world: World, frozen: Frozen, request: Request, *, asked: Check, branch: Branch
) -> tuple[JobExit, tuple[str, str], str, Reached | Literal[""]]:
    """How the command ended, the digest and end of its output, where all of that is, and what it reached."""
    change = Change.model_validate(request.inputs["on"])
    async with world.slots.take("checks", request.run):
        await world.workspace.root(change, id=branch.id)
        await world.journal.save_branch(request.run, branch)
        await world.workspace.lay(branch, asked.files, base=frozen.base)
        row = JobRow(id=request.file_name, run=request.run, step=request.id, name=asked.name)
        private = world.private_directory(row.id)
        job = _job(world, frozen, asked, id=row.id, home=world.workspace.inside(private))
        reaching = None
        if watch := request.inputs.get("watch"):
            reaching = await Reaching.over(world, change, asked, watch=watch, private=private)
            job = job.model_copy(update={"environment": job.environment | reaching.environment})
        job = await world.workspace.enter(branch, job, private=private, unsafe=frozen.unsafe)
        _, exit = await supervise(world, row, job)
    log = world.jobs.output(row.id)
    reached: Reached | Literal[""] = ""
    if reaching is not None:
        reached = await asyncio.to_thread(reaching.said, exit, root=job.cwd)
    return exit, await asyncio.to_thread(_read, log), str(log), reached


def _job(world: World, frozen: Frozen, asked: Check, *, id: str, home: str) -> Job:
    wall_s = min(asked.timeout_s, frozen.check_limits.wall_s)
    return Job(
        id=id,
        argv=("/bin/sh", "-c", asked.command),
        environment=world.environment | {"HOME": f"{home}/home", "TMPDIR": f"{home}/tmp"},
        limits=frozen.check_limits.model_copy(update={"wall_s": wall_s}),
    )


def _read(path: Path) -> tuple[str, str]:
    """The digest of the whole output, and the end of it as text."""
    whole, tail = sha256(), b""
    with path.open("rb") as output:
        while chunk := output.read(TELLING_BYTES):
            whole.update(chunk)
            tail = (tail + chunk)[-TELLING_BYTES:]
    return whole.hexdigest(), tail.decode("utf-8", "replace")
