"""A scripted model on loopback, so that playbooks, prompts and agents are tested with the real programs."""

from resolvent.testing.model.conversation import Conversation, Item
from resolvent.testing.model.log import Seen
from resolvent.testing.model.playbook import by_step
from resolvent.testing.model.scripted import ScriptedModel
from resolvent.testing.model.story import DemoModel, story

__all__ = ["Conversation", "DemoModel", "Item", "ScriptedModel", "Seen", "by_step", "story"]
