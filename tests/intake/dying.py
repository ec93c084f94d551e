"""A host in a process of its own that is killed at every boundary it has not been killed at before."""

import asyncio
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from resolvent.engine.world import World
from resolvent.working import Session

from .scene import Town

ROOT = Path(__file__).parents[2]


async def killed_everywhere(directory: Path) -> list[str]:
    """Start a host over and over until one lives to the end; where the others died."""
    while True:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.intake.dying", str(directory), cwd=ROOT
        )
        ended = await process.wait()
        if ended != -signal.SIGKILL:
            assert ended == 0
            return (directory / "deaths").read_text(encoding="utf-8").splitlines()


async def _live(directory: Path) -> None:
    deaths = directory / "deaths"
    deaths.touch()
    known = deaths.read_text(encoding="utf-8").splitlines()

    def reached(point: str) -> None:
        if point not in known:
            with deaths.open("a", encoding="utf-8") as log:
                log.write(f"{point}\n")
            os.kill(os.getpid(), signal.SIGKILL)

    def of_the_worker(point: str, verb: str) -> None:
        if "/stop#" in verb or verb.endswith("/release"):
            reached(f"{point} {verb.partition('/')[2]}")

    def adjust(world: World) -> World:
        return replace(world, boundary=of_the_worker)

    town = await Town.built(directory)
    host = await town.host("alpha", boundary=reached)
    intake = await host.intake()
    await Session(host.home, adjust=adjust, first=intake.once).serve_until_idle()
    # Crash-only: there is nothing to tidy that the next process would not find.
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(_live(Path(sys.argv[1])))
