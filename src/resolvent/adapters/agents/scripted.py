"""The scripted agent: a story played by a real process, through the same contract as every command agent."""

import sys
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from resolvent.adapters.agents.command import CommandAgent
from resolvent.domain.job import Job, Task
from resolvent.domain.record import AgentChoice
from resolvent.errors import ConfigError


class ScriptedAgent(CommandAgent):
    """A command agent that is also told which job it is: a story counts its starts."""

    def job(self, task: Task, *, id: str) -> Job:
        """The process to start for this turn in a branch."""
        job = super().job(task, id=id)
        return job.model_copy(update={"environment": job.environment | {"RESOLVENT_JOB": id}})


def scripted_agent(choice: AgentChoice, *, environment: Mapping[str, str]) -> ScriptedAgent:
    """An agent that plays the story file its command names."""
    if len(choice.command) != 1:
        raise ConfigError(f"agents.{choice.name}.command must name one story file", hint='command = ["story.json"]')
    player = str(files("resolvent").joinpath("testing/scripted_agent.py"))
    # Isolated and without site: a story must not depend on what is installed, and starts in a hundredth of a second.
    command = (sys.executable, "-I", "-S", player, *choice.command)
    # The interpreter with its library, and the directory the story shares with whoever tells it.
    reads = (*choice.reads, sys.executable, sys.prefix, sys.base_prefix)
    writes = (*choice.writes, str(Path(choice.command[0]).with_suffix(".hooks")))
    played = choice.model_copy(update={"command": command, "reads": reads, "writes": writes})
    return ScriptedAgent(choice.name, played, environment=environment)
