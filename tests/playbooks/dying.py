"""A worker in a process of its own that is killed at a boundary: nothing is flushed, closed or said."""

import asyncio
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from resolvent.engine.world import World
from resolvent.testing.demo_story import Scene, write_story
from resolvent.testing.rehearsal import Rehearsal
from resolvent.testing.stage import Stage
from resolvent.working import Session


async def killed(stage: Stage, run: str, *, at: str, scenes: list[Scene]) -> None:
    """Work on the run in another process until it comes to a boundary, such as `before merge:`, and dies there."""
    write_story(stage.directory / "story.json", scenes)
    if stage.rehearsal:
        stage.rehearsal.save(stage.directory / "rehearsal.json")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.playbooks.dying", str(stage.directory), run, at, cwd=Path(__file__).parents[2]
    )
    assert await process.wait() == -signal.SIGKILL


async def _work(directory: Path, run: str, at: str) -> None:
    def reached(point: str, verb: str) -> None:
        if f"{point} {verb.removeprefix(f'{run}/')}".startswith(at):
            os.kill(os.getpid(), signal.SIGKILL)

    def adjust(world: World) -> World:
        return replace(world, boundary=reached)

    rehearsal = Rehearsal.load(directory / "rehearsal.json")
    await Session(Stage(directory, rehearsal=rehearsal).app.home, adjust=adjust).follow(run)


if __name__ == "__main__":
    asyncio.run(_work(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
