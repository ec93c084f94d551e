"""What the engine needs of the world, in the words of the domain. Adapters implement these."""

from resolvent.ports.agent import Agent, Listener
from resolvent.ports.clock import Clock
from resolvent.ports.forge import Forge
from resolvent.ports.jobs import Jobs
from resolvent.ports.journal import Journal
from resolvent.ports.repository import Repository
from resolvent.ports.workspace import Workspace

__all__ = ["Agent", "Clock", "Forge", "Jobs", "Journal", "Listener", "Repository", "Workspace"]
