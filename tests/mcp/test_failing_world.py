"""What fails around the worker: disks, programs and walls that are gone, bugs. Nobody else hears of it."""

import asyncio
import errno
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from resolvent.branching import Branching
from resolvent.engine.world import Backoff
from resolvent.errors import BranchBusy, Bug, NotFound, StepFailed, StoreBusy
from resolvent.exploring import Asked, Explorer

from .place import CONFIGURATION, GATE, Place, eventually
from .workshop import ended, exploring, working


class Failing:
    """A workspace one verb of which fails as often as it is told to."""

    def __init__(self, real: object, verb: str, *errors: BaseException) -> None:
        self._real, self._verb, self.errors = real, verb, list(errors)

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._real, name)
        if name != self._verb or not self.errors:
            return real

        async def fails(*_: object, **__: object) -> None:
            raise self.errors.pop(0)

        return fails


def failing(explorer: Explorer, verb: str, *errors: BaseException, **more: Any) -> Explorer:
    workspace = Failing(explorer._ground.workspace, verb, *errors)
    return Explorer(explorer._home, replace(explorer._ground, workspace=workspace, **more))


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.EIO, "Input/output error"), StoreBusy),
        (OSError(errno.EPERM, "Operation not permitted"), StepFailed),
        (RuntimeError("fell over"), Bug),
        (BranchBusy("somebody is in there", hint="wait"), BranchBusy),
    ],
    ids=["disk", "modes", "bug", "busy"],
)
async def test_a_deletion_that_fails_is_told_and_the_worker_goes_on(
    place: Place, error: BaseException, told: type[Exception]
) -> None:
    async with exploring(place) as explorer:
        faulty = failing(explorer, "delete", error)
        async with working(faulty):
            (row,) = await faulty.explore(Asked(prompts=("echo kept > file",)))
            await ended(faulty, row.id)
            with pytest.raises(told, match=f"branch {row.id} could not be deleted: "):
                await faulty.delete(row.id)
            assert (await faulty.branch(row.id)).status == "succeed"
            assert (await faulty.delete(row.id)).rescue, "the second time it can be"
            (other,) = await faulty.explore(Asked(prompts=("true",)))
            assert (await ended(faulty, other.id)).status == "succeed"


async def test_a_failed_deletion_takes_no_reason_away_and_gives_one_to_who_was_stopped(place: Place) -> None:
    async with exploring(place) as explorer:
        faulty = failing(explorer, "delete", *(BranchBusy("no") for _ in range(2)))
        async with working(faulty):
            (failed,), (stopped,) = [await faulty.explore(Asked(prompts=(text,))) for text in ("exit 7", GATE)]
            before = await ended(faulty, failed.id)
            await asyncio.to_thread(place.at_gate, stopped.id)
            for row in (failed, stopped):
                with pytest.raises(BranchBusy):
                    await faulty.delete(row.id)
            after, cut = await faulty.branch(failed.id), await faulty.branch(stopped.id)
            assert (after.status_text, after.error) == (before.status_text, before.error)
            assert (cut.status, cut.status_text, cut.error) == ("failed", "stopped to be deleted, which failed", "no")


def impatient(pauses: list[float]) -> dict[str, Any]:
    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    return {"patience": Backoff(first_s=1.0, factor=3.0, tries=3), "pause": pause}


@pytest.mark.parametrize("verb", ["root", "enter", "snapshot"])
async def test_a_world_that_heals_is_asked_again_after_growing_pauses(place: Place, verb: str) -> None:
    pauses: list[float] = []
    async with exploring(place) as explorer:
        faulty = failing(explorer, verb, StoreBusy("full"), StoreBusy("full"), **impatient(pauses))
        async with working(faulty):
            (row,) = await faulty.explore(Asked(prompts=("echo x >> file; echo said",)))
            assert (await ended(faulty, row.id)).status == "succeed"
        assert pauses == [1.0, 3.0]
        assert await faulty.output(row.id) == "said\n"
        assert await faulty.read_file(row.id, "file") == b"x\n", "its agent was started once"


async def test_a_world_that_does_not_heal_is_the_end_of_it(place: Place) -> None:
    pauses: list[float] = []
    async with exploring(place) as explorer:
        faulty = failing(explorer, "root", *(StoreBusy("full") for _ in range(3)), **impatient(pauses))
        async with working(faulty):
            (row,) = await faulty.explore(Asked(prompts=("true",)))
            found = await ended(faulty, row.id)
        assert (found.status, found.status_text, pauses) == ("failed", "full", [1.0, 3.0])


async def test_an_exploration_that_waits_for_the_world_to_heal_can_be_deleted(place: Place) -> None:
    waiting = asyncio.Event()

    async def for_ever(_: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    async with exploring(place) as explorer:
        faulty = failing(explorer, "root", StoreBusy("full"), pause=for_ever)
        async with working(faulty):
            (row,) = await faulty.explore(Asked(prompts=("true",)))
            await waiting.wait()
            assert (await faulty.branch(row.id)).status_text == "tried again in 1 s: full"
            async with asyncio.timeout(30):
                await faulty.delete(row.id)


Then = Callable[[Place], Awaitable[None]]


async def still_running(place: Place, then: Then, *overrides: str, unsafe: bool) -> None:
    """An exploration whose agent waits while its worker goes away and the world changes."""
    async with exploring(place, *overrides, unsafe=unsafe) as explorer:
        async with working(explorer):
            running, done = await explorer.explore(Asked(prompts=(f"{GATE}; echo ended well",), count=2))
            for row in (running, done):
                await asyncio.to_thread(place.at_gate, row.id)
        await asyncio.to_thread(place.open_gate, done.id)
        await then(place)
    async with exploring(place, *overrides) as later, working(later):
        await asyncio.to_thread(place.open_gate, running.id)
        for row in (running, done):
            assert (await ended(later, row.id)).status == "succeed"
            assert await later.output(row.id) == "ended well\n"


async def test_an_agent_whose_program_is_gone_since_is_heard_to_its_end(place: Place) -> None:
    program = place.directory / "agent"
    program.write_text("#!/bin/sh\nexec sh\n")
    program.chmod(0o755)
    text = CONFIGURATION.replace('command = ["sh"]', f'command = ["{program}"]', 1)
    (place.project / "resolvent.toml").write_text(text, encoding="utf-8")

    async def remove(_: Place) -> None:
        program.unlink()

    await still_running(place, remove, unsafe=False)


async def test_who_was_let_run_without_walls_is_heard_to_its_end_by_a_server_that_would_not(place: Place) -> None:
    async def nothing(_: Place) -> None: ...

    await still_running(place, nothing, "sandbox.rung=plain", unsafe=True)


def left(place: Place, id: str) -> set[str]:
    return {str(path.relative_to(place.state)) for path in place.state.glob(f"*/{id}.*")}


async def test_a_private_directory_goes_with_its_prompt_and_all_else_with_the_branch(place: Place) -> None:
    async with exploring(place, "sandbox.keep=0") as explorer:
        async with working(explorer):
            (row,) = await explorer.explore(Asked(prompts=("echo 1 > one", "exit 1", "true")))
            assert (await ended(explorer, row.id)).status == "failed"
        assert left(place, row.id) == {f"jobs/{row.id}.1", f"jobs/{row.id}.2", f"private/{row.id}.2"}
        cleaned = await Branching(explorer._home).clean()
        assert left(place, row.id) == set()
        with pytest.raises(NotFound, match=cleaned["rescued"][row.id]):
            await explorer.branch(row.id)


async def test_what_a_killed_worker_did_not_live_to_remove_is_swept_by_the_next(place: Place) -> None:
    async with exploring(place) as explorer:
        async with working(explorer):
            done, gone = await explorer.explore(Asked(prompts=("true",), count=2))
            await ended(explorer, done.id), await ended(explorer, gone.id)
            await explorer.delete(gone.id)
        await asyncio.to_thread(eventually, lambda: left(place, done.id) == {f"jobs/{done.id}.1"})
        strange = place.state / "private" / f"{done.commit}.1"
        for directory in (place.private(done.id), place.private(gone.id), place.state / f"jobs/{gone.id}.1", strange):
            (directory / "home").mkdir(parents=True)
        async with working(explorer):
            (another,) = await explorer.explore(Asked(prompts=("true",)))
            await ended(explorer, another.id)
        assert left(place, done.id) == {f"jobs/{done.id}.1"} and left(place, gone.id) == set()
        assert strange.is_dir(), "whose it is nobody knows"
