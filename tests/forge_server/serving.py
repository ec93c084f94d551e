"""A hub that is served for real, with people who have tokens, and the real programs that talk to it."""

import asyncio
import contextlib
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from resolvent.forge_server.faults import Fault, Faults
from resolvent.forge_server.hub import Hub
from resolvent.forge_server.serving import Seen, Serving, serving

OWNER, NAME = "acme", "widget"
# Who is there, and what they may do.
PEOPLE = {OWNER: "admin", "wanda": "write", "rita": "read"}


@dataclass(frozen=True)
class Ended:
    """How a program ended."""

    code: int
    out: str
    err: str


@dataclass
class Served:
    """The forge of a test: its hub, where it answers, and a token for everybody in PEOPLE."""

    hub: Hub
    serving: Serving
    tokens: dict[str, str]
    home: Path
    _clients: list[httpx.AsyncClient] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.serving.url

    @property
    def api(self) -> str:
        return f"{self.url}/api/v3"

    @property
    def clone_url(self) -> str:
        return f"{self.url}/{OWNER}/{NAME}.git"

    @property
    def ca(self) -> Path:
        return self.serving.ca

    @property
    def proxy(self) -> str:
        return self.serving.proxy

    @property
    def faults(self) -> Faults:
        return self.serving.faults

    @property
    def requests(self) -> list[Seen]:
        return self.serving.requests

    def goes_wrong(self, kind: Any, **said: Any) -> None:
        """A fault from now on."""
        self.faults.add(Fault(kind=kind, **said))

    def client(self, login: str = OWNER, *, token: str | None = None, public: bool = False) -> httpx.AsyncClient:
        """A client with somebody's token; `public` asks for api.github.com through the proxy."""
        shown = self.tokens[login] if token is None else token
        made = httpx.AsyncClient(
            base_url="https://api.github.com" if public else self.api,
            proxy=self.proxy if public else None,
            headers={"authorization": f"token {shown}"} if shown else {},
            verify=ssl.create_default_context(cafile=self.ca),
            trust_env=False,
        )
        self._clients.append(made)
        return made

    def environment(self, login: str = OWNER) -> dict[str, str]:
        """What real `gh` and `git` are started with, to find github.com here and to be somebody."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "HTTPS_PROXY": self.proxy,
            "NO_PROXY": "localhost,127.0.0.1",
            "SSL_CERT_FILE": str(self.ca),
            "GIT_SSL_CAINFO": str(self.ca),
            "GH_TOKEN": self.tokens[login],
            "GH_CONFIG_DIR": str(self.home / "gh"),
            "GH_PROMPT_DISABLED": "1",
            "GH_NO_UPDATE_NOTIFIER": "1",
            "NO_COLOR": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_CONFIG_NOSYSTEM": "1",
            **{f"GIT_{role}_{what}": "tester" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        }

    async def run(
        self, *command: str, cwd: Path | None = None, login: str = OWNER, env: Mapping[str, str] = {}
    ) -> Ended:
        """Run a real program to its end as somebody."""
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=cwd or self.home,
            env={**self.environment(login), **env},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        return Ended(process.returncode or 0, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))

    async def git(self, *args: str, cwd: Path | None = None, login: str | None = OWNER) -> Ended:
        """Run git with somebody's token as its password; None: with none."""
        helper = '!f() { test "$1" = get && echo username=x && echo "password=$GH_TOKEN"; }; f'
        asking = ("-c", f"credential.helper={helper}") if login else ()
        env = {} if login else {"GH_TOKEN": ""}
        return await self.run("git", *asking, *args, cwd=cwd, login=login or OWNER, env=env)

    async def close(self) -> None:
        for client in self._clients:
            await client.aclose()


@contextlib.asynccontextmanager
async def being_served(directory: Path, *, certified: Path | None = None) -> AsyncIterator[Served]:
    """A new forge in that directory, served while the block lasts."""
    hub = await Hub.open(directory / "hub", owner=OWNER, name=NAME)
    home = directory / "home"
    home.mkdir()
    tokens = {}
    for login, permission in PEOPLE.items():
        await hub.account(login, permission=permission)
        tokens[login] = await hub.token(login)
    try:
        async with serving(hub, certified=certified) as started:
            served = Served(hub, started, tokens, home)
            try:
                yield served
            finally:
                await served.close()
    finally:
        await hub.close()
