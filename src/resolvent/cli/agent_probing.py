"""What can be said of each agent before it is started: its program, its key, its role, and what is missing."""

import asyncio
import os
import re
import signal
import tempfile
from collections.abc import Iterator
from contextlib import suppress

from resolvent.cli.diagnosis import Probe, found
from resolvent.cli.terminal import fit, one_line
from resolvent.domain.kinship import Player, akin
from resolvent.domain.model import Value
from resolvent.domain.record import AgentChoice, stand_ins
from resolvent.errors import ResolventError
from resolvent.ports import Agent
from resolvent.settings import ROLES, Role, agent_choice, agent_fallbacks, agent_named
from resolvent.wiring import PLAIN_PATH, Home
from resolvent.wiring_agents import KEYS

PATIENCE_S = 10.0
MOST_VERSION = 4096
# A person allows some programs to log in by variables of their own.
_SECRET = re.compile(r"KEY|TOKEN")


class Key(Value):
    """The variable that holds the key of an agent's model, never its value."""

    variable: str
    set: bool


class AgentSeen(Value):
    """One agent as it is configured, and whether it could begin now."""

    name: str
    use: str
    model: str = ""
    roles: tuple[str, ...] = ()
    instead_of: tuple[str, ...] = ()
    version: str = ""
    abilities: tuple[str, ...] = ()
    family: str = ""
    account: str = ""
    key: Key | None = None
    budget_usd: float | None = None
    ready: bool = False
    missing: str = ""
    fix: str = ""

    @property
    def used(self) -> bool:
        """A run as it is configured now may start it."""
        return bool(self.roles or self.instead_of)


async def agents_seen(home: Home) -> list[AgentSeen]:
    """Those that play a role first, then those who may take their place, then all others that are defined."""
    return list(await asyncio.gather(*(_seen(home, choice) for choice in _choices(home).values())))


def _choices(home: Home) -> dict[str, AgentChoice]:
    """By `name` or `name:model`, as a person would name them."""
    settings = home.settings
    roles = [agent_choice(settings, role) for role in ROLES]
    named = [*roles, *agent_fallbacks(settings, roles).values()]
    mentioned = {choice.name for choice in named}
    named += [agent_named(settings, name) for name in settings.agents.defined if name not in mentioned]
    return {_spelled(home, choice): choice for choice in named}


def _spelled(home: Home, choice: AgentChoice) -> str:
    usual = home.settings.agents.defined[choice.name].model
    return choice.name if choice.model == usual else f"{choice.name}:{choice.model}"


async def _seen(home: Home, choice: AgentChoice) -> AgentSeen:
    roles = [role for role in ROLES if agent_choice(home.settings, role) == choice]
    players = [agent_choice(home.settings, role) for role in ROLES]
    chain = (*players, *agent_fallbacks(home.settings, players).values())
    seen = AgentSeen(
        name=_spelled(home, choice),
        use=choice.use,
        model=choice.model,
        roles=tuple(roles),
        instead_of=tuple(dict.fromkeys(one.name for one in chain if one.fallback == choice.name)),
        key=_key(home, choice),
        budget_usd=choice.budget_usd,
    )
    try:
        agent = home.agent(choice)
        about = {"abilities": agent.abilities.names, "family": agent.family, "account": agent.account}
        seen = seen.model_copy(update=about)
        seen = seen.model_copy(update={"version": await _version(home, agent)})
        agent.ready()
    except ResolventError as error:
        return seen.model_copy(update={"missing": error.message, "fix": error.hint})
    return seen.model_copy(update={"ready": True})


def _key(home: Home, choice: AgentChoice) -> Key | None:
    own = (choice.key or KEYS.get(choice.use, "")).removeprefix("$")
    # What a person allowed by name comes before a key that only happens to be there.
    allowed = [name for name in choice.env if _SECRET.search(name)] if choice.use in KEYS else []
    names = [name for name in (*allowed, own) if name]
    if not names:
        return None
    there = [name for name in names if home.environ.get(name)]
    return Key(variable=(there or [own or names[0]])[0], set=bool(there))


async def _version(home: Home, agent: Agent) -> str:
    """What its program says of its version, in the time and room that this is worth; empty when it says nothing."""
    try:
        argv = agent.asked_version()
    except ResolventError:
        return ""
    if not argv:
        return ""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        # A home of its own and none of our variables: it is only asked who it is.
        environ = {"PATH": home.environ.get("PATH", PLAIN_PATH), "HOME": scratch, "TMPDIR": scratch, "LANG": "C.UTF-8"}
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env=environ,
                cwd=scratch,
                start_new_session=True,
            )
        except OSError:
            return ""
        return await _first_words(process)


async def _first_words(process: asyncio.subprocess.Process) -> str:
    said = b""
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE_S):
            while len(said) < MOST_VERSION and (more := await process.stdout.read(MOST_VERSION)):
                said += more
    except TimeoutError:
        pass
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        # Its end is told only when all it said was read; whoever else holds the pipe is not waited for.
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                while await process.stdout.read(MOST_VERSION):
                    continue
                await process.wait()
    words = [line for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
    return fit(one_line(words[0][:200]), 60) if words else ""


async def agent_probes(home: Home, seen: list[AgentSeen]) -> list[Probe]:
    """What doctor says of them; a built-in one that nobody uses and nobody defined is not worth a line."""
    defined = home.settings.agents.__pydantic_extra__ or {}
    worth = [one for one in seen if one.used or one.name.partition(":")[0] in defined]
    return [*(_probe(one) for one in worth), *_kinship(home, seen), *await _walled_in(home, worth)]


def _probe(one: AgentSeen) -> Probe:
    if not one.ready:
        what = f"{part_of(one)}: {one.missing}"
        return found(f"agent {one.name}", what, state="fault" if one.used else "note", fix=one.fix)
    said = [part_of(one), one.version or one.use]
    said += [f"key in ${one.key.variable}"] if one.key and one.key.set else []
    said += [f"can {', '.join(one.abilities)}"] if one.abilities else []
    return found(f"agent {one.name}", " · ".join(filter(None, said)))


def part_of(one: AgentSeen) -> str:
    """`writer, arbiter`, `instead of claude`, or that nobody asks it."""
    said = [", ".join(one.roles), f"instead of {', '.join(one.instead_of)}" if one.instead_of else ""]
    return "; ".join(filter(None, said)) or "plays no role"


def _kinship(home: Home, seen: list[AgentSeen]) -> Iterator[Probe]:
    policy = home.settings.policy.same_family
    if policy == "allow":
        return
    fix = 'set agents.reader or a fallback to one of another family, or policy.same_family = "allow"'
    for said in akin(_players(home, seen, "writer"), _players(home, seen, "reader")):
        if policy == "refuse":
            yield found("agents", f'{said}, which policy.same_family = "refuse" forbids', state="fault", fix=fix)
        else:
            yield found("agents", f"{said}: it may overlook the same things", state="note", fix=fix)


def _players(home: Home, seen: list[AgentSeen], role: Role) -> list[Player]:
    chosen = agent_choice(home.settings, role)
    names = [_spelled(home, one) for one in stand_ins(chosen, agent_fallbacks(home.settings, [chosen]))]
    families = {one.name: one.family for one in seen}
    return [
        Player(name=name, family=families.get(name, ""), instead_of=names[0] if at else "")
        for at, name in enumerate(names)
    ]


async def _walled_in(home: Home, worth: list[AgentSeen]) -> list[Probe]:
    """A rung without a network keeps an agent from its model."""
    try:
        kind = (await home.rung()).kind
    except ResolventError:
        return []
    shut = [one.name for one in worth if one.used and one.use in KEYS]
    if kind != "landlock" or not shut:
        return []
    what = f"{', '.join(shut)} cannot reach a model from this rung, which has no network"
    return [found("agents", what, state="fault", fix="mend what the sandbox lacks, above")]
