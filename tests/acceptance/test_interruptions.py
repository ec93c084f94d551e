"""Signals, second daemons and second runs, through the real process."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import HONEST
from .process import Place, processes_holding


@pytest.fixture
def held(place: Place, tmp_path: Path) -> Callable[[], None]:
    """An agent that waits in its analysis; calling the fixture lets it go on."""
    gate, started = place.shared / "gate", place.shared / "started"
    for fifo in (gate, started):
        os.mkfifo(fifo)
        fifo.chmod(0o666)
    hold = f'if [ "$RESOLVENT_STEP" = analyze ]; then echo here > {started}; read x < {gate}; fi\n'
    place.agent(hold + HONEST)
    place.extra["STARTED"] = str(started)

    def go_on() -> None:
        gate.write_text("go\n", encoding="utf-8")

    return go_on


def wait_for_agent(place: Place) -> None:
    """Blocks until the held agent has begun."""
    assert (place.shared / "started").read_text(encoding="utf-8") == "here\n"


def serving(place: Place) -> subprocess.Popen[str]:
    """A daemon that holds the store: it says so only then."""
    daemon = place.start("serve")
    assert daemon.stderr is not None and daemon.stderr.readline().startswith("working on ")
    return daemon


@pytest.mark.spec("D5")
def test_the_first_ctrl_c_leaves_within_two_seconds_and_the_agent_goes_on(
    place: Place, held: Callable[[], None], tmp_path: Path
) -> None:
    process = place.start("resolve", "1")
    wait_for_agent(place)
    process.send_signal(signal.SIGINT)
    begun = time.monotonic()
    _, err = process.communicate(timeout=10)
    assert time.monotonic() - begun < 3.0
    assert process.returncode == 130
    assert "resolvent watch" in err
    assert processes_holding(place.directory / "state"), "the agent's job goes on by itself"
    held()
    said = place("watch", "--json")
    assert said.code == 0 and said.json["outcome"] == "proven"
    assert len(list((place.directory / "state/jobs").glob("*ask.analyze*"))) == 1, "nothing was started twice"


@pytest.mark.spec("D5")
def test_the_second_ctrl_c_ends_the_agents(place: Place, held: Callable[[], None], tmp_path: Path) -> None:
    process = place.start("resolve", "1")
    wait_for_agent(place)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    while "left" not in process.stderr.readline():
        pass
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=15) == 1
    assert processes_holding(place.directory / "state") == []
    place.agent(HONEST)
    said = place("watch", "--json")
    assert said.code == 0 and said.json["outcome"] == "proven", "what was stopped is begun anew"


@pytest.mark.spec("D1", "D2")
def test_kill_9_loses_nothing_and_repeats_nothing(place: Place, held: Callable[[], None], tmp_path: Path) -> None:
    process = place.start("resolve", "1")
    wait_for_agent(place)
    process.kill()
    process.wait()
    held()
    said = place("watch", "--json")
    assert said.code == 0 and said.json["outcome"] == "proven"
    assert len(list((place.directory / "state/jobs").glob("*ask.analyze*"))) == 1


def test_two_runs_on_one_issue_are_refused(place: Place, held: Callable[[], None], tmp_path: Path) -> None:
    process = place.start("resolve", "1", "--json")
    wait_for_agent(place)
    second = place("resolve", "1")
    assert second.code == 2 and "issue-1" in second.err and "resolvent watch" in second.err
    held()
    assert process.wait(timeout=60) == 0
    assert len(place("runs", "--json").json) == 1


@pytest.mark.spec("D3", "K1")
def test_a_second_daemon_is_refused_and_names_the_first(place: Place, held: Callable[[], None], tmp_path: Path) -> None:
    daemon = serving(place)
    run = place.start("resolve", "1", "--json")
    wait_for_agent(place)
    second = place("serve")
    assert second.code == 5 and str(daemon.pid) in second.err and "working on" not in second.err
    held()
    assert run.wait(timeout=60) == 0
    daemon.send_signal(signal.SIGTERM)
    assert daemon.wait(timeout=30) == 0


@pytest.mark.spec("D5")
def test_a_daemon_that_is_told_to_stop_waits_for_its_agent_and_begins_nothing(
    place: Place, held: Callable[[], None], tmp_path: Path
) -> None:
    daemon = serving(place)
    following = place.start("resolve", "1", "--json")
    wait_for_agent(place)
    # Nobody is left to take over what the daemon does not begin.
    following.kill()
    following.wait()
    daemon.send_signal(signal.SIGTERM)
    assert daemon.stderr is not None and "when the agents at work are done" in daemon.stderr.readline()
    assert daemon.poll() is None and processes_holding(place.directory / "state")
    held()
    assert daemon.wait(timeout=30) == 0
    assert [path.name.split(".")[2] for path in (place.directory / "state/jobs").glob("r*.*.*")] == ["analyze"]
    said = place("watch", "--json")
    assert said.code == 0 and said.json["outcome"] == "proven"
    assert len(list((place.directory / "state/jobs").glob("*ask.analyze*"))) == 1


@pytest.mark.spec("K7")
def test_a_follower_takes_over_when_the_worker_dies(place: Place, held: Callable[[], None], tmp_path: Path) -> None:
    daemon = serving(place)
    run = place.start("resolve", "1", "--json")
    wait_for_agent(place)
    daemon.kill()
    daemon.wait()
    held()
    out, _ = run.communicate(timeout=60)
    assert run.returncode == 0 and '"proven"' in out


def test_cancel_leaves_no_process_behind(place: Place, held: Callable[[], None], tmp_path: Path) -> None:
    process = place.start("resolve", "1", "--json")
    wait_for_agent(place)
    said = place("cancel")
    assert said.code in (0, 1), said
    assert process.wait(timeout=30) == 1
    assert processes_holding(place.directory / "state") == []
    assert place.outcome()["outcome"] == "cancelled"


@pytest.mark.spec("K7")
def test_a_detached_run_goes_on_without_us(place: Place, held: Callable[[], None], tmp_path: Path) -> None:
    said = place("resolve", "1", "-d", "--json")
    assert said.code == 0
    wait_for_agent(place)
    watcher = place.start("watch", "--json")
    held()
    out, _ = watcher.communicate(timeout=60)
    assert watcher.returncode == 0 and '"proven"' in out
    assert isinstance(watcher, subprocess.Popen)
