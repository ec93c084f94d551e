"""Where supervisors come from, what becomes of theirs when they are killed, and what is asked of them at once."""

import asyncio
import fcntl
import os
import signal
import time
from pathlib import Path

import pytest
from tests.contract.jobs_stage import Place, Seen
from tests.contract.programs import change_program, readable

from resolvent.adapters.jobs import spawning
from resolvent.adapters.jobs.remains import end_session
from resolvent.domain.job import Limits
from resolvent.errors import JobLost, StoreBusy, Unavailable


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


async def test_a_supervisor_that_cannot_work_is_an_error_and_not_a_loop(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_program(monkeypatch, place.path / "broken", "supervise", lambda _: "raise SystemExit('it is broken')")
    with pytest.raises(StoreBusy, match="could not be started: it is broken"):
        await place.jobs.ensure(place.job("true"))


async def test_a_supervisor_that_fails_on_its_order_says_so_and_the_next_job_is_supervised(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = 'if directory.endswith(b"bad"): raise ValueError("not this one")'
    mark = "    posix.chdir(directory)\n"
    change_program(
        monkeypatch, place.path / "picky", "supervise", lambda text: text.replace(mark, f"    {refused}\n{mark}")
    )
    with pytest.raises(StoreBusy, match="could not be started: Traceback"):
        await place.jobs.ensure(place.job("true", id="bad"))
    assert (await place.jobs.ensure(place.job("true", id="good"))).exit == 0


async def test_a_nursery_that_was_killed_is_replaced_and_its_supervisors_go_on(place: Place) -> None:
    ready, go = place.meeting("ready"), place.meeting("go")
    first = asyncio.create_task(place.jobs.ensure(place.job(f"echo > {ready}; read _ < {go}", id="first")))
    await ready.heard()
    nursery = place.parent_of(place.supervisor("first"))
    os.kill(nursery, signal.SIGKILL)
    assert (await place.jobs.ensure(place.job("true", id="second"))).exit == 0
    assert place.parent_of(place.supervisor("first")) != nursery
    go.say()
    assert (await first).exit == 0


async def test_the_nursery_ends_with_who_started_it_and_the_job_goes_on(place: Place) -> None:
    ready, go = place.meeting("ready"), place.meeting("go")
    job = place.job(f"echo > {ready}; read _ < {go}; exit 7")
    worker = place.elsewhere(job)
    await ready.heard()
    nursery = os.pidfd_open(place.parent_of(place.supervisor()))
    worker.kill()
    worker.wait()
    await asyncio.wait_for(readable(nursery), 10)
    go.say()
    assert (await place.jobs.ensure(job)).exit == 7


async def test_the_command_line_of_a_supervisor_names_its_job(place: Place) -> None:
    ready = place.meeting("ready")
    running = asyncio.create_task(place.jobs.ensure(place.job(f"echo > {ready}; exec sleep 1000")))
    await ready.heard()
    shown = Path(f"/proc/{place.supervisor()}/cmdline").read_bytes().rstrip(b" \0")
    assert shown.endswith(os.fsencode(place.of())[-400:])
    await place.jobs.cancel("job")
    await running


async def test_a_nursery_that_hangs_holds_nobody_up(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    hang = "        __import__('time').sleep(1000)\n        if not words:\n"
    change_program(
        monkeypatch, place.path / "hanging", "nursery", lambda text: text.replace("        if not words:\n", hang)
    )
    monkeypatch.setattr(spawning, "PATIENCE_S", 0.2)
    waiting = asyncio.create_task(place.jobs.ensure(place.job("true")))
    longest, seen = 0.0, time.monotonic()
    while not waiting.done():
        await asyncio.sleep(0.001)
        longest, seen = max(longest, time.monotonic() - seen), time.monotonic()
    with pytest.raises(StoreBusy):
        await waiting
    assert longest < 0.15


async def test_who_gives_up_waiting_for_the_nursery_leaves_no_answer_for_the_next(place: Place) -> None:
    ready, go = place.meeting("ready"), place.meeting("go")
    first = asyncio.create_task(place.jobs.ensure(place.job(f"echo > {ready}; read _ < {go}", id="first")))
    await ready.heard()
    nursery = place.parent_of(place.supervisor("first"))
    os.kill(nursery, signal.SIGSTOP)
    try:
        given_up = asyncio.create_task(place.jobs.ensure(place.job("exit 3", id="given-up")))
        while not place.jobs.running("given-up"):
            await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
    finally:
        os.kill(nursery, signal.SIGCONT)
    following = asyncio.create_task(place.jobs.ensure(place.job(f"echo > {ready}; read _ < {go}; exit 4", id="next")))
    await ready.heard()
    assert place.parent_of(place.supervisor("next")) == nursery
    assert (await place.jobs.ensure(place.job("exit 5", id="given-up"))).exit == 3
    # It was the answer to the one that was given up that came first: this one gets none, and is started again.
    os.kill(nursery, signal.SIGSTOP)
    last = asyncio.create_task(place.jobs.ensure(place.job("exit 6", id="last")))
    while not (place.of("last") / "supervisor.log").exists():
        await asyncio.sleep(0)
    os.kill(nursery, signal.SIGKILL)
    assert (await last).exit == 6
    for _ in range(2):
        go.say()
    assert [(await task).exit for task in (first, following)] == [0, 4]


async def test_programs_that_nobody_runs_are_removed_when_new_ones_are_made(place: Place) -> None:
    place.root.mkdir()
    old, begun, used = (place.root / f"supervise-{name}" for name in ("cpython-1-old", "cpython-1-x.99999999", "used"))
    for directory in (old, begun, used):
        directory.mkdir()
        (directory / "nursery.pyc").touch()
    held = os.open(used, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_SH)
    await place.jobs.ensure(place.job("true"))
    os.close(held)
    left = list(place.root.glob("supervise-*"))
    assert used in left and len(left) == 2 and not old.exists() and not begun.exists()
    # The one that is made now is held by the nursery, and others let it be.
    spawning._sweep(place.root, but=used)
    assert len(list(place.root.glob("supervise-*"))) == 2


async def test_an_old_line_of_the_log_is_not_told_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.root.mkdir()
    (place.root / "nursery.log").write_text("old news\n")
    change_program(monkeypatch, place.path / "broken", "supervise", lambda _: "raise SystemExit('it is broken')")
    with pytest.raises(StoreBusy, match="it is broken") as caught:
        await place.jobs.ensure(place.job("true"))
    assert "old news" not in caught.value.message


@pytest.mark.parametrize("missing", ["memory", "log"])
async def test_a_supervisor_that_gets_no_descriptors_is_an_error_of_ours_and_leaks_none(
    place: Place, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    def refuse(_: str) -> int:
        raise OSError(24, "Too many open files")

    await place.jobs.ensure(place.job("true", id="warm"))
    before = sorted(os.listdir("/proc/self/fd"))
    if missing == "memory":
        monkeypatch.setattr(os, "memfd_create", refuse)
    else:
        (place.of() / "supervisor.log").mkdir(parents=True)
    with pytest.raises(Unavailable, match="cannot start a supervisor for job job"):
        await place.jobs.ensure(place.job("true"))
    assert sorted(os.listdir("/proc/self/fd")) == before


async def test_who_only_looks_is_not_taken_for_a_supervisor(place: Place) -> None:
    place.of().mkdir(parents=True)
    os.mkfifo(place.of() / "lock")
    another = os.open(place.of() / "lock", os.O_RDWR)
    fcntl.flock(another, fcntl.LOCK_SH)
    assert not place.jobs.running("job")
    os.close(another)


# What is left of a job whose supervisor was killed


@pytest.mark.spec("J2")
@pytest.mark.parametrize("way", ["asked for", "cancelled"])
async def test_processes_that_a_lost_job_left_in_its_session_are_killed(place: Place, way: str) -> None:
    ready = place.meeting("ready")
    job = place.job(f"sleep 1000 & echo $! > {ready}; wait")
    waiting = asyncio.create_task(place.jobs.ensure(job))
    below = Seen(int(await ready.heard()))
    supervisor = Seen(place.supervisor())
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    os.kill(place.supervisor(), signal.SIGKILL)
    assert supervisor.dead(within_s=10) and not below.dead()
    if way == "cancelled":
        await place.jobs.cancel("job")
    else:
        with pytest.raises(JobLost):
            await place.jobs.ensure(job)
    assert below.dead()


@pytest.mark.parametrize("changed", ["born", "boot"])
async def test_a_session_that_has_only_the_number_of_a_lost_one_is_left_alone(place: Place, changed: str) -> None:
    ready, go = place.meeting("ready"), place.meeting("go")
    running = asyncio.create_task(place.jobs.ensure(place.job(f"echo $$ > {ready}; read _ < {go}")))
    innocent = Seen(int(await ready.heard()))
    leader, born, boot = (place.of() / "session").read_text().split()
    lost = place.path / "lost"
    lost.mkdir()
    told = f"{leader} {int(born) - 1} {boot}" if changed == "born" else f"{leader} {born} another"
    (lost / "session").write_text(told)
    end_session(lost)
    assert not innocent.dead()
    go.say()
    await running


async def test_a_process_that_cannot_be_killed_is_told_and_not_waited_for(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gentle(text: str) -> str:
        return text.replace("            posix.kill(pid, number)\n", "            posix.kill(pid, 0)\n")

    change_program(monkeypatch, place.path / "gentle", "processes", gentle)
    source = spawning.PROGRAMS / "supervise.py"
    source.write_text(source.read_text().replace("DYING_S = 60.0", "DYING_S = 0.3"))
    ready = place.meeting("ready")
    waiting = asyncio.create_task(
        place.jobs.ensure(place.job(f"setsid sleep 1000 & echo $! > {ready}", limits=Limits(grace_s=0)))
    )
    left = int(await ready.heard())
    try:
        exit = await waiting
        assert (exit.ending, exit.exit) == ("exited", 0)
        assert exit.message == f"it left processes that cannot be killed: {left}"
    finally:
        os.kill(left, signal.SIGKILL)
