"""Where the watch over lines is played: a real commit, and checks of it in real boxes."""

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

from resolvent.domain.change import Check, Evidence, File
from resolvent.engine import checking
from resolvent.engine.requests import Request, plain
from resolvent.engine.world import World
from resolvent.testing.stage import Stage

Lines = Mapping[str, Sequence[int]]


class Watching:
    """A repository of one commit whose checks are watched."""

    def __init__(self, stage: Stage, world: World, run: str) -> None:
        self._stage = stage
        self._world = world
        self._run = run
        self._numbers = itertools.count(1)

    @classmethod
    async def set_up(cls, directory: Path, files: Mapping[str, str], *overrides: str) -> "Watching":
        stage = await Stage.set_up(directory, files=dict(files), overrides=("limits.checks=4", *overrides))
        run = await stage.submit(unsafe=any("plain" in one for one in overrides))
        return cls(stage, await stage.app.home.world(), run)

    async def check(
        self, command: str, watch: Lines | None = None, *, files: Mapping[str, str] = {}, wall_s: float = 60.0
    ) -> Evidence:
        """Run a command on the commit, watching these lines of it."""
        frozen = (await self._world.journal.run(self._run)).inputs
        laid = tuple(File(path=path, text=text) for path, text in files.items())
        asked = Check(name="reproducer", kind="reproducer", command=command, files=laid, timeout_s=wall_s)
        inputs = {"check": asked, "on": frozen.base, "nth": next(self._numbers)} | ({"watch": watch} if watch else {})
        request = Request(run=self._run, verb="check", name="reproducer", title="watched", inputs=plain(inputs))
        said = await checking.check(self._world, frozen, request)
        return Evidence.model_validate(said["evidence"])

    async def reached(self, command: str, watch: Lines, *, files: Mapping[str, str] = {}) -> str:
        """What the watch says of a command."""
        return (await self.check(command, watch, files=files)).reached

    async def all_reached(self, path: str, asked: Mapping[tuple[str, tuple[int, ...]], str]) -> dict[object, str]:
        """What the watch says of many commands, each with lines of one file."""
        said = await asyncio.gather(*(self.reached(command, {path: lines}) for command, lines in asked))
        return dict(zip(asked, said, strict=True))

    async def close(self) -> None:
        await self._stage.close()
