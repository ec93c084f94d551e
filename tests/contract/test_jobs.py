"""The contract of ports.Jobs, kept by real processes: started once, never lost, nothing left behind."""

import asyncio
import contextlib
import fcntl
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.contract.jobs_stage import DRIVER, Place, Seen, begun
from tests.contract.programs import change_program

from resolvent.adapters.clock import FrozenClock, SystemClock
from resolvent.adapters.jobs.supervised import SupervisedJobs
from resolvent.domain.job import JobExit, Limits
from resolvent.errors import Bug, JobLost


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


# Attach or start


async def test_a_job_runs_and_its_exit_and_output_are_kept(place: Place) -> None:
    before = time.time()
    exit = await place.jobs.ensure(place.job("echo out; echo err >&2; exit 3"))
    assert (exit.ending, exit.exit, exit.ended, exit.message) == ("exited", 3, True, "")
    assert before <= exit.started_at <= exit.ended_at <= time.time()
    assert sorted(place.jobs.output("job").read_text().split()) == ["err", "out"]


@pytest.mark.spec("J2")
async def test_a_finished_job_is_collected_and_not_started_again(place: Place) -> None:
    job = place.job("echo x >> count; exit 3")
    first = await place.jobs.ensure(job)
    assert await SupervisedJobs(place.root).ensure(job) == first
    assert (place.path / "count").read_text() == "x\n"


@pytest.mark.spec("J1")
async def test_a_job_asked_for_by_many_processes_at_once_starts_exactly_once(place: Place) -> None:
    gate, done = place.path / "gate", place.meeting("done")
    os.mkfifo(gate)
    job = place.job(f"echo x >> count; read _ < {done}; exit 4")
    others = [place.elsewhere(job, str(gate)) for _ in range(4)]
    here = [asyncio.create_task(place.jobs.ensure(job)) for _ in range(3)]
    with gate.open("r+b", buffering=0):
        done.say()
        said = [JobExit.model_validate_json((await asyncio.to_thread(one.communicate))[0]) for one in others]
    assert (place.path / "count").read_text() == "x\n"
    assert {exit.exit for exit in said} == {4}
    assert len({*said, *await asyncio.gather(*here)}) == 1


@pytest.mark.spec("J1")
async def test_a_job_outlives_the_kill_of_its_starter_and_is_attached_to(place: Place) -> None:
    ready, gate = place.meeting("ready"), place.meeting("gate")
    job = place.job(f"echo x >> count; echo > {ready}; read _ < {gate}; echo done; exit 7")
    starter = place.elsewhere(job)
    await ready.heard()
    starter.kill()
    starter.communicate()
    assert place.jobs.running("job")
    attached = asyncio.create_task(place.jobs.ensure(job))
    await begun(attached)
    gate.say()
    assert (await attached).exit == 7
    assert place.jobs.output("job").read_text() == "done\n"
    assert (place.path / "count").read_text() == "x\n"


async def test_a_starter_that_dies_between_lock_and_start_leaves_the_job_to_whoever_waits(place: Place) -> None:
    place.of().mkdir(parents=True)
    os.mkfifo(place.of() / "lock")
    lock = os.open(place.of() / "lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    waiting = asyncio.create_task(place.jobs.ensure(place.job("exit 5")))
    await begun(waiting)
    assert not (place.of() / "started").exists()
    os.close(lock)
    assert (await waiting).exit == 5


async def test_cancelling_whoever_waits_leaves_the_job_running_and_no_descriptor_behind(place: Place) -> None:
    ready, gate = place.meeting("ready"), place.meeting("gate")
    job = place.job(f"echo > {ready}; read _ < {gate}; exit 6")
    await place.jobs.ensure(place.job("true", id="warm"))
    before = sorted(os.listdir("/proc/self/fd"))
    waiting = [asyncio.create_task(place.jobs.ensure(job)) for _ in range(2)]
    await ready.heard()
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert all(task.cancelled() for task in waiting)
    assert sorted(os.listdir("/proc/self/fd")) == before
    assert len(asyncio.all_tasks()) == 1
    assert place.jobs.running("job")
    again = asyncio.create_task(place.jobs.ensure(job))
    gate.say()
    assert (await again).exit == 6


@pytest.mark.spec("J2")
async def test_a_job_whose_supervisor_was_killed_is_lost_and_dies_with_it(place: Place) -> None:
    ready = place.meeting("ready")
    job = place.job(f"echo x >> count; echo $$ > {ready}; exec sleep 1000")
    waiting = asyncio.create_task(place.jobs.ensure(job))
    main = Seen(int(await ready.heard()))
    os.kill(place.supervisor(), signal.SIGKILL)
    with pytest.raises(JobLost, match="supervisor of job job died"):
        await waiting
    assert main.dead(within_s=10)
    with pytest.raises(JobLost):
        await SupervisedJobs(place.root).ensure(job)
    assert (place.path / "count").read_text() == "x\n"


async def test_an_exit_that_cannot_be_read_is_a_lost_job(place: Place) -> None:
    await place.jobs.ensure(place.job("true"))
    (place.of() / "exit.json").write_bytes(b"\0" * 100)
    with pytest.raises(JobLost, match="cannot be read"):
        await place.jobs.ensure(place.job("true"))


async def test_fifty_jobs_at_once_all_end_and_leave_no_zombie(place: Place) -> None:
    exits = await asyncio.gather(*(place.jobs.ensure(place.job(f"exit {n}", id=f"job-{n}")) for n in range(50)))
    assert [exit.exit for exit in exits] == list(range(50))
    pids = [json.loads((place.of(f"job-{n}") / "started").read_text())["pid"] for n in range(50)]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            pidfd = os.pidfd_open(pid)
            select.select([pidfd], [], [])
            os.close(pidfd)
    await place.jobs.ensure(place.job("true", id="one-more"))
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


async def test_a_job_is_running_from_its_start_to_its_end(place: Place) -> None:
    ready, gate = place.meeting("ready"), place.meeting("gate")
    assert not place.jobs.running("job")
    waiting = asyncio.create_task(place.jobs.ensure(place.job(f"echo > {ready}; read _ < {gate}")))
    await ready.heard()
    assert place.jobs.running("job")
    gate.say()
    await waiting
    assert not place.jobs.running("job")


@pytest.mark.parametrize("id", ["", ".", "..", "../up", "a/b", "/abs", "nul\0", "new\nline", "a" * 201])
async def test_an_id_that_could_leave_the_root_is_refused(place: Place, id: str) -> None:
    with pytest.raises(Bug):
        await place.jobs.ensure(place.job("true", id=id))


# What the process gets


async def test_standard_input_is_the_prompt_byte_for_byte(place: Place) -> None:
    text = "first\r\n\0\x1b[31mräd 🌧\n" + "x" * 300_000 + "no newline at the end"
    await place.jobs.ensure(place.job("cat", stdin=text))
    assert place.jobs.output("job").read_bytes() == text.encode()


async def test_text_that_cannot_be_encoded_does_not_stop_a_job(place: Place) -> None:
    job = place.job("", argv=("/bin/sh", "-c", "printf %s $0; cat", "\udcff"), stdin="lone \ud800 half")
    exit = await place.jobs.ensure(job)
    assert (exit.exit, place.jobs.output("job").read_bytes()) == (0, b"\xfflone ? half")


async def test_the_environment_is_exactly_the_given_one(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGE_TOKEN", "secret")
    given = {"A": "1", "EMPTY": "", "LINES": "a\nb", "WORD": "ä=b"}
    await place.jobs.ensure(place.job("", argv=("/usr/bin/env", "-0"), environment=given))
    said = place.jobs.output("job").read_bytes().decode().split("\0")
    assert sorted(said) == sorted(["", *(f"{name}={value}" for name, value in given.items())])


async def test_the_supervisor_keeps_no_environment_that_its_process_could_read(place: Place) -> None:
    exit = await place.jobs.ensure(place.job("cat /proc/$PPID/environ"))
    assert (exit.exit, place.jobs.output("job").read_bytes()) == (0, b"")


@pytest.mark.spec("J7")
async def test_the_values_of_the_environment_never_reach_the_disk(place: Place) -> None:
    await place.jobs.ensure(place.job("true", environment={"MODEL_KEY": "sk-very-secret"}))
    kept = [file for file in place.of().iterdir() if file.is_file()]
    assert not [file for file in kept if b"sk-very-secret" in file.read_bytes()]
    assert {file.stat().st_mode & 0o777 for file in kept} == {0o600}
    assert place.of().stat().st_mode & 0o777 == 0o700


async def test_the_process_holds_nothing_but_its_three_streams_and_leads_its_own_session(place: Place) -> None:
    program = (
        "import posix; held = [fd for fd in posix.listdir('/proc/self/fd') if posix.access(f'/proc/self/fd/{fd}', 0)];"
        "print(sorted(held), posix.getsid(0) == posix.getpid(), posix.readlink('/proc/self/fd/0').endswith('/stdin'))"
    )
    await place.jobs.ensure(place.job("", argv=(sys.executable, "-I", "-S", "-c", program)))
    assert place.jobs.output("job").read_text() == "['0', '1', '2'] True True\n"


async def test_no_signal_is_ignored_or_blocked_though_ours_are(place: Place) -> None:
    ours = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGHUP, signal.SIGPIPE)}
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    try:
        await place.jobs.ensure(place.job("", argv=("/bin/grep", "-E", "SigIgn|SigBlk", "/proc/self/status")))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for number, before in ours.items():
            signal.signal(number, before)
    masks = [int(line.split()[1], 16) for line in place.jobs.output("job").read_text().splitlines()]
    # Signals 32 and 33 belong to the C library: no program can change what it inherited of them.
    assert [mask & ~(0b11 << 31) for mask in masks] == [0, 0]


async def test_streams_kept_apart_go_to_two_files(place: Place) -> None:
    await place.jobs.ensure(place.job("echo out; echo err >&2", streams="apart"))
    assert place.jobs.output("job").read_text() == "out\n"
    assert (place.of() / "errors").read_text() == "err\n"


async def test_a_frozen_clock_dates_the_job_and_the_seconds_stay_real(place: Place) -> None:
    frozen, real = FrozenClock(1_000_000_000.5), SystemClock()
    exit = await place.jobs.ensure(place.job("true", frozen_at=frozen.frozen_at))
    assert (exit.started_at, exit.ended_at) == (frozen.now(), frozen.now()) == (1_000_000_000.5, 1_000_000_000.5)
    assert 0 < exit.seconds < 60
    assert real.frozen_at is None and abs(real.now() - time.time()) < 60


# How it can end


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
async def test_death_by_signal_is_128_and_the_signal(place: Place, number: int) -> None:
    exit = await place.jobs.ensure(place.job(f"kill -{number} $$"))
    assert (exit.ending, exit.exit) == ("exited", 128 + number)


@pytest.mark.parametrize(
    ("fields", "exit", "message"),
    [
        ({"argv": ("no-such-program",)}, 127, "No such file or directory: 'no-such-program'"),
        ({"argv": ("/no/such/program",)}, 127, "No such file or directory: '/no/such/program'"),
        ({"argv": ("/etc/passwd",)}, 126, "Permission denied: '/etc/passwd'"),
        ({"argv": ("passwd",), "environment": {"PATH": "/nowhere:/etc"}}, 126, "Permission denied: '/etc/passwd'"),
        ({"argv": ("/bin",)}, 126, "Permission denied: '/bin'"),
        ({"argv": ()}, 126, ""),
        ({"argv": ("/bin/echo", "nul\0")}, 126, "null byte"),
        ({"argv": ("/bin/true",), "environment": {"A=B": "c"}}, 126, "illegal environment variable name"),
        ({"argv": ("/bin/true",), "environment": {"A": "x" * 200_000}}, 126, "Argument list too long"),
        ({"argv": ("/bin/true",), "cwd": "/no/such/directory"}, 127, "No such file or directory: '/no/such/directory'"),
        ({"argv": ("/bin/true",), "cwd": "/etc/passwd"}, 127, "Not a directory"),
        ({"argv": ("/ü" * 5000,)}, 126, "File name too long"),
    ],
)
async def test_a_command_that_cannot_be_started_says_so(
    place: Place, fields: dict[str, Any], exit: int, message: str
) -> None:
    ended = await place.jobs.ensure(place.job("", **fields))
    assert (ended.ending, ended.exit) == ("unstartable", exit)
    assert message in ended.message
    assert place.jobs.output("job").read_bytes() == b""


async def test_the_wall_limit_ends_the_job(place: Place) -> None:
    exit = await place.jobs.ensure(place.job("exec sleep 1000", limits=Limits(wall_s=0.2)))
    assert (exit.ending, exit.exit, exit.ended) == ("wall", 128 + signal.SIGTERM, False)
    assert 0.2 <= exit.seconds < 5


async def test_a_limit_beyond_all_time_is_no_limit(place: Place) -> None:
    limits = Limits(wall_s=float("inf"), idle_s=1e18, output_bytes=1 << 80)
    assert (await place.jobs.ensure(place.job("sleep 0.1; exit 3", limits=limits))).exit == 3


@pytest.mark.spec("J3")
async def test_the_idle_limit_counts_from_the_last_output(place: Place) -> None:
    command = "for _ in 1 2 3 4; do echo tick; sleep 0.3; done; exec sleep 1000"
    exit = await place.jobs.ensure(place.job(command, limits=Limits(idle_s=0.8)))
    assert exit.ending == "idle"
    assert exit.seconds >= 0.9 + 0.8
    assert place.jobs.output("job").read_text() == "tick\n" * 4


async def test_standard_error_is_output_too_when_idleness_is_counted(place: Place) -> None:
    command = "for _ in 1 2 3 4; do echo tick >&2; sleep 0.3; done; exit 9"
    exit = await place.jobs.ensure(place.job(command, limits=Limits(idle_s=0.8), streams="apart"))
    assert (exit.ending, exit.exit) == ("exited", 9)


@pytest.mark.spec("J3")
async def test_a_flood_of_output_is_capped_to_the_byte_and_ends_the_job(place: Place) -> None:
    exit = await place.jobs.ensure(place.job("exec yes", limits=Limits(output_bytes=100_001)))
    assert (exit.ending, exit.ended) == ("output", False)
    assert place.jobs.output("job").read_bytes() == (b"y\n" * 50_001)[:100_001]


async def test_output_over_the_cap_is_never_taken_for_whole_though_the_process_ended_first(place: Place) -> None:
    exit = await place.jobs.ensure(place.job("printf 12345; exit 0", limits=Limits(output_bytes=4)))
    assert (exit.ending, place.jobs.output("job").read_text()) == ("output", "1234")
    whole = await place.jobs.ensure(place.job("printf 1234; exit 0", id="whole", limits=Limits(output_bytes=4)))
    assert whole.ending == "exited"


async def test_ten_megabytes_of_output_arrive_whole(place: Place) -> None:
    await place.jobs.ensure(place.job("seq 1 1400000"))
    lines = place.jobs.output("job").read_bytes().splitlines()
    assert (len(lines), lines[-1]) == (1_400_000, b"1400000")
    assert place.jobs.output("job").stat().st_size > 10_000_000


@pytest.mark.spec("J4")
async def test_a_pause_file_stops_the_clock_until_it_is_taken_away(place: Place) -> None:
    ready, gate = place.meeting("ready"), place.meeting("gate")
    place.of().mkdir(parents=True)
    (place.of() / "pause").touch()
    job = place.job(f"sleep 0.5; echo > {ready}; read _ < {gate}", limits=Limits(wall_s=0.2, idle_s=0.2))
    waiting = asyncio.create_task(place.jobs.ensure(job))
    await ready.heard()
    assert place.jobs.running("job")
    (place.of() / "pause").unlink()
    exit = await waiting
    assert exit.ending in ("wall", "idle")
    assert exit.seconds >= 0.5


@pytest.mark.spec("J4")
async def test_a_pause_in_the_middle_stops_the_clock(place: Place) -> None:
    ready = place.meeting("ready")
    waiting = asyncio.create_task(
        place.jobs.ensure(place.job(f"echo > {ready}; sleep 1.2; exit 3", limits=Limits(wall_s=1.0)))
    )
    await ready.heard()
    (place.of() / "pause").touch()
    exit = await waiting
    assert (exit.ending, exit.exit) == ("exited", 3)


# Nothing is left behind

STUBBORN = """(setsid sh -c 'trap "" TERM HUP INT; echo $$ > {ready}; exec sleep 1000' &)"""


async def test_cancel_leaves_no_descendant_though_it_left_its_session_and_ignores_the_request(place: Place) -> None:
    ready = place.meeting("ready")
    job = place.job(STUBBORN.format(ready=ready) + "; exec sleep 1000")
    waiting = asyncio.create_task(place.jobs.ensure(job))
    orphan = Seen(int(await ready.heard()))
    await place.jobs.cancel("job")
    assert orphan.dead()
    assert (place.of() / "exit.json").exists()
    exit = await waiting
    assert (exit.ending, exit.exit) == ("cancelled", 128 + signal.SIGTERM)
    assert exit.seconds < 4


async def test_cancel_kills_a_process_that_ignores_the_request_after_its_grace(place: Place) -> None:
    ready = place.meeting("ready")
    job = place.job(f"trap '' TERM; echo > {ready}; while :; do sleep 1000; done", limits=Limits(grace_s=0.3))
    waiting = asyncio.create_task(place.jobs.ensure(job))
    await ready.heard()
    asked = time.monotonic()
    await place.jobs.cancel("job")
    assert 0.3 <= time.monotonic() - asked < 4
    exit = await waiting
    assert (exit.ending, exit.exit) == ("cancelled", 128 + signal.SIGKILL)


async def test_cancel_is_noticed_where_no_inotify_is_left(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    change_program(
        monkeypatch,
        place.path / "deaf",
        "supervise",
        lambda text: text.replace('"inotify_init1"', '"inotify_add_watch"'),
    )
    ready = place.meeting("ready")
    waiting = asyncio.create_task(place.jobs.ensure(place.job(f"echo > {ready}; exec sleep 1000")))
    await ready.heard()
    await place.jobs.cancel("job")
    assert (await waiting).ending == "cancelled"


async def test_a_process_may_use_its_grace_to_say_its_last_words(place: Place) -> None:
    ready, never = place.meeting("ready"), place.meeting("never")
    job = place.job(f"trap 'echo bye; exit 0' TERM; echo > {ready}; read _ < {never} & wait")
    waiting = asyncio.create_task(place.jobs.ensure(job))
    await ready.heard()
    await place.jobs.cancel("job")
    exit = await waiting
    assert (exit.ending, exit.exit) == ("cancelled", 0)
    assert place.jobs.output("job").read_text() == "bye\n"


async def test_cancel_catches_a_process_that_forks_and_leaves_without_end(place: Place) -> None:
    ready = place.meeting("ready")
    hop = place.path / "hop.py"
    hop.write_text(
        "import os, sys, signal\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"os.write(os.open({str(ready)!r}, os.O_WRONLY), b'x')\n"
        "while True:\n"
        "    os.setsid() if os.getpid() != os.getsid(0) else None\n"
        "    if os.fork(): os._exit(0)\n"
        "    if os.fork() == 0: os._exit(0)\n"
    )
    job = place.job(f"{sys.executable} -I -S {hop} & exec sleep 1000", limits=Limits(grace_s=0.2))
    waiting = asyncio.create_task(place.jobs.ensure(job))
    await ready.heard()
    await place.jobs.cancel("job")
    assert (await waiting).ending == "cancelled"
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            assert str(hop).encode() not in (entry / "cmdline").read_bytes()
        except OSError:
            continue


async def test_what_a_process_leaves_behind_is_killed_and_does_not_hold_the_job_open(place: Place) -> None:
    ready = place.meeting("ready")
    relay = place.meeting("relay")
    job = place.job(STUBBORN.format(ready=ready) + f"; read _ < {relay}; echo done; exit 2")
    waiting = asyncio.create_task(place.jobs.ensure(job))
    orphan = Seen(int(await ready.heard()))
    relay.say()
    exit = await waiting
    assert (exit.ending, exit.exit) == ("exited", 2)
    assert orphan.dead()
    assert place.jobs.output("job").read_text() == "done\n"


async def test_cancel_of_an_unknown_or_ended_job_does_nothing(place: Place) -> None:
    await place.jobs.cancel("unknown")
    assert not place.root.exists()
    exit = await place.jobs.ensure(place.job("exit 3"))
    await place.jobs.cancel("job")
    assert await place.jobs.ensure(place.job("exit 3")) == exit


async def test_a_job_cancelled_before_it_starts_never_runs(place: Place) -> None:
    place.of().mkdir(parents=True)
    await place.jobs.cancel("job")
    exit = await place.jobs.ensure(place.job("echo x > ran"))
    assert (exit.ending, exit.exit) == ("cancelled", 128 + signal.SIGTERM)
    assert not (place.path / "ran").exists()


# Full disks


def exit_said_by(driver: "subprocess.Popen[str]") -> JobExit:
    return JobExit.model_validate_json(driver.communicate(timeout=60)[0])


@pytest.mark.spec("J5")
async def test_output_that_cannot_be_written_does_not_lose_the_exit(place: Place) -> None:
    def small_files_only() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 10, 64 << 10))

    job = place.job("head -c 1000000 /dev/zero; exit 5")
    exit = exit_said_by(place.elsewhere(job, preexec_fn=small_files_only))
    assert (exit.ending, exit.exit, exit.message) == ("exited", 5, "output was lost: File too large")
    assert place.jobs.output("job").stat().st_size == 64 << 10


@pytest.fixture
def tiny_disk(place: Place) -> Callable[[str, str], str]:
    """Runs a Python program whose jobs root is a disk of 1 MiB in a mount namespace of its own."""
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("mount namespaces are not allowed here")

    def run(program: str, job: str) -> str:
        place.root.mkdir(parents=True)
        mount = 'mount -t tmpfs -o size=1m none "$3" && exec "$0" "$@"'
        argv = ["unshare", "-rm", "sh", "-c", mount, sys.executable, "-c", program, str(place.root), job, ""]
        return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout

    return run


@pytest.mark.spec("J5")
async def test_a_disk_that_fills_up_does_not_lose_the_exit(place: Place, tiny_disk: Callable[[str, str], str]) -> None:
    job = place.job("head -c 10000000 /dev/zero; exit 5")
    exit = JobExit.model_validate_json(tiny_disk(DRIVER, job.model_dump_json()))
    assert (exit.ending, exit.exit, exit.message) == ("exited", 5, "output was lost: No space left on device")


async def test_output_after_a_loss_is_dropped_too_for_a_gap_would_look_whole(
    place: Place, tiny_disk: Callable[[str, str], str]
) -> None:
    job = place.job(f"head -c 1000000 /dev/zero; rm {place.root}/big; echo after")
    program = DRIVER.replace("print(", "(Path(root) / 'big').write_bytes(bytes(400_000))\nprint(")
    said = tiny_disk(
        program + "sys.stdout.flush()\nsys.stdout.buffer.write((Path(root) / 'job' / 'output').read_bytes()[-5:])",
        job.model_dump_json(),
    )
    exit, end = said.split("\n")
    assert JobExit.model_validate_json(exit).message == "output was lost: No space left on device"
    assert end == "\0" * 5


async def test_a_job_on_a_full_disk_is_not_started_and_can_be_tried_again(
    place: Place, tiny_disk: Callable[[str, str], str]
) -> None:
    filled = DRIVER.replace(
        "print(",
        "from resolvent.errors import StoreBusy\n"
        "big = Path(root) / 'big'\n"
        "jobs = SupervisedJobs(Path(root))\n"
        "asyncio.run(jobs.ensure(Job(id='warm', argv=('/bin/true',), cwd='/')))\n"
        "try:\n"
        "    with big.open('wb', buffering=0) as file:\n"
        "        while file.write(bytes(512)): pass\n"
        "except OSError: pass\n"
        "try: asyncio.run(jobs.ensure(Job.model_validate_json(job)))\n"
        "except StoreBusy as error: print(error.hint.split()[0])\n"
        "big.unlink()\nprint(",
    )
    job = place.job(f"echo x >> {place.path}/count; exit 5", stdin="a prompt")
    hint, exit = tiny_disk(filled, job.model_dump_json()).splitlines()
    assert hint == "df"
    assert JobExit.model_validate_json(exit).exit == 5
    assert (place.path / "count").read_text() == "x\n"
