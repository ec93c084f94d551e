"""The probes of doctor: each looks at the real thing and says how to mend it."""

import asyncio
import platform
import re
from pathlib import Path
from typing import Any

from resolvent.cli.agent_probing import agent_probes, agents_seen
from resolvent.cli.claim_probing import claim_probes
from resolvent.cli.diagnosis import Probe, fault, found
from resolvent.cli.ladder import sandbox
from resolvent.cli.place import repository
from resolvent.cli.sights import sights
from resolvent.errors import ConfigError, ResolventError
from resolvent.places import environment
from resolvent.wiring import Home

OLDEST_GIT = (2, 38)


async def probe(directory: Path | None) -> tuple[list[Probe], list[dict[str, Any]]]:
    """Everything, as far as it can be looked at, and each agent; what is broken does not hide the rest."""
    git = await _git()
    told = [git, found("python", f"{platform.python_version()}")]
    try:
        home = Home.of(repository(directory), environ=environment())
    except ResolventError as error:
        return [*told, fault("configuration" if isinstance(error, ConfigError) else "repository", error)], []
    told += [found("repository", str(home.repository)), found("state", str(home.state))]
    try:
        told += [await _store(home), *await sandbox(home), *await sights(home)]
        # Without a git that works, all it would say is that.
        told += [*await _forge(home), *await claim_probes(home)] if git["state"] == "ok" else []
        agents = await agents_seen(home)
        told += await agent_probes(home, agents)
        return [*told, _checks(home)], [one.model_dump(mode="json") for one in agents]
    finally:
        await home.close()


async def _git() -> Probe:
    fix = "sudo apt-get install --yes git"
    try:
        process = await asyncio.create_subprocess_exec("git", "--version", stdout=asyncio.subprocess.PIPE)
    except FileNotFoundError:
        return found("git", "is not installed", state="fault", fix=fix)
    said = (await process.communicate())[0].decode("utf-8", "replace").strip()
    number = re.search(r"(\d+)\.(\d+)", said)
    if not number or (int(number[1]), int(number[2])) < OLDEST_GIT:
        return found("git", f"{said}: 2.38 or newer is needed", state="fault", fix=fix)
    return found("git", said.removeprefix("git version "))


async def _store(home: Home) -> Probe:
    from resolvent.working import Session

    try:
        await home.journal()
        worker = await Session(home).worker()
    except ResolventError as error:
        return fault("store", error)
    kind = home.store_url.partition(":")[0]
    return found("store", f"{kind}, {f'process {worker} works on it' if worker else 'no worker is running'}")


async def _forge(home: Home) -> list[Probe]:
    if home.settings.forge.kind == "github":
        from resolvent.cli.github_probing import github_probes

        return await github_probes(home)
    try:
        return [found("forge", f"local, {(await home.local_forge()).path}")]
    except ResolventError as error:
        return [fault("forge", error)]


def _checks(home: Home) -> Probe:
    commands = home.settings.checks.commands
    if not commands:
        fix = 'set checks.test = "…" in resolvent.toml'
        return found("checks", "none: only reproducers prove a change", state="note", fix=fix)
    return found("checks", "; ".join(f"{name}: {command}" for name, command in commands.items()))
