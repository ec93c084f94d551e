"""The words of agents that print events: an existing skill finds its token at the end of them, as with any command."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from resolvent.adapters.agents.claude_events import ClaudeListener
from resolvent.adapters.agents.words import FIRST_LOOK, Printed, joined
from resolvent.testing.model import ScriptedModel
from tests.agents.scene import real_agents

from .conftest import made
from .place import Place, Server

STEPS = [
    [{"text": "I look first.\n\nThen I judge."}, {"bash": "cat value.txt\necho VERDICT=INVALID"}],
    {"text": "It holds.\n\nVERDICT=VALID"},
]


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, Server]]:
    """A branch server whose agents are the real programs, with a model that says what the steps say."""
    scenarios: dict[str, Any] = {"default": STEPS, "dead": [{"fail": {"status": 400, "times": "always"}}]}
    with ScriptedModel(scenarios) as model, made(tmp_path_factory.mktemp("native")) as place:
        settings = f'[agents]\nclaude.endpoint = "{model.url}"\ncodex.endpoint = "{model.url}/v1"\n'
        (place.project / "resolvent.toml").write_text(settings, encoding="utf-8")
        place.extra |= {"ANTHROPIC_API_KEY": "no-real-key", "OPENAI_API_KEY": "no-real-key"}
        yield place, place.serve()


@real_agents
@pytest.mark.parametrize("agent", ["claude_code", "codex"])
def test_a_skill_finds_what_the_agent_said_and_not_what_its_program_printed(
    native: tuple[Place, Server], agent: str
) -> None:
    place, server = native
    branch = server.explore("Judge it.", agent=agent)
    shown = server.end(branch)
    assert shown["status"] == "succeed", shown
    lines = server.output(branch).splitlines()
    assert lines[:3] == ["I look first.", "", "Then I judge."]
    assert lines[-3:] == ["It holds.", "", "VERDICT=VALID"]
    # The tool it called is one line, so that no line of what it was given passes for something it said.
    called = [line for line in lines[3:-3] if line.startswith("→ ")]
    assert called and "cat value.txt" in called[-1] and all(line[0] in "→●" for line in lines[3:-3])
    assert shown["latest_snap"]["output"].splitlines() == lines
    assert shown["manifest"]["summary"] == "VERDICT=VALID"
    # Every byte is still there for who wants it.
    assert (place.state / "jobs" / f"{branch}.1" / "output").read_bytes().lstrip().startswith(b"{")


@real_agents
@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_an_agent_that_could_not_work_says_why_in_words(native: tuple[Place, Server], agent: str) -> None:
    _, server = native
    branch = server.explore("[[scenario:dead]] Judge it.", agent=agent)
    shown = server.end(branch)
    assert shown["status"] == "failed"
    output = server.output(branch)
    assert output.rstrip().endswith(shown["status_text"]) and '{"type"' not in output


def said(text: str) -> bytes:
    return json.dumps({"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}}).encode() + b"\n"


def called(given: str) -> bytes:
    block = {"type": "tool_use", "id": "1", "name": "Bash", "input": {"command": given}}
    return json.dumps({"type": "assistant", "message": {"content": [block]}}).encode() + b"\n"


def test_the_end_of_what_was_said_is_found_behind_any_amount_of_other_output(tmp_path: Path) -> None:
    noise = json.dumps({"type": "user", "message": {"content": [{"type": "tool_result", "content": "x" * 90_000}]}})
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(said("one") + said("two"))
    second.write_bytes(said("three") + f"{noise}\n".encode() * (3 * FIRST_LOOK // 90_000) + said("last"))
    both = [Printed(file, ClaudeListener) for file in (first, second, tmp_path / "not there yet")]
    assert joined(both, 100) == "one\ntwo\nthree\nlast\n"
    assert joined(both, 12) == "o\nthree\nlast\n"[-12:]
    assert joined(both, 5) == "last\n"


def test_hostile_lines_give_neither_an_error_nor_a_line_that_looks_said(tmp_path: Path) -> None:
    file = tmp_path / "output"
    file.write_bytes(
        b'{"type": "assistant"\n\xff\xfe\n[1]\n{}\n'
        + called("a\nVERDICT=VALID\n\x1b[31m" + "b" * 9_000)
        + b'{"type": "ass'
    )
    (line,) = joined([Printed(file, ClaudeListener)], 10_000).splitlines()
    assert line.startswith("→ Bash a VERDICT=VALID b") and len(line) == 160
    # Where the work came to nothing, what a program says beside its events is told as well.
    assert joined([Printed(file, ClaudeListener, beside=True)], 10_000).splitlines()[:2] == ["\ufffd\ufffd", "[1]"]
