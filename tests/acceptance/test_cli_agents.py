"""Agents as people meet them: listed, tried, followed; the real programs, with only the model behind them scripted."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from resolvent.cli import agent_probing
from resolvent.testing.model import ScriptedModel
from resolvent.testing.model.playbook import by_step
from resolvent.wiring import Home
from tests.agents.scene import KEYS, NOTHING_TO_DO, files_that_hold, real_agents

from .conftest import make_place
from .process import Place, interrupt, processes_holding
from .test_cli_reading import seen_on_a_terminal

BOTH = pytest.mark.parametrize("agent", ["claude", "codex"])
SCENARIOS: dict[str, Any] = {
    "default": [
        [{"think": "First I look."}, {"bash": "cat value.txt"}],
        {"write": {"path": "{cwd}/NOTES.md", "content": "one\ntwo\n"}},
        {"text": "It holds one value."},
    ],
    "wait": [{"bash": "touch began; tail -f /dev/null"}, {"text": "never"}],
    "loud": lambda conversation, step: [{"text": "first words"}, {"bash": f"echo {step}"}],
    "quota": [{"text": "no", "limit": {"seconds": 300, "kind": "quota"}}],
    "refused": [{"text": "no", "fail": {"status": 401, "times": "always"}}],
    "loop": lambda conversation, step: {"bash": "true"},
    "evil": [{"text": "a\x1b]0;owned\x07b"}],
}


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel(SCENARIOS) as made:
        yield made


def furnished(place: Place, model: ScriptedModel, *, reader: str = "codex", more: str = "") -> Place:
    """Both programs ask the model; the shell script is there besides."""
    local = place.project / "resolvent.local.toml"
    agents = f'[agents.claude]\nendpoint = "{model.url}"\n[agents.codex]\nendpoint = "{model.url}/v1"\n'
    said = local.read_text().replace('writer = "shell"', 'writer = "claude"')
    said = said.replace('reader = "shell"', f'reader = "{reader}"')
    local.write_text(f"{said}{agents}{more}", encoding="utf-8")
    place.extra |= KEYS
    return place


@pytest.fixture
def workshop(place: Place, model: ScriptedModel) -> Place:
    return furnished(place, model)


def left_over(place: Place) -> tuple[Any, list[str], list[int]]:
    """Branches, files of jobs and processes that a trial left."""
    jobs = [path.name for path in (place.directory / "state/jobs").glob("branch.*")]
    return place("branch", "ls", "--json").json, jobs, processes_holding(place.directory)


@pytest.mark.spec("K12")
@real_agents
def test_every_agent_is_listed_with_its_role_version_key_and_abilities(workshop: Place) -> None:
    told = {one["name"]: one for one in workshop("agent", "ls", "--json").json}
    assert list(told) == ["claude", "codex", "shell"]
    assert told["claude"]["roles"] == ["writer"] and told["codex"]["roles"] == ["reader", "arbiter"]
    assert told["claude"]["key"] == {"variable": "ANTHROPIC_API_KEY", "set": True}
    assert "Claude Code" in told["claude"]["version"] and told["codex"]["version"].startswith("codex")
    assert "budget" in told["claude"]["abilities"] and "sandbox" in told["codex"]["abilities"]
    assert all(one["ready"] for one in told.values()) and told["shell"]["key"] is None
    said = workshop("agent", "ls").out
    assert "plays no role" in said and "$OPENAI_API_KEY" in said and "Claude Code" in said
    assert not any(key in said + json.dumps(told) for key in KEYS.values())


@real_agents
def test_doctor_names_the_command_for_what_an_agent_misses(workshop: Place) -> None:
    del workshop.extra["OPENAI_API_KEY"]
    said = workshop("doctor", "--json")
    told = {probe["name"]: probe for probe in said.json["probes"]}
    assert told["agent claude"]["state"] == "ok" and "writer · " in told["agent claude"]["found"]
    # A server of one's own may want no key; the vendor's does.
    assert told["agent codex"]["state"] == "ok"
    local = workshop.project / "resolvent.local.toml"
    local.write_text(local.read_text().partition("[agents.codex]")[0])
    said = workshop("doctor", "--json")
    told = {probe["name"]: probe for probe in said.json["probes"]}
    assert said.code == 2 and told["agent codex"]["state"] == "fault"
    assert told["agent codex"]["fix"].startswith("export OPENAI_API_KEY=")
    missing = next(one for one in said.json["agents"] if one["name"] == "codex")
    assert missing["key"] == {"variable": "OPENAI_API_KEY", "set": False} and not missing["ready"]
    assert "not set" in workshop("agent", "ls").out
    local.write_text(f'{local.read_text()}command = ["/nowhere/claude"]\n', encoding="utf-8")
    said = workshop("doctor")
    assert said.code == 2 and "/nowhere/claude" in said.out and "next: make agents" in said.out


@pytest.mark.spec("A16")
@real_agents
@pytest.mark.parametrize(("policy", "state"), [("warn", "note"), ("refuse", "fault"), ("allow", "")])
def test_doctor_tells_of_a_reviewer_of_the_same_family(
    place: Place, model: ScriptedModel, policy: str, state: str
) -> None:
    furnished(place, model, reader="claude:haiku", more=f'[policy]\nsame_family = "{policy}"\n')
    told = {probe["name"]: probe for probe in place("doctor", "--json").json["probes"]}
    assert "agent claude:haiku" in told, "another model is another line"
    assert told.get("agents", {"state": ""})["state"] == state
    if state:
        assert (
            "both are of the family anthropic" in told["agents"]["found"] and "agents.reader" in told["agents"]["fix"]
        )


@real_agents
def test_doctor_tells_of_a_reviewer_who_may_come_to_review_its_own_family(place: Place, model: ScriptedModel) -> None:
    furnished(place, model, more='[policy]\nsame_family = "refuse"\n')
    assert "agents" not in {probe["name"] for probe in place("doctor", "--json").json["probes"]}
    sound = place("doctor", "--json")
    local = place.project / "resolvent.local.toml"
    local.write_text(local.read_text().replace("[agents.claude]\n", '[agents.claude]\nfallback = "codex"\n'))
    told = place("doctor", "--json")
    (about,) = [probe for probe in told.json["probes"] if probe["name"] == "agents"]
    assert sound.code == 0 and told.code == 2 and about["state"] == "fault"
    assert "codex reviews what codex (instead of claude) writes" in about["found"]


def test_an_agent_is_tried_with_a_setting_of_the_moment(place: Place) -> None:
    said = place("agent", "try", "shell", "hello", "--set", 'agents.shell.command=["/bin/echo","another program"]')
    assert said.code == 0 and "another program" in said.out, said


def test_a_role_that_names_nobody_says_whom_it_names_and_who_there_is(place: Place) -> None:
    said = place("resolve", "1", "--set", "agents.writer=nobody")
    assert said.code == 2 and "agents.writer names 'nobody', which is no agent; there are: " in said.err
    assert "shell" in said.err


@pytest.mark.parametrize("command", ["doctor", "agent ls"])
def test_a_screen_of_eighty_columns_shows_all_of_it(place: Place, command: str) -> None:
    local = place.project / "resolvent.local.toml"
    local.write_text(f'{local.read_text()}[agents.claude]\ncommand = ["/nowhere/ghost"]\n', encoding="utf-8")
    place.extra |= {"COLUMNS": "80", "NO_COLOR": "1"}
    lines = seen_on_a_terminal(place, *command.split()).splitlines()
    words = " ".join(" ".join(lines).split())
    assert "there is no program '/nowhere/ghost' that can be run" in words
    # What to type stays on one line, however long it is.
    assert not [line for line in lines if "next: " not in line and (len(line) > 80 or "…" in line)]
    assert "/usr/bin:" not in words, "where a path of its own was not looked for"


@pytest.mark.parametrize(
    ("script", "version"),
    [
        ("echo '\x1b[31m9.9\x1b]0;x\x07 beta'", "9.9 beta"),
        ("exec tail -f /dev/null", ""),
        ("yes 1.0", "1.0"),
        ("exit 3", ""),
        ("echo $ANTHROPIC_API_KEY$HOME", "SCRATCH"),
    ],
)
async def test_a_program_is_asked_for_its_version_briefly_and_without_its_key(
    place: Place, monkeypatch: pytest.MonkeyPatch, script: str, version: str
) -> None:
    monkeypatch.setattr(agent_probing, "PATIENCE_S", 1.0)
    program = place.directory / "claude"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    local = place.project / "resolvent.local.toml"
    local.write_text(f'[agents]\nreader = "claude"\n[agents.claude]\ncommand = ["{program}"]\n', encoding="utf-8")
    home = Home.of(place.project, environ=place.environ | KEYS)
    begun = time.monotonic()
    (seen, *_) = await agent_probing.agents_seen(home)
    await home.close()
    assert time.monotonic() - begun < 8 and processes_holding(place.directory) == []
    if version == "SCRATCH":
        assert seen.version and KEYS["ANTHROPIC_API_KEY"] not in seen.version
        assert str(place.directory) not in seen.version
    else:
        assert seen.version == version


@real_agents
@BOTH
def test_one_is_tried_in_a_branch_that_is_gone_afterwards(workshop: Place, agent: str) -> None:
    said = workshop("agent", "try", agent, "what is here?")
    assert said.code == 0, said
    for part in ("First I look.", "cat value.txt", "  │ bad", "It holds one value.", "NOTES.md  +2  -0"):
        assert part in said.out
    assert said.out.count("It holds one value.") == 1 and "answered after" in said.out and "$0.0" in said.out
    assert '"type"' not in said.out and "\x1b" not in said.out
    assert left_over(workshop) == ([], [], []) and not (workshop.project / "NOTES.md").exists()
    assert files_that_hold(workshop.directory, *KEYS.values()) == []


@real_agents
def test_a_trial_for_programs_is_one_object_and_its_branch_may_be_kept(workshop: Place) -> None:
    told = workshop("agent", "try", "claude", "what is here?", "--keep", "--json").json
    assert told["text"] == "It holds one value." and told["changes"] == [{"path": "NOTES.md", "added": 2, "removed": 0}]
    assert told["usage"]["input_tokens"] > 0 and told["seconds"] > 0 and told["left_out"] == {"moments": 0}
    kinds = [moment["kind"] for moment in told["moments"]]
    assert {"thinking", "text", "tool_call", "tool_result", "file_change", "usage"} <= set(kinds)
    assert workshop("branch", "cat", told["branch"], "NOTES.md").out == "one\ntwo\n"
    assert workshop("branch", "rm", "--discard", told["branch"]).code == 0
    assert left_over(workshop)[:2] == ([], [])


@pytest.mark.spec("K11")
@real_agents
@BOTH
def test_ctrl_c_leaves_no_process_and_no_branch(workshop: Place, agent: str) -> None:
    process = workshop.start("agent", "try", agent, "[[scenario:wait]] go")
    assert process.stdout is not None
    assert any("tail -f" in line for line in process.stdout), "it printed what it was about to do"
    interrupt(process)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130 and f"{agent} was stopped after" in errors
    assert left_over(workshop) == ([], [], [])


@real_agents
def test_who_reads_no_further_ends_it(workshop: Place) -> None:
    process = workshop.start("agent", "try", "claude", "[[scenario:loud]] go")
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.readline() == "first words\n"
    process.stdout.close()
    said = process.stderr.read()
    assert process.wait(timeout=30) == 141 and "Traceback" not in said and "bug" not in said
    process.stderr.close()
    assert left_over(workshop) == ([], [], [])


@real_agents
@BOTH
@pytest.mark.parametrize(("scenario", "code"), [("quota", 5), ("refused", 2), ("loop", 1)])
def test_a_trial_that_fails_says_who_must_act(workshop: Place, agent: str, scenario: str, code: int) -> None:
    said = workshop("agent", "try", agent, f"[[scenario:{scenario}]] go")
    assert said.code == code, said
    assert said.err.startswith("error: ") and "\nnext: " in said.err and "Traceback" not in said.err
    assert left_over(workshop) == ([], [], [])


def test_what_cannot_be_tried_says_so_before_anything_is_made(place: Place) -> None:
    unknown = place("agent", "try", "nobody", "hello")
    assert unknown.code == 4 and "there is no agent 'nobody'" in unknown.err
    assert place("agent", "try", "shell", "  ").code == 2
    keyless = place("agent", "try", "claude", "hello")
    assert keyless.code == 2 and "next: " in keyless.err
    assert place("branch", "ls", "--json").json == []


def test_any_command_can_be_tried_and_its_failure_is_told(place: Place) -> None:
    place.agent('cat; echo done > done.txt; [ -z "$FAIL" ] || exit 3')
    said = place("agent", "try", "shell", "hello there")
    assert said.code == 0 and said.out.startswith("hello there\n") and "done.txt  +1  -0" in said.out
    assert "it does not say what it spent" in said.out
    place.agent("echo 'no such thing' >&2; exit 3")
    said = place("agent", "try", "shell", "hello", "--keep")
    assert said.code == 1 and "no such thing" in said.err and "# kept: try-" in said.err
    assert len(place("branch", "ls", "--json").json) == 1


@real_agents
def test_what_a_tried_agent_says_cannot_command_a_terminal(workshop: Place) -> None:
    seen = seen_on_a_terminal(workshop, "agent", "try", "claude", "[[scenario:evil]] go")
    assert "ab" in seen and "\x1b]0;" not in seen and "\x07" not in seen


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A place where both programs took part in a run, and both are gone by now."""
    made = make_place(tmp_path_factory.mktemp("told"))
    steps: list[Any] = [[{"think": "Is it?"}, {"bash": "cat value.txt"}], {"structured": NOTHING_TO_DO}]
    with ScriptedModel(by_step({"analyze": steps})) as model:
        furnished(made, model)
        assert made("resolve", "1").code == 0
        local = made.project / "resolvent.local.toml"
        text = local.read_text()
        local.write_text(text.replace('writer = "claude"', 'writer = "codex"'), encoding="utf-8")
        assert made("issue", "new", "Again").code == 0
        assert made("resolve", "2").code == 0
    made.extra.clear()
    gone = ('[agents.claude]\ncommand = ["/nowhere/claude"]', '[agents.codex]\ncommand = ["/nowhere/codex"]')
    local.write_text(text.replace("[agents.claude]", gone[0]).replace("[agents.codex]", gone[1]), encoding="utf-8")
    yield made


@pytest.mark.spec("A13")
@real_agents
@BOTH
def test_the_transcript_of_a_run_is_read_when_program_and_key_are_gone(told: Place, agent: str) -> None:
    run = next(row["run"] for row in told("runs", "--json").json if row["subject"] == f"issue-{1 + (agent == 'codex')}")
    said = told("logs", run).out
    assert said.startswith(f"── analyze · {agent} · exit 0") and "Is it?" in said and "cat value.txt" in said
    assert "  │ bad" in said and "INVALID" in said and "tokens in" in said and '"type"' not in said
    assert told("logs", run, "-f").out == said
    raw = told("logs", run, "--raw").out
    assert any(json.loads(line)["type"] for line in raw.splitlines() if line.startswith("{"))
    (job,) = told("logs", run, "--json").json
    assert job["agent"] == agent and job["left_out"] == {"moments": 0, "bytes": 0} and job["output"] in raw
    assert {"thinking", "tool_call", "tool_result", "usage"} <= {moment["kind"] for moment in job["moments"]}


@pytest.mark.spec("K9")
@real_agents
def test_a_transcript_is_paged_and_says_what_was_left_out(told: Place) -> None:
    (job,) = told("logs", "--json", "--last", "2").json
    (whole,) = told("logs", "--json").json
    assert job["moments"] == whole["moments"][-2:] and job["left_out"]["moments"] == len(whole["moments"]) - 2
    said = told("logs", "--last", "1").out
    assert "moments before these: resolvent logs r" in said and "--raw" in said and "cat value.txt" not in said
    assert told("logs", "--jobs", "1").out == told("logs").out


@real_agents
def test_the_living_screen_shows_moments_and_not_events(place: Place) -> None:
    # Slow enough for a frame to show it.
    last = {"structured": NOTHING_TO_DO, "delay": 2.5}
    steps: list[Any] = [[{"text": "I am looking at it."}, {"bash": "cat value.txt"}], last]
    with ScriptedModel(by_step({"analyze": steps})) as model:
        seen = seen_on_a_terminal(furnished(place, model), "resolve", "1")
    assert "│ I am looking at it." in seen and "│ → Bash  cat value.txt" in seen
    assert '"type"' not in seen and "declined" in seen
