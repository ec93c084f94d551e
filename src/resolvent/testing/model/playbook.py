"""Scenarios by the steps of a playbook: which step a prompt asks for is read from the prompt itself."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from resolvent.engine.prompts import collect, read
from resolvent.testing.model.conversation import Conversation
from resolvent.testing.model.steps import Scenario, Told, scenarios

# A repair turn that begins a session of its own shows nothing but the form of the answer.
_FORMS = {
    "Analysis": "analyze",
    "Implementation": "implement",
    "Fix": "fix",
    "Review": "review",
    "Verification": "verify",
    "Variants": "variants",
    "DesignDraft": "design",
    "DesignReview": "review_design",
    "DesignRevision": "revise_design",
}
_FORM = re.compile(rf'"title": ?"({"|".join(_FORMS)})"')


class StepNames:
    """The steps of all prompts, by the heading each prompt begins with; a repository's own prompts come first."""

    def __init__(self, repository: Path | None = None) -> None:
        self._headings: dict[str, re.Pattern[str]] = {}
        for name, source in collect(repository).items():
            first = next((line for line in read(name, source).text.splitlines() if line.startswith("#")), "")
            # What comes behind the first gap is another one in every prompt.
            if heading := first.partition("{{")[0].strip():
                self._headings[name] = re.compile(rf"^{re.escape(heading)}", re.M)

    def of(self, text: str) -> str:
        """The step this prompt asks for, or "". Outside text stands behind bars there, so it names none."""
        found = [name for name, heading in self._headings.items() if heading.search(text)]
        return max(found, key=lambda name: len(self._headings[name].pattern), default="")

    def asked(self, conversation: Conversation) -> str:
        """The step a conversation is about: its last prompt that has a heading, or the form of the answer."""
        for item in reversed(conversation.items):
            if item.kind == "user" and (name := self.of(item.text)):
                return name
        form = _FORM.search(conversation.user_text)
        return _FORMS[form[1]] if form else ""


def by_step(steps: Mapping[str, Scenario], *, repository: Path | None = None) -> Callable[[Conversation, int], Told]:
    """A scenario for each step of a playbook; when an answer is asked for again, a list gives its last step again."""
    known, names = scenarios(steps), StepNames(repository)

    def play(conversation: Conversation, number: int) -> Told:
        name, taken = names.asked(conversation), conversation.turn_steps
        scenario = known.get(name)
        if scenario is None:
            said = f"no scenario plays the step {name!r}" if name else "this prompt asks for no step of a playbook"
            return {"fail": {"status": 418, "times": "always", "message": said}}
        if callable(scenario):
            return scenario(conversation, taken)
        if not names.of(conversation.prompt):
            return scenario[-1]
        return scenario[taken] if taken < len(scenario) else scenario[-1]

    return play
