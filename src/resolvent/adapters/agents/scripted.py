"""The scripted agent: a story played by a real process, through the same contract as every command agent."""

import sys
from collections.abc import Mapping
from importlib.resources import files

from resolvent.adapters.agents.command import CommandAgent
from resolvent.domain.record import AgentChoice
from resolvent.errors import ConfigError


def scripted_agent(choice: AgentChoice, *, environment: Mapping[str, str]) -> CommandAgent:
    """An agent that plays the story file its command names."""
    if len(choice.command) != 1:
        raise ConfigError(f"agents.{choice.name}.command must name one story file", hint='command = ["story.json"]')
    player = str(files("resolvent").joinpath("testing/scripted_agent.py"))
    # Isolated and without site: a story must not depend on what is installed, and starts in a hundredth of a second.
    command = (sys.executable, "-I", "-S", player, *choice.command)
    return CommandAgent(choice.name, choice.model_copy(update={"command": command}), environment=environment)
