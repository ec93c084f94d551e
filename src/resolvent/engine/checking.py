"""The check verb: run one command on one commit, and make the evidence. Nothing else makes any."""

import asyncio
from hashlib import sha256
from pathlib import Path
from typing import Any

from resolvent.domain.change import Change, Check, Evidence, execution_of, signature_of
from resolvent.domain.job import Job
from resolvent.domain.record import Frozen, JobRow
from resolvent.engine.requests import Request
from resolvent.engine.world import World

TELLING_BYTES = 1 << 20
QUOTED_CHARACTERS = 4000


async def check(world: World, frozen: Frozen, request: Request) -> dict[str, Any]:
    """Run the command on a fresh checkout of exactly that commit; never on an agent's branch."""
    asked = Check.model_validate(request.inputs["check"])
    change = Change.model_validate(request.inputs["on"])
    async with world.slots.checks:
        branch = await world.workspace.root(change, id=request.id)
        await world.journal.save_branch(request.run, branch)
        await world.workspace.lay(branch, asked.files)
        row = JobRow(id=request.file_name, run=request.run, step=request.id, name=asked.name)
        await world.journal.save_job(row)
        exit = await world.jobs.ensure(_job(world, frozen, asked, id=row.id, cwd=str(world.workspace.path(branch))))
    said, output = await asyncio.to_thread(_read, world.jobs.output(row.id))
    evidence = Evidence(
        id=request.id,
        check=asked,
        on=change.commit,
        exit=exit.exit,
        seconds=round(exit.seconds, 3),
        digest=said,
        log=str(world.jobs.output(row.id)),
        branch=branch.id,
        nth=int(request.inputs["nth"]),
        # A message on a job that ended by itself says that output was lost: what is left proves nothing.
        execution=execution_of(asked, exit=exit.exit, output=output, ended=exit.ended and not exit.message),
        signature=signature_of(asked, exit=exit.exit, output=output),
        tail=output[-QUOTED_CHARACTERS:],
    )
    ended = {"state": "ended", "ending": exit.ending, "exit": exit.exit, "seconds": exit.seconds}
    await world.journal.save_job(row.model_copy(update=ended))
    await world.journal.save_evidence(request.run, evidence)
    await world.workspace.drop(branch.id)
    return {"evidence": evidence.model_dump(mode="json"), "summary": f"{evidence.execution}, exit {evidence.exit}"}


def _job(world: World, frozen: Frozen, asked: Check, *, id: str, cwd: str) -> Job:
    private = world.private_directory(id)
    wall_s = min(asked.timeout_s, frozen.check_limits.wall_s)
    return Job(
        id=id,
        argv=("/bin/sh", "-c", asked.command),
        cwd=cwd,
        environment=world.environment | {"HOME": f"{private}/home", "TMPDIR": f"{private}/tmp"},
        limits=frozen.check_limits.model_copy(update={"wall_s": wall_s}),
        frozen_at=world.clock.frozen_at,
    )


def _read(path: Path) -> tuple[str, str]:
    """The digest of the whole output, and the end of it as text."""
    whole, tail = sha256(), b""
    with path.open("rb") as output:
        while chunk := output.read(TELLING_BYTES):
            whole.update(chunk)
            tail = (tail + chunk)[-TELLING_BYTES:]
    return whole.hexdigest(), tail.decode("utf-8", "replace")
