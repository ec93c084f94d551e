"""Perform one verb: journal it, hold its boundaries, retry what may heal, and return an error as a value."""

import asyncio
from collections.abc import Awaitable, Callable
from errno import EDQUOT, ENOSPC
from typing import Any

from resolvent.domain.change import Evidence
from resolvent.domain.events import StepFinished, StepStarted
from resolvent.domain.record import Frozen, StepRow
from resolvent.engine import checking, conversation, effects, observing
from resolvent.engine.requests import Request, dump_error, revive
from resolvent.engine.waiting import told_to_wait
from resolvent.engine.world import World
from resolvent.errors import AgentBusy, ResolventError, StepFailed, StoreBusy, Unavailable

Work = Callable[[World, Frozen, Request], Awaitable[dict[str, Any]]]

VERBS: dict[str, Work] = {
    "ask": conversation.ask,
    "edit": conversation.edit,
    "check": checking.check,
    "observe": observing.observe,
    "publish": effects.publish,
    "comment": effects.comment,
    "stick": effects.stick,
    "file_issue": effects.file_issue,
    "merge": effects.merge,
    "declare": effects.declare,
}


async def perform(world: World, asked: dict[str, Any]) -> dict[str, Any]:
    """Do what was asked and return `{"ok": …}` or `{"error": …}`; nothing is ever raised into the library."""
    request = Request.model_validate(asked)
    row = _row(world, request)
    await world.journal.save_step(row)
    begun = StepStarted(step=request.id, verb=request.verb, title=request.title)
    await world.journal.tell(request.run, begun, at=row.started_at, key=f"{request.id}:started")
    world.boundary("before", request.id)
    result = await _result(world, request)
    world.boundary("between", request.id)
    await _record(world, request, row, result)
    return result


async def give_up(world: World, asked: dict[str, Any], error: ResolventError) -> dict[str, Any]:
    """Record that a verb broke with this error: what is not on record as failed would never be tried again."""
    request, result = Request.model_validate(asked), {"error": dump_error(error)}
    await _record(world, request, _row(world, request), result)
    return result


def _row(world: World, request: Request) -> StepRow:
    return StepRow(
        id=request.id,
        run=request.run,
        key=request.key,
        verb=request.verb,
        name=request.name,
        title=request.title,
        attempt=request.attempt,
        position=request.position,
        started_at=world.clock.now(),
    )


async def _result(world: World, request: Request) -> dict[str, Any]:
    if request.copied is not None:
        await _inherit(world, request, request.copied)
        return {"ok": request.copied}
    run = await world.journal.run(request.run)
    try:
        if run.state == "ended" or run.cancelling:
            # Left over from a process that died before the run was called off.
            raise StepFailed("the run was called off before this step began")
        return {"ok": await _patiently(world, run.inputs, request)}
    except ResolventError as error:
        return {"error": dump_error(error)}
    except OSError as error:
        if error.errno not in (ENOSPC, EDQUOT):
            raise
        raise StoreBusy(f"the disk is full: {error}", hint="df -h") from error


async def _inherit(world: World, request: Request, copied: dict[str, Any]) -> None:
    """A forked run shows the evidence it stands on as its own."""
    if request.verb == "check":
        evidence = Evidence.model_validate(copied["evidence"])
        await world.journal.save_evidence(request.run, evidence.model_copy(update={"id": request.id}))


async def _patiently(world: World, frozen: Frozen, request: Request) -> dict[str, Any]:
    """Ask a world that may heal again, with growing pauses; its last refusal is the answer."""
    for delay in (*world.backoff.delays(), None):
        try:
            return await VERBS[request.verb](world, frozen, request)
        except AgentBusy:
            raise
        except Unavailable as error:
            if delay is None:
                raise
            pause = max(delay, told_to_wait(world, error))
        await asyncio.sleep(pause)
    raise AssertionError("the last try returns or raises")


async def _record(world: World, request: Request, row: StepRow, result: dict[str, Any]) -> None:
    ended_at = world.clock.now()
    failed = "error" in result
    summary = _summary(result)
    await world.journal.save_step(
        row.model_copy(
            update={
                "state": "failed" if failed else "done",
                "ended_at": ended_at,
                "summary": summary,
                "result": result,
            }
        )
    )
    finished = StepFinished(
        step=request.id,
        verb=request.verb,
        title=request.title,
        state="failed" if failed else "done",
        seconds=round(ended_at - row.started_at, 3),
        summary=summary,
    )
    await world.journal.tell(request.run, finished, at=ended_at, key=f"{request.id}:finished")


def _summary(result: dict[str, Any]) -> str:
    if "error" in result:
        return f"{result['error']['class']}: {revive(result['error']).message}"[:300]
    return str(result["ok"].get("summary", ""))[:300]
