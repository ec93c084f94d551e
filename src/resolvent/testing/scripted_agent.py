"""Play one scene of a story as an agent would: read the prompt, edit files, answer. Standard library only.

A story is {"scenes": […], "hooks": "a directory that is shared with whoever tells the story"}. There every start is
noted in `log`, and whoever reads `alarm` is told once when a job runs that `wanted` names. The first scene that fits is
played:
  {"step": "review", "turn": 1, "try": 1, "when": ["text that stands in the prompt"],
   "holds": {"path": "text in that file"}, "wait_for": "a fifo that is read to its end first",
   "write": {"path": "text", "gone.txt": null}, "append": {"path": "text"}, "run": "a shell command",
   "say": "text on standard output", "answer": {…}, "usage": {…}, "exit": 0}
Nothing is remembered between scenes, so a job that is started again plays the same scene.
"""

import json
import os
import sys


def main() -> int:
    """Find the scene and play it; a prompt no scene fits is an error, as it would be for any confused agent."""
    prompt = sys.stdin.read()
    with open(sys.argv[1], encoding="utf-8") as story:
        told = json.load(story)
    step, turn = os.environ["RESOLVENT_STEP"], int(os.environ["RESOLVENT_TURN"])
    job = os.environ.get("RESOLVENT_JOB", f"{step}.1.{turn}")
    with open(os.path.join(told["hooks"], "log"), "a", encoding="utf-8") as log:
        log.write(f"{step} {turn} {job}\n")
    ring(told["hooks"], job)
    # The engine names a job after its step, the try from the same parent, and the turn.
    tried = job.split(".")[-2:][0]
    for scene in told["scenes"]:
        fits = scene["step"] == step and scene.get("turn", turn) == turn and str(scene.get("try", tried)) == tried
        if fits and all(text in prompt for text in scene.get("when", [])) and holds(scene.get("holds", {})):
            return play(scene)
    sys.stderr.write(f"no scene for step {step}, turn {turn}\n")
    return 1


def ring(hooks: str, job: str) -> None:
    """Tell the reader of the alarm that a wanted job runs, once: the wish is used up by it."""
    wanted = os.path.join(hooks, "wanted")
    if not os.path.exists(wanted):
        return
    with open(wanted, encoding="utf-8") as file:
        part = file.read()
    if part in job:
        os.unlink(wanted)
        with open(os.path.join(hooks, "alarm"), "w", encoding="utf-8") as alarm:
            alarm.write(job)


def holds(files: dict) -> bool:  # type: ignore[type-arg]
    """Every file is there and holds its text."""
    for path, text in files.items():
        if not os.path.isfile(path):
            return False
        with open(path, encoding="utf-8") as file:
            if text not in file.read():
                return False
    return True


def play(scene: dict) -> int:  # type: ignore[type-arg]
    """Do what the scene says."""
    if "wait_for" in scene:
        with open(scene["wait_for"], "rb") as held:
            held.read()
    for path, text in scene.get("write", {}).items():
        if text is None:
            os.unlink(path)
            continue
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    for path, text in scene.get("append", {}).items():
        with open(path, "a", encoding="utf-8") as file:
            file.write(text)
    if "run" in scene:
        os.system(scene["run"])
    if "usage" in scene:
        leave("RESOLVENT_USAGE", scene["usage"])
    if "answer" in scene:
        leave("RESOLVENT_ANSWER", scene["answer"])
    sys.stdout.write(scene.get("say", ""))
    return int(scene.get("exit", 0))


def leave(variable: str, value: object) -> None:
    """Write JSON where the contract says."""
    with open(os.environ[variable], "w", encoding="utf-8") as file:
        json.dump(value, file)


if __name__ == "__main__":
    sys.exit(main())
