"""Stories for real programs: the scenes a scripted agent plays, played with the tools of whoever is asked.

A scene is {"step": "implement", "when": ["text in the prompt"], "holds": {"path": "text in that file"},
"write": {"path": "text", "gone.txt": null}, "append": {"path": "text"}, "say": "the answer as tokens",
"answer": {…}, "usage": {"input_tokens": 1, "output_tokens": 1}}. The first one that fits is played.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from resolvent.domain.design import DesignDraft, DesignReview, DesignRevision
from resolvent.domain.job import Reply
from resolvent.domain.model import Value
from resolvent.domain.verdicts import Analysis, Fix, Implementation, Review, Variants, Verification
from resolvent.engine.answers import parse
from resolvent.errors import UsageError
from resolvent.testing.demo_story import Scene, sabotaged, true_story
from resolvent.testing.model.conversation import Conversation
from resolvent.testing.model.playbook import by_step
from resolvent.testing.model.scripted import ScriptedModel
from resolvent.testing.model.steps import Told

ANSWERS: dict[str, type[Value]] = {
    "analyze": Analysis,
    "analyze_pull": Analysis,
    "implement": Implementation,
    "improve": Fix,
    "fix": Fix,
    "review": Review,
    "verify": Verification,
    "variants": Variants,
    "design": DesignDraft,
    "review_design": DesignReview,
    "revise_design": DesignRevision,
}
_KEYS = {"step", "when", "holds", "write", "append", "say", "answer", "usage"}
_RUN = "python3 -m unittest -q 2>&1 | tail -n 5"
_SHOWN = ("README.md", "ledger/money.py", "ledger/split.py")


class DemoModel(ScriptedModel):
    """The story of the demo, told by a model: whatever agents play it edit the sample project with their own tools."""

    def __init__(self, *, sabotage: str = "", key: str = "", port: int = 0, log_file: Path | None = None) -> None:
        scenes = sabotaged(sabotage) if sabotage else true_story()
        super().__init__(story(scenes, before=_sample(), looks=_RUN), key=key, port=port, log_file=log_file)


def story(
    scenes: Sequence[Scene],
    *,
    before: Mapping[str, str] | None = None,
    looks: str = "git log --oneline -3",
    repository: Path | None = None,
) -> Callable[[Conversation, int], Told]:
    """A scenario that plays scenes; files of which it is said what is in them before are edited and not rewritten."""
    players: dict[str, _Player] = {}
    contents = dict(before or {})
    for scene in scenes:
        if unknown := set(scene) - _KEYS:
            raise UsageError(f"a scene for a real agent knows no {', '.join(sorted(unknown))}")
        if scene["step"] not in ANSWERS:
            raise UsageError(f"no step is called {scene['step']}", hint=f"one of: {', '.join(ANSWERS)}")
        player = players.setdefault(scene["step"], _Player(looks))
        player.scenes.append((scene, _changes(scene, contents)))
        contents |= {path: text for path, text in scene.get("write", {}).items() if text is not None}
    return by_step({name: player.play for name, player in players.items()}, repository=repository)


class _Player:
    """The scenes of one step."""

    def __init__(self, looks: str) -> None:
        self.scenes: list[tuple[Scene, list[Told]]] = []
        self._looks = looks

    def play(self, conversation: Conversation, number: int) -> Told:
        """First look at the files, then do what the first scene that fits them does, then answer."""
        fitting = [one for one in self.scenes if all(text in conversation.prompt for text in one[0].get("when", []))]
        watched = [path for scene, _ in fitting for path in scene.get("holds", {})]
        if number == 0:
            return {"bash": "; ".join([*(f"cat {shlex.quote(path)}" for path in watched), self._looks])}
        seen = "\n".join(conversation.results)
        for scene, changes in fitting:
            if all(text in seen for text in scene.get("holds", {}).values()):
                return changes[number - 1] if number <= len(changes) else _answer(scene, conversation)
        return {"fail": {"status": 418, "times": "always", "message": "no scene fits this prompt"}}


def _changes(scene: Scene, before: Mapping[str, str]) -> list[Told]:
    """The calls that leave the files as the scene says, and a look at what came of them."""
    steps: list[Told] = []
    for path, text in scene.get("write", {}).items():
        place = f"{{cwd}}/{path}"
        if text is None:
            steps.append({"bash": f"rm {shlex.quote(path)}"})
        elif path in before:
            # An editor of files wants to have read them.
            steps += [{"read": place}, {"edit": {"path": place, **_difference(before[path], text)}}]
        else:
            steps.append({"write": {"path": place, "content": text}})
    for path, text in scene.get("append", {}).items():
        steps.append({"bash": f"printf %s {shlex.quote(text)} >> {shlex.quote(path)}"})
    return [*steps, {"bash": "git status --short"}] if steps else []


def _difference(old: str, new: str) -> dict[str, str]:
    """The lines that differ, from the first to the last of them, with the line above."""
    ours, theirs = old.splitlines(keepends=True), new.splitlines(keepends=True)
    same = list(zip(ours, theirs, strict=False))
    first = next((at for at, (one, other) in enumerate(same) if one != other), len(same))
    behind = list(zip(reversed(ours[first:]), reversed(theirs[first:]), strict=False))
    last = next((at for at, (one, other) in enumerate(behind) if one != other), len(behind))
    first = max(0, first - 1)
    return {"old": "".join(ours[first : len(ours) - last]), "new": "".join(theirs[first : len(theirs) - last])}


def _answer(scene: Scene, conversation: Conversation) -> Told:
    """The verdict last: after the schema where one is asked for, else in tokens."""
    usage = scene.get("usage", {})
    counted = {"usage": {"in": usage.get("input_tokens", 100), "out": usage.get("output_tokens", 20)}}
    if conversation.structured or "say" not in scene:
        return {"structured": scene.get("answer") or _typed(scene)} | counted
    return {"text": scene["say"]} | counted


def _typed(scene: Scene) -> dict[str, Any]:
    return parse(ANSWERS[scene["step"]], Reply(text=scene["say"])).model_dump(mode="json")


def _sample() -> dict[str, str]:
    project = files("resolvent.testing") / "sample" / "project"
    return {path: (project / path).read_text(encoding="utf-8") for path in _SHOWN}
