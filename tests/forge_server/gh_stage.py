"""Real `gh`, as a person or an agent types it: as github.com through the proxy, in a clone of its repository."""

import json
import re
import shlex
import shutil
import sys
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from os import defpath
from pathlib import Path
from typing import Any

import pytest
from tests.forge_server.serving import NAME, OWNER, Served

from resolvent.forge_server.holdings import Item

REPO = f"{OWNER}/{NAME}"
PUBLIC = f"https://github.com/{REPO}"
# The one that comes with the system, and the newest one, which comes with our own tools.
PROGRAMS = {
    "system": shutil.which("gh", path=defpath),
    "newest": shutil.which("gh", path=str(Path(sys.executable).parent)),
}


_VERSIONS: dict[str, tuple[int, ...]] = {}


async def _version(served: Served, program: str) -> tuple[int, ...]:
    if program not in _VERSIONS:
        told = (await served.run(program, "--version")).out
        _VERSIONS[program] = tuple(map(int, re.findall(r"\d+", told)[:3]))
    return _VERSIONS[program]


async def _template(gh: "Gh") -> Path:
    """A clone with one commit that nobody has pushed, made once for all tests."""
    made = gh.served.home.parent.parent / "clone-with-one-commit"
    if not made.exists():
        await gh.git("init", "--quiet", "--initial-branch", "main", str(made))
        (made / "a.txt").write_text("one\n")
        for words in ("add --all", "commit --quiet --message first", f"remote add origin {PUBLIC}.git"):
            await gh.git("-C", str(made), *words.split())
    return made


@dataclass
class Gh:
    """A `gh` of one version in a clone with one commit, which is pushed."""

    served: Served
    program: str
    work: Path
    version: tuple[int, ...]

    @classmethod
    async def ready(cls, served: Served, kind: str) -> "Gh":
        program = PROGRAMS[kind]
        if program is None:
            pytest.skip(f"there is no {kind} gh on this machine")
        gh = cls(served, program, served.home / "work", await _version(served, program))
        # Starting gh for each of git's questions is slow: only the test that is about it does.
        shown = b64encode(f"x:{served.tokens[OWNER]}".encode()).decode()
        config = f'[http "https://github.com"]\n\textraHeader = "Authorization: Basic {shown}"\n'
        (served.home / ".gitconfig").write_text(config)
        shutil.copytree(await _template(gh), gh.work)
        await gh.git("push", "--quiet", "origin", "main")
        return gh

    @property
    def new(self) -> bool:
        """One of the last years."""
        return self.version >= (2, 80)

    async def __call__(self, *args: str, login: str = OWNER, code: int = 0, env: Mapping[str, str] = {}) -> str:
        """What it says when it ends with that code; for another code than 0, what it complains of too."""
        cwd = self.work if self.work.exists() else None
        ended = await self.served.run(self.program, *args, cwd=cwd, login=login, env=env)
        assert ended.code == code, f"gh {shlex.join(args)} ended with {ended.code}: {ended.out}{ended.err}"
        return ended.out if code == 0 else ended.out + ended.err

    async def read(self, *args: str, fields: str = "", **how: Any) -> Any:
        """The answer to `--json`, of these fields or all there are."""
        return json.loads(await self(*args, "--json", fields or ",".join(await self.fields(*args)), **how))

    async def fields(self, *args: str) -> list[str]:
        """Every field that a command can print as JSON."""
        command = args[:2]
        ended = await self.served.run(self.program, *command, "--json", cwd=self.work)
        return re.findall(r"^  (\w+)$", ended.err, re.M)

    async def git(self, *args: str) -> str:
        ended = await self.served.run("git", *args, cwd=self.work if self.work.exists() else None)
        assert ended.code == 0, f"git {shlex.join(args)} ended with {ended.code}: {ended.err}"
        return ended.out

    async def commit(self, path: str, text: str) -> str:
        """The commit that adds or changes a file."""
        (self.work / path).write_text(text, encoding="utf-8")
        await self.git("add", "--all")
        await self.git("commit", "--quiet", "--message", f"change {path}")
        return (await self.git("rev-parse", "HEAD")).strip()

    async def branch(self, name: str, *, text: str = "more\n") -> str:
        """A branch with one commit of its own, pushed and checked out; its commit."""
        await self.git("checkout", "--quiet", "-b", name, "main")
        made = await self.commit(f"{name.replace('/', '-')}.txt", text)
        await self.git("push", "--quiet", "--set-upstream", "origin", name)
        return made

    async def item(self, number: int) -> Item:
        """The issue or pull request as the hub has it."""
        return (await self.served.hub.holdings()).items[number]


def number_in(url: str) -> int:
    """The number at the end of what `create` prints."""
    return int(url.strip().splitlines()[-1].rpartition("/")[2])
