"""init, doctor, schema and the example agent."""

import json
import os
import shutil
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from resolvent.cli.schema import NAMES
from resolvent.settings import load

from .process import Place

PROJECTS = {
    "make": ({"Makefile": "build:\n\tcc x\ntest: build\n\t./x\nVERSION := 1\n"}, ("make build", "make test")),
    "check": ({"Makefile": "check:\n\ttrue\n"}, ("", "make check")),
    "variable": ({"Makefile": "test := no target\n"}, ("", "")),
    "cargo": ({"Cargo.toml": "[package]\n"}, ("cargo build", "cargo test")),
    "go": ({"go.mod": "module x\n"}, ("go build ./...", "go test ./...")),
    "node": ({"package.json": '{"scripts": {"test": "jest"}}'}, ("", "npm test")),
    "broken node": ({"package.json": '{"scripts": ["test"'}, ("", "")),
    "odd node": ({"package.json": '["test"]'}, ("", "")),
    "pytest": ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, ("", "python3 -m pytest -q")),
    "unittest": ({"pyproject.toml": "[project]\n"}, ("", "python3 -m unittest")),
    "nothing": ({}, ("", "")),
}


@pytest.fixture
def fresh(tmp_path: Path) -> Place:
    """A repository that has never seen us."""
    made = Place(tmp_path)
    made.project.mkdir()
    (tmp_path / "home").mkdir()
    made.git("init", "-q", "-b", "main")
    made.git("commit", "-q", "--allow-empty", "-m", "first")
    return made


@pytest.mark.parametrize("kind", PROJECTS)
def test_init_finds_the_checks_of_a_project(fresh: Place, kind: str) -> None:
    files, (build, test) = PROJECTS[kind]
    for name, text in files.items():
        (fresh.project / name).write_text(text, encoding="utf-8")
    said = fresh("init")
    assert said.code == 0 and "next: resolvent doctor" in said.out, said
    checks = load(fresh.project, environ={}).checks
    assert (checks.build, checks.test, checks.smoke) == (build, test, "")


def test_init_says_what_it_found_and_which_file_is_for_whom(fresh: Place) -> None:
    (fresh.project / "Makefile").write_text("test:\n\ttrue\n", encoding="utf-8")
    said = fresh("init").out
    assert '  checks  test = "make test"\n' in said and "  forge   local: " in said
    # Neither has a key here, whether its program is installed or not.
    assert "\n  writer  claude: " in said and "\n  reader  codex: " in said and "ready" not in said
    assert "git add resolvent.toml" in said and "echo /resolvent.local.toml >> .gitignore" in said
    (fresh.project / ".gitignore").write_text("/resolvent.local.toml\n", encoding="utf-8")
    said = fresh("init", "--force", "--example-agent", "agent.py").out
    assert "\n  writer  example: ready\n" in said and ".gitignore" not in said


def test_the_virtual_environment_is_never_made_with_its_own_python() -> None:
    script = Path(__file__).parents[2] / "scripts" / "outer-python"
    own = script.parents[1] / ".venv" / "bin"
    if not (own / "python3").exists():
        pytest.skip("there is no .venv: make setup")
    for environ in (
        {"PATH": f"{own}:{os.environ['PATH']}"},
        {"PATH": os.environ["PATH"], "PYTHON": str(own / "python")},
    ):
        python = subprocess.run([script], env=environ, check=True, capture_output=True, text=True).stdout.strip()
        prefix = subprocess.run(
            [python, "-c", "import sys; print(sys.prefix)"], check=True, capture_output=True, text=True
        )
        assert Path(prefix.stdout.strip()).resolve() != own.parent.resolve()


def test_init_never_overwrites_unless_told(fresh: Place) -> None:
    (fresh.project / "resolvent.toml").write_text("# mine\n", encoding="utf-8")
    said = fresh("init")
    assert said.code == 2 and "exists already" in said.err and "--force" in said.err
    assert (fresh.project / "resolvent.toml").read_text(encoding="utf-8") == "# mine\n"
    assert fresh("init", "--force").code == 0
    assert "[policy]" in (fresh.project / "resolvent.toml").read_text(encoding="utf-8")


def test_init_follows_no_link_that_came_with_the_repository(fresh: Place) -> None:
    (fresh.project / "resolvent.toml").symlink_to(fresh.directory / "elsewhere")
    for words in (("init",), ("init", "--force")):
        said = fresh(*words)
        assert said.code == 2 and "Traceback" not in said.err
    assert not (fresh.directory / "elsewhere").exists()


def test_init_leaves_a_configuration_alone_when_it_adds_the_example_agent(fresh: Place) -> None:
    (fresh.project / "resolvent.toml").write_text("# mine\n", encoding="utf-8")
    said = fresh("init", "--example-agent", "agent.py")
    assert said.code == 0 and (fresh.project / "agent.py").is_file()
    assert (fresh.project / "resolvent.toml").read_text(encoding="utf-8") == "# mine\n"
    advice = tomllib.loads(said.out.partition("\n\n")[2])
    assert advice["agents"]["example"]["command"] == ["python3", "./agent.py"]


def test_the_example_agent_can_be_printed(fresh: Place) -> None:
    said = fresh("init", "--example-agent", "-")
    assert said.code == 0 and said.out.startswith("#!/usr/bin/env python3")
    assert not (fresh.project / "resolvent.toml").exists()


def test_the_example_agent_makes_a_first_run_end_well(fresh: Place) -> None:
    assert fresh("init", "--example-agent", "tools/agent.py").code == 0
    assert stat.S_IMODE((fresh.project / "tools/agent.py").stat().st_mode) & 0o100
    fresh.git("add", "-A")
    fresh.git("commit", "-q", "-m", "resolvent")
    assert fresh("doctor").code == 0
    fresh("issue", "new", "Something is wrong")
    said = fresh("resolve", "1", "--json")
    assert said.code == 0 and said.json["outcome"] == "declined" and "example agent" in said.json["reason"]


@pytest.mark.parametrize(
    ("step", "schema"),
    [
        ("analyze", "analysis"),
        ("analyze_pull", "analysis"),
        ("implement", "implementation"),
        ("improve", "fix"),
        ("fix", "fix"),
        ("review", "review"),
        ("verify", "verification"),
    ],
)
def test_every_answer_of_the_example_agent_fits_its_schema(fresh: Place, step: str, schema: str) -> None:
    from resolvent.domain import verdicts

    script = fresh.directory / "agent.py"
    script.write_text(fresh("init", "--example-agent", "-").out, encoding="utf-8")
    answer = fresh.directory / "answer.json"
    environ = {"RESOLVENT_STEP": step, "RESOLVENT_ANSWER": str(answer)}
    words = [sys.executable, "-I", "-S", str(script)]
    subprocess.run(words, env=environ, input="the prompt", text=True, check=True, capture_output=True)
    getattr(verdicts, schema.capitalize()).model_validate_json(answer.read_bytes())


def test_the_example_agent_hands_over_to_a_program(fresh: Place) -> None:
    script = fresh.directory / "agent.py"
    script.write_text(fresh("init", "--example-agent", "-").out, encoding="utf-8")
    words = [sys.executable, str(script), "sh", "-c", "tr a-z A-Z; exit 3"]
    done = subprocess.run(words, input="no_p0_p1", text=True, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (3, "NO_P0_P1")


def test_doctor_names_the_fix_for_a_missing_agent(fresh: Place) -> None:
    (fresh.project / "resolvent.toml").write_text(
        '[agents]\nwriter = "x"\nreader = "x"\nx = { use = "command", command = ["no-such-program"] }\n'
    )
    said = fresh("doctor")
    assert said.code == 2 and "no-such-program" in said.out and "next: " in said.out
    found = fresh("doctor", "--json")
    assert found.code == 2 and found.json["sound"] is False
    states = {probe["name"]: probe["state"] for probe in found.json["probes"]}
    assert states["agent x"] == "fault"
    assert states["git"] == states["store"] == states["forge"] == "ok" and states["sandbox"] in ("ok", "note")
    assert all(probe["fix"] for probe in found.json["probes"] if probe["state"] == "fault")


def test_doctor_shows_a_way_to_the_agents_that_are_used_unless_said_otherwise(fresh: Place) -> None:
    assert fresh("init").code == 0
    told = {probe["name"]: probe for probe in fresh("doctor", "--json").json["probes"]}
    for name in ("claude", "codex"):
        assert told[f"agent {name}"]["state"] == "fault"
        assert told[f"agent {name}"]["fix"].startswith(("export ", "make agents ")), "a program or a key is missing"
    assert fresh("init", "--force", "--example-agent", "agent.py").code == 0
    assert fresh("doctor").code == 0


def looked_at(place: Place, text: str) -> dict[str, list[tuple[str, str]]]:
    """What doctor says under each name with this configuration."""
    agent = 'x = { use = "command", command = ["true"], writes = ["~/cache"] }'
    (place.project / "resolvent.toml").write_text(f'[agents]\nwriter = "x"\nreader = "x"\n{agent}\n[sandbox]\n{text}\n')
    told: dict[str, list[tuple[str, str]]] = {}
    for probe in place("doctor", "--json").json["probes"]:
        told.setdefault(probe["name"], []).append((probe["state"], probe["found"]))
    return told


def test_doctor_says_what_boxes_see_of_this_machine(fresh: Place) -> None:
    tools = fresh.directory / "home/tools/bin"
    tools.mkdir(parents=True)
    fresh.extra["PATH"] = f"{tools}:/usr/bin:/bin"
    told = looked_at(fresh, "")
    assert told["box reads"] == [("ok", "the system only: agents and checks see nothing of your home")]
    assert told["box network"] == [("ok", "none")]
    assert told["box path"] == [("note", "these are not in a box: ~/tools/bin")]
    assert told["box x"] == [("ok", "writes ~/cache")]
    assert told["agents.x.writes"] == [("fault", "~/cache does not exist")]
    (fresh.directory / "home/cache").mkdir()
    told = looked_at(fresh, 'reads = ["~/tools", "~/gone"]\nnetwork = ["private!localhost:5432"]')
    assert told["box reads"] == [("ok", "~/tools, ~/gone: agents and checks see nothing else of your home")]
    assert told["sandbox.reads"] == [("fault", "~/gone does not exist")]
    assert told["box network"] == [("ok", "private!localhost:5432 and nothing else")]
    assert "box path" not in told and "agents.x.writes" not in told


@pytest.mark.parametrize(("path", "said"), [("~/", "whole home"), ("/", "never shown")])
def test_doctor_warns_of_places_that_are_too_wide(fresh: Place, path: str, said: str) -> None:
    (fresh.directory / "home/cache").mkdir()
    ((state, what),) = looked_at(fresh, f'reads = ["{path}"]')["sandbox.reads"]
    assert state == "note" and said in what


def test_doctor_starts_no_agent_and_leaves_nothing_of_it(fresh: Place) -> None:
    fresh.agent(f"touch {fresh.directory}/started")
    assert fresh("doctor").code == 0
    assert not (fresh.directory / "started").exists()


def test_doctor_names_a_broken_configuration(fresh: Place) -> None:
    (fresh.project / "resolvent.toml").write_text("[polcy]\n")
    said = fresh("doctor", "--json")
    assert said.code == 2
    assert [probe["name"] for probe in said.json["probes"] if probe["state"] == "fault"] == ["configuration"]


@pytest.mark.parametrize(("version", "state"), [("2.37.9", "fault"), ("2.38.0", "ok"), ("3.0", "ok"), ("x", "fault")])
def test_doctor_knows_which_git_is_too_old(fresh: Place, version: str, state: str) -> None:
    tools = fresh.directory / "tools"
    tools.mkdir()
    real = shutil.which("git")
    asked = '[ "$1" = --version ]'
    (tools / "git").write_text(f'#!/bin/sh\n{asked} && echo git version {version} || exec {real} "$@"\n')
    (tools / "git").chmod(0o755)
    fresh.extra["PATH"] = f"{tools}:{os.environ['PATH']}"
    found = {probe["name"]: probe["state"] for probe in fresh("doctor", "--json").json["probes"]}
    assert found["git"] == state and ("forge" in found) == (state == "ok")


def test_every_schema_is_printed(fresh: Place) -> None:
    assert fresh("schema").out.split() == list(NAMES) == fresh("schema", "--json").json
    for name in NAMES:
        schema = json.loads(fresh("schema", name).out)
        assert schema["title"] and schema["type"] in ("object", "array")


@pytest.mark.spec("O2", "O3")
def test_the_outcome_schema_names_every_field_that_programs_are_promised(fresh: Place) -> None:
    promised = {
        "schema_version", "run", "playbook", "subject", "outcome", "reason", "decision", "base", "change",
        "pull_request", "rounds", "findings", "evidence", "gate", "effects", "cost", "steps", "design",
    }  # fmt: skip
    inside = {
        "PullDocument": {"number", "url", "head"},
        "FindingDocument": {
            "id", "severity", "title", "triage", "valid", "origin", "basis", "rule", "found_in_round",
            "created_in_round", "repeats", "issue",
        },
        "EvidenceDocument": {"check", "on", "command", "files", "exit", "passed", "execution", "seconds", "log"},
        "GateDocument": {"open", "reasons", "notes"},
        "EffectDocument": {"kind", "target", "marker"},
        "Usage": {"usd", "input_tokens", "cached_tokens", "output_tokens"},
        "StepDocument": {"step", "state", "seconds"},
        "Designed": {"status", "comment_url", "notes", "rounds", "body"},
    }  # fmt: skip
    schema = fresh("schema", "outcome").json
    assert promised <= schema["properties"].keys()
    assert [name for name, names in inside.items() if not names <= schema["$defs"][name]["properties"].keys()] == []
    assert schema["properties"]["schema_version"]["const"] == 1, "who takes a name away gives it another number"
