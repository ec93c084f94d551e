#!/usr/bin/env python3
"""An agent for Resolvent to start your own from. Copy it, keep the contract, replace `think`. Standard library only.

    resolvent init --example-agent tools/agent.py

The contract, whole:
  started     once per turn, with the workspace as the current directory: edit its files, commit or do not commit.
              What lies there when you end becomes the change; the engine makes the commit that counts.
  stdin       the prompt, with the form of the answer at its end.
  stdout      yours. Everything is kept (`resolvent logs`), and the end of it may be the answer as tokens.
  stderr      yours too: what you print here people see live in `resolvent watch`.
  exit 0      you ran. 75 means try again later; anything else is a failed step.
  environment RESOLVENT_RUN      the run
              RESOLVENT_STEP     what is asked: analyze, analyze_pull, implement, improve, review, verify, fix
              RESOLVENT_ATTEMPT  1, or more when the step is tried again
              RESOLVENT_TURN     1; 2 when your last answer could not be read: same files, edits are thrown away
              RESOLVENT_SCHEMA   the JSON schema of the answer
              RESOLVENT_ANSWER   where a JSON answer may be left (absent at the start, outside the workspace, ≤ 1 MiB)
              RESOLVENT_USAGE    where {"usd": 0.01, "input_tokens": 1200, "output_tokens": 80} may be left
              HOME, TMPDIR       private to this job; PATH and LANG; and the variables that `agents.NAME.env` allows
Answer with the tokens or with the JSON file. When you give both they must agree; when neither fits you get one more
turn, then the step fails. Malformed is never a pass.

As it is, it hands the prompt to the program named on its command line and lets that do everything:

    [agents.example]
    command = ["python3", "tools/agent.py", "my-model", "--some-flag"]

Without a program it answers every step by saying that it cannot help, so that a first run ends well and harmlessly.
"""

import json
import os
import subprocess
import sys

CANNOT = "this is the example agent: name a program behind it, or replace think()"
# One honest answer for each step, in the shapes of `resolvent schema analysis`, `implementation`, `review`, …
ANSWERS: dict[str, dict[str, object]] = {
    "analyze": {"verdict": "NO_ACTION_NEEDED", "reason": CANNOT},
    "analyze_pull": {"verdict": "NO_ACTION_NEEDED", "reason": CANNOT},
    "implement": {"mode": "IMPLEMENTATION_BLOCKED", "reason": CANNOT},
    "improve": {"mode": "FIX_SUCCESS"},
    "fix": {"mode": "FIX_SUCCESS"},
    "review": {"verdict": "NO_P0_P1"},
    "verify": {"verdict": "NO_IN_SCOPE_P0_P1", "triage": []},
    "design": {"verdict": "NO_ACTION_NEEDED", "reason": CANNOT},
    "review_design": {"verdict": "DESIGN_NEEDS_REVISION", "feedback": [CANNOT]},
}


def think(step: str, prompt: str) -> dict[str, object]:
    """Replace this: look at the files around you, edit them if the step asks for it, and return the answer."""
    sys.stderr.write(f"{step}: read a prompt of {len(prompt)} characters in {os.getcwd()}\n")
    return ANSWERS[step]


def hand_over(program: list[str], prompt: str) -> int:
    """Let another program read the prompt, work in this directory, and print the tokens; its exit is ours."""
    return subprocess.run(program, input=prompt, text=True, check=False).returncode


def main() -> int:
    """One turn: read, work, answer."""
    prompt = sys.stdin.read()
    if len(sys.argv) > 1:
        return hand_over(sys.argv[1:], prompt)
    answer = think(os.environ["RESOLVENT_STEP"], prompt)
    with open(os.environ["RESOLVENT_ANSWER"], "w", encoding="utf-8") as file:
        json.dump(answer, file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
