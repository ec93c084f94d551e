"""Bad input and a bad world, through the real process: a clear error, the next command to type, and nothing lost."""

from pathlib import Path

import pytest

from .conftest import HONEST
from .process import Place, processes_holding

FAILING = "echo 'cannot think today' >&2; exit 1"
BOTH = "echo VERDICT=INVALID; echo VERDICT=NEED_FIX"
FLOOD = "yes 'a line of a flood that does not end' | head -c 200000000"


@pytest.mark.conforms("S0.1")
def test_both_entry_points_are_refused(place: Place) -> None:
    said = place("resolve", "1", "--pr", "2")
    assert said.code == 2
    assert "more than one was given" in said.err and "next:" in said.err
    assert place("runs", "--json").json == []


@pytest.mark.conforms("S0.1")
def test_no_entry_point_is_refused(place: Place) -> None:
    said = place("resolve")
    assert said.code == 2 and "nothing was given" in said.err


@pytest.mark.spec("K1")
def test_an_unknown_issue_is_not_found(place: Place) -> None:
    said = place("resolve", "99")
    assert said.code == 4 and "99" in said.err and "next:" in said.err


@pytest.mark.conforms("S0.2")
def test_a_missing_repository_is_named(place: Place, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    said = place("resolve", "1", "-C", str(tmp_path / "empty"))
    assert said.code == 2 and "in no git repository" in said.err and "git init" in said.err


def test_a_repository_without_a_commit_is_named(place: Place, tmp_path: Path) -> None:
    place.git("init", "-q", str(tmp_path / "fresh"))
    said = place("resolve", "1", "-C", str(tmp_path / "fresh"))
    assert said.code == 2 and "commit" in said.err and "next:" in said.err


@pytest.mark.spec("R6")
def test_a_dirty_tree_is_a_warning(place: Place) -> None:
    (place.project / "value.txt").write_text("worse\n", encoding="utf-8")
    said = place("resolve", "1")
    assert said.code == 0 and "uncommitted" in said.err
    assert (place.project / "value.txt").read_text(encoding="utf-8") == "worse\n"
    assert "-bad\n+good\n" in place("diff").out, "a run sees commits only"


@pytest.mark.spec("R7")
def test_without_walls_one_has_to_say_so(place: Place) -> None:
    said = place("resolve", "1", "--set", "sandbox.rung=plain")
    assert said.code == 2 and "--unsafe" in said.err
    assert place("runs", "--json").json == []
    assert place("resolve", "1", "--unsafe").code == 0


@pytest.mark.spec("A8")
def test_a_missing_agent_is_named_before_anything_starts(place: Place) -> None:
    (place.project / "resolvent.local.toml").write_text(
        '[agents]\nwriter = "x"\nreader = "x"\nx = { use = "command", command = ["no-such-program"] }\n'
    )
    said = place("resolve", "1")
    assert said.code == 2 and "no-such-program" in said.err and "next:" in said.err
    assert place("runs", "--json").json == []


@pytest.mark.spec("K1")
def test_an_agent_that_exits_1_escalates_with_what_it_said(place: Place) -> None:
    place.agent(FAILING)
    said = place("resolve", "1", "--json")
    assert said.code == 3
    assert said.json["outcome"] == "escalated" and "cannot think today" in said.json["reason"]
    place.agent(HONEST)
    again = place("retry", "--json")
    assert again.code == 0 and again.json["outcome"] == "proven", again


@pytest.mark.spec("J3")
def test_an_agent_that_hangs_is_ended_with_its_children(place: Place) -> None:
    place.agent("setsid sh -c 'trap \"\" TERM; while :; do read x < /dev/zero; done' & cat /dev/zero >/dev/null")
    config = place.project / "resolvent.local.toml"
    config.write_text(config.read_text().replace(" }", ", wall = 0.6 }"))
    said = place("resolve", "1", "--json")
    assert said.code == 3 and "AgentTimedOut" in said.json["reason"]
    assert processes_holding(place.directory) == []


def test_an_agent_that_floods_its_output_is_ended(place: Place) -> None:
    place.agent(FLOOD)
    config = place.project / "resolvent.local.toml"
    config.write_text(config.read_text().replace(" }", ', output = "1M" }'))
    said = place("resolve", "1", "--json")
    assert said.code == 3 and "AgentTimedOut" in said.json["reason"] and "too much" in said.json["reason"]
    sizes = [path.stat().st_size for path in (place.directory / "state/jobs").glob("*/output")]
    assert sizes and max(sizes) <= 1 << 20


def test_an_agent_that_prints_both_verdicts_is_asked_again_and_then_stopped(place: Place) -> None:
    place.agent(BOTH)
    said = place("resolve", "1", "--json")
    assert said.code == 3 and "MalformedAnswer" in said.json["reason"]
    outputs = [path.read_text() for path in (place.directory / "state/jobs").glob("*/output")]
    assert len(outputs) == 2 and all("VERDICT=INVALID" in text for text in outputs)


def test_a_configuration_mistake_names_the_key(place: Place) -> None:
    (place.project / "resolvent.toml").write_text("[policy]\nmax_fix_round = 3\n")
    said = place("runs")
    assert said.code in (0, 2)
    said = place("resolve", "1")
    assert said.code == 2 and "max_fix_round" in said.err and "did you mean" in said.err


def test_errors_are_objects_for_programs(place: Place) -> None:
    said = place("resolve", "99", "--json")
    assert said.code == 4
    assert said.json["error"]["class"] == "NotFound" and said.json["error"]["hint"]
