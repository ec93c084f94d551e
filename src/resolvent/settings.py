"""resolvent.toml → Settings."""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Literal, NamedTuple

from resolvent.domain.job import Limits
from resolvent.domain.prices import price_of
from resolvent.domain.record import AgentChoice
from resolvent.errors import ConfigError, NotFound
from resolvent.places import configuration_files, environment, state_directory, store_file
from resolvent.settings_layers import Key, Layer, blamed, file_layer, flag_layer, merged, refuse
from resolvent.settings_sections import BUILT_IN, FORGE_TOKENS, AgentDefinition, ForgeSettings, Settings

__all__ = [
    "ROLES",
    "Role",
    "Settings",
    "agent_choice",
    "agent_environment",
    "agent_fallbacks",
    "agent_named",
    "environment",
    "forge_secrets",
    "forge_variables",
    "load",
    "state_directory",
    "store_url",
    "template",
]

Role = Literal["writer", "reader", "arbiter"]
ROLES: tuple[Role, ...] = ("writer", "reader", "arbiter")
# Said under [checks] since they are about CI; the policy of a run carries them.
_RESPELLED: dict[Key, Key] = {("policy", name): ("checks", name) for name in ("ci_required", "ci_wait")}


def load(directory: Path, *, environ: Mapping[str, str], overrides: Sequence[str] = ()) -> Settings:
    """Default < user file < repository file < local file < flags; ConfigError says who said what is wrong."""
    files_said = [file_layer(place, Settings) for place in configuration_files(directory, environ=environ)]
    layers = files_said + [flag_layer(text, Settings) for text in overrides]
    settings, said = merged([_respelled(layer) for layer in layers], Settings)
    for key, message in _faults(settings):
        refuse(*blamed(key, said, message))
    named_by_ci = {"ci_required": settings.checks.ci_required, "ci_wait": settings.checks.ci_wait}
    policy = settings.policy.model_copy(update=named_by_ci)
    return settings.model_copy(update={"policy": policy, "directory": directory.absolute()})


def _respelled(layer: Layer) -> Layer:
    for key, said in layer.items():
        if _RESPELLED.get(key) in layer:
            refuse(said.where, f"{said.spelled} and {'.'.join(_RESPELLED[key])} are the same setting: keep one")
    return {_RESPELLED.get(key, key): said for key, said in layer.items()}


def _faults(settings: Settings) -> Iterator[tuple[Key, str]]:
    """What only the whole can show, with the key that should change."""
    agents = settings.agents
    for role in ROLES:
        name = getattr(agents, role).partition(":")[0]
        if name not in agents.defined and (name or role != "arbiter"):
            close = difflib.get_close_matches(name, agents.defined, n=1)
            meant = f"; did you mean {close[0]}?" if close else f"; there are: {', '.join(sorted(agents.defined))}"
            yield ("agents", role), (f"names {name[:80]!a}, which is no agent" if name else "names no agent") + meant
    yield from _forge_faults(settings.forge)
    withheld = forge_variables(settings)
    for name, definition in agents.defined.items():
        for key, fault in _agent_faults(name, definition, withheld=withheld):
            yield ("agents", name, *key), fault


def _forge_faults(forge: ForgeSettings) -> Iterator[tuple[Key, str]]:
    if forge.kind != "github":
        return
    if not forge.repo:
        yield ("forge", "repo"), 'must say which one, as in "acme/widgets", when forge.kind is "github"'
    if not forge.token and not (forge.app and forge.installation and forge.private_key):
        fault = 'must name the variable with a token, as in "$GITHUB_TOKEN"; or set app, installation and private_key'
        yield ("forge", "token"), fault


def _agent_faults(name: str, definition: AgentDefinition, *, withheld: Sequence[str]) -> Iterator[tuple[Key, str]]:
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,63}", name, re.ASCII):
        yield (), "is not a name for an agent"
    if _use(name, definition) in ("command", "acp") and not any(definition.command[:1]):
        yield ("command",), 'must name a program, as in ["python3", "my_agent.py"]'
    for place, held in (("env", definition.env), ("variables", definition.variables)):
        if any(name in held for name in withheld):
            yield (place,), "must not hold a variable with a secret of the forge: no agent ever sees it"
    for word in ("endpoint", "key"):
        if not getattr(definition, word) and any(f"{{{word}}}" in value for value in definition.variables.values()):
            yield ("variables",), f"holds {{{word}}}, but agents.{name}.{word} is not set"


def _use(name: str, definition: AgentDefinition) -> str:
    return definition.use or (name if name in BUILT_IN else "command")


def agent_choice(settings: Settings, role: Role) -> AgentChoice:
    """Who plays a role, as a run freezes it; paths of the command are those of the repository, not of a branch."""
    agents = settings.agents
    return agent_named(settings, getattr(agents, role) or agents.reader)


def agent_named(settings: Settings, named: str) -> AgentChoice:
    """The agent of that name, or `name:model`; NotFound, with those there are, when none is defined."""
    defined = settings.agents.defined
    name, _, model = named.partition(":")
    if name not in defined:
        raise NotFound(
            f"there is no agent {name[:80]!a}; there are: {', '.join(sorted(defined)) or 'none'}",
            hint="define it in resolvent.toml, under [agents.NAME]",
        )
    definition = defined[name]
    return AgentChoice(
        name=name,
        use=_use(name, definition),
        command=tuple(_placed(word, settings.directory, first=not at) for at, word in enumerate(definition.command)),
        env=definition.env,
        model=model or definition.model,
        endpoint=definition.endpoint,
        key=definition.key,
        variables=definition.variables,
        authenticate=definition.authenticate,
        family=definition.family,
        account=definition.account,
        budget_usd=definition.budget,
        price=price_of(model or definition.model, settings.prices.own),
        fallback=definition.fallback,
        reads=definition.reads,
        writes=definition.writes,
        limits=Limits(
            wall_s=definition.wall or settings.sandbox.wall, idle_s=definition.idle, output_bytes=definition.output
        ),
    )


def agent_fallbacks(settings: Settings, choices: Iterable[AgentChoice]) -> dict[str, AgentChoice]:
    """Whoever may take the place of these, and of those who do, by name."""
    found: dict[str, AgentChoice] = {}
    todo = [choice.fallback for choice in choices]
    while todo:
        name = todo.pop()
        if name and name not in found:
            found[name] = agent_named(settings, name)
            todo.append(found[name].fallback)
    return found


def _placed(word: str, directory: Path, *, first: bool) -> str:
    # An agent may edit its branch: a program of the repository is started from where no agent can write.
    if "/" not in word or word.startswith("/"):
        return word
    return str(directory / word) if first or (directory / word).is_file() else word


def agent_environment(
    choice: AgentChoice, environ: Mapping[str, str], *, withheld: Sequence[str] = ()
) -> dict[str, str]:
    """The allow-listed variables that are set; the forge's own are refused, whatever they are called."""
    withheld = (*FORGE_TOKENS, *withheld)
    secrets = {environ[name] for name in withheld if environ.get(name)}
    allowed = {name: environ[name] for name in choice.env if name in environ}
    for name, value in allowed.items():
        if name in withheld or value in secrets:
            raise ConfigError(
                f"agents.{choice.name}.env holds {name}, and that is a forge token: it never enters an agent's process",
                hint=f"take {name} out of agents.{choice.name}.env",
            )
        if any("\ud800" <= letter <= "\udfff" for letter in value):
            raise ConfigError(f"${name} is not UTF-8", hint=f"unset {name}")
    return allowed


def forge_variables(settings: Settings) -> tuple[str, ...]:
    """The variables that the configuration says hold secrets of the forge."""
    named = (settings.forge.token, settings.forge.private_key, settings.intake.secret)
    return tuple(name.removeprefix("$") for name in named if name)


class ForgeSecrets(NamedTuple):
    """The secrets themselves, for the forge's adapter alone; empty where none is configured."""

    token: str
    private_key: str


def forge_secrets(settings: Settings, environ: Mapping[str, str]) -> ForgeSecrets:
    """What the variables hold that the configuration names; ConfigError when one is not set."""
    named = {"token": settings.forge.token, "private_key": settings.forge.private_key}
    return ForgeSecrets(
        **{name: _secret(said, environ, key=f"forge.{name}") if said else "" for name, said in named.items()}
    )


def store_url(settings: Settings, *, state: Path, environ: Mapping[str, str]) -> str:
    """Where the record is kept: a SQLite file in the state directory unless another store is named."""
    url = settings.store.url
    if url.startswith("$"):
        return _secret(url, environ, key="store.url")
    return url or f"sqlite:///{store_file(state)}"


def _secret(named: str, environ: Mapping[str, str], *, key: str) -> str:
    name = named.removeprefix("$")
    if not environ.get(name):
        raise ConfigError(f"{key} is read from ${name}, which is not set", hint=f"export {name}=…")
    return environ[name]


def template() -> str:
    """A commented resolvent.toml that shows every default and changes none."""
    return files("resolvent").joinpath("template.toml").read_text(encoding="utf-8")
