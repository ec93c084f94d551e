"""A rehearsal forge beside a test: GitHub's REST, GraphQL and git on loopback, and the settings that lead there.

async with rehearsing(tmp_path / "forge") as rehearsal:
    stage = await Stage.set_up(tmp_path, rehearsal=rehearsal)
"""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from resolvent.ports import Clock

if TYPE_CHECKING:
    from resolvent.forge_server.hub import Hub
    from resolvent.forge_server.serving import Serving

OWNER, NAME = "acme", "widgets"
TOKEN = "FORGE_TOKEN_OF_THE_REHEARSAL"
LOGIN = "resolvent"


@dataclass(frozen=True)
class Rehearsal:
    """Where it is, for this process and for any other."""

    directory: Path
    url: str
    ca: Path
    token: str

    @property
    def port(self) -> int:
        """Where it listens: what is written there has links with it in them."""
        return int(self.url.rpartition(":")[2])

    @property
    def settings(self) -> tuple[str, ...]:
        """What `--set` has to say so that a run works there."""
        return (
            'forge.kind="github"',
            f'forge.repo="{OWNER}/{NAME}"',
            f'forge.api="{self.url}/api/v3"',
            f'forge.token="${TOKEN}"',
            f'forge.ca="{self.ca}"',
            'forge.poll="0.05s"',
        )

    @property
    def environment(self) -> dict[str, str]:
        """The variable that the settings name."""
        return {TOKEN: self.token}

    def save(self, file: Path) -> None:
        """For a process that is started later."""
        said = {"directory": str(self.directory), "url": self.url, "ca": str(self.ca), "token": self.token}
        file.write_text(json.dumps(said), encoding="utf-8")

    @classmethod
    def load(cls, file: Path) -> "Rehearsal | None":
        """The one that was saved there, if one was."""
        if not file.exists():
            return None
        said = json.loads(file.read_text(encoding="utf-8"))
        return Rehearsal(Path(said["directory"]), said["url"], Path(said["ca"]), said["token"])

    async def hub(self, *, clock: Clock | None = None) -> "Hub":
        """What it holds, opened once more for whoever plays the rest of the world."""
        from resolvent.forge_server.hub import Hub

        return await Hub.open(self.directory, owner=OWNER, name=NAME, clock=clock)


@dataclass(frozen=True)
class Rehearsing(Rehearsal):
    """One that is served by this process: its faults can be set, and its requests counted."""

    serving: "Serving"
    held: "Hub"


@asynccontextmanager
async def rehearsing(directory: Path, *, clock: Clock | None = None, port: int = 0) -> AsyncIterator[Rehearsing]:
    """Serve a rehearsal forge until the block is left; port 0 is any that is free."""
    from resolvent.forge_server.hub import Hub
    from resolvent.forge_server.serving import serving

    hub = await Hub.open(directory, owner=OWNER, name=NAME, clock=clock)
    try:
        await hub.account(LOGIN, permission="admin")
        token = await hub.token(LOGIN)
        async with serving(hub, port=port) as served:
            yield Rehearsing(directory, served.url, served.ca, token, served, hub)
    finally:
        await hub.close()
