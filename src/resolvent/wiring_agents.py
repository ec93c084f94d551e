"""Agents by name: a configured choice becomes an adapter."""

from collections.abc import Callable, Mapping

from resolvent.domain.record import AgentChoice
from resolvent.ports import Agent

# The variables that hold the keys of these programs, unless `agents.NAME.key` names another.
KEYS = {"claude": "ANTHROPIC_API_KEY", "codex": "OPENAI_API_KEY"}


def adapter(choice: AgentChoice, environment: Mapping[str, str], environ: Mapping[str, str]) -> Agent:
    """The adapter of a choice; `environment` is what its program gets, `environ` holds the key that it does not."""
    key = environ.get((choice.key or KEYS.get(choice.use, "")).removeprefix("$"), "")
    return _ADAPTERS[choice.use](choice, environment, key)


def _command(choice: AgentChoice, environment: Mapping[str, str], _: str) -> Agent:
    from resolvent.adapters.agents.command import CommandAgent

    return CommandAgent(choice.name, choice, environment=environment)


def _scripted(choice: AgentChoice, environment: Mapping[str, str], _: str) -> Agent:
    from resolvent.adapters.agents.scripted import scripted_agent

    return scripted_agent(choice, environment=environment)


def _claude(choice: AgentChoice, environment: Mapping[str, str], key: str) -> Agent:
    from resolvent.adapters.agents.claude import ClaudeAgent

    return ClaudeAgent(choice, environment=environment, key=key)


def _codex(choice: AgentChoice, environment: Mapping[str, str], key: str) -> Agent:
    from resolvent.adapters.agents.codex import CodexAgent

    return CodexAgent(choice, environment=environment, key=key)


def _acp(choice: AgentChoice, environment: Mapping[str, str], key: str) -> Agent:
    from resolvent.adapters.agents.acp import AcpAgent

    return AcpAgent(choice, environment=environment, key=key)


_ADAPTERS: dict[str, Callable[[AgentChoice, Mapping[str, str], str], Agent]] = {
    "command": _command,
    "scripted": _scripted,
    "claude": _claude,
    "codex": _codex,
    "acp": _acp,
}
