"""A job in its box: how it begins, what it is given, how it ends; and what it may take."""

import asyncio
import fcntl
import http.server
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from resolvent.adapters.jobs import landlock
from resolvent.adapters.jobs.supervised import SupervisedJobs
from resolvent.adapters.workspace.bubblewrap import candidates
from resolvent.adapters.workspace.confine import Walls, furnish
from resolvent.domain.job import Files, Job, JobExit, Limits
from resolvent.errors import BranchBusy, JobLost, NoSandbox

from .boxed import trouble
from .programs import change_program, readable

pytestmark = pytest.mark.skipif(bool(trouble()), reason=f"no boxes here: {trouble()}")
USER = 61999 if os.geteuid() == 0 else None
needs_landlock = pytest.mark.skipif(landlock.abi() == 0, reason="this kernel has no Landlock")


class Place:
    """Two layers put together by hand, and boxes over them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sandbox = path / "sandbox"
        for layer in ("ground", "upper", "other"):
            for part in ("up", "wk"):
                (self.sandbox / "layers" / layer / part).mkdir(parents=True)
        (self.sandbox / "layers/ground/up/file").write_text("old\n")
        bwrap = candidates(os.environ["PATH"])[0][0]
        etc = furnish(self.sandbox, user=USER or os.getuid())
        self.walls = Walls(kind="namespaces", bwrap=bwrap, user=USER, etc=etc)
        self.walls.give(self.sandbox / "layers")
        self.jobs = SupervisedJobs(path / "jobs")
        self.started = 0

    def job(self, script: str, *, upper: str = "upper", walls: Walls | None = None, **more: object) -> Job:
        self.started += 1
        private = self.path / f"private {self.started}"
        for part in ("home", "tmp"):
            (private / part).mkdir(parents=True)
        job = Job(id=f"job{self.started}", argv=("/bin/sh", "-c", script), **more)  # type: ignore[arg-type]
        files = Files(layers=str(self.sandbox / "layers"), upper=upper, lowers=("ground",))
        return (walls or self.walls).around(job, files=files, private=str(private), objects="")

    async def run(self, script: str, **more: object) -> tuple[JobExit, str]:
        job = self.job(script, **more)  # type: ignore[arg-type]
        exit = await self.jobs.ensure(job)
        return exit, self.jobs.output(job.id).read_text()

    def shared(self) -> Path:
        made = self.path / "shared"
        made.mkdir(exist_ok=True)
        made.chmod(0o777)
        return made


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


async def test_a_job_sees_its_layers_as_one_tree_and_writes_only_to_the_upper(place: Place) -> None:
    exit, said = await place.run("pwd; cat file; echo new > file; mkdir made; rm -r made; id -u")
    assert (exit.ending, exit.exit) == ("exited", 0)
    assert said.split() == ["/workspace", "old", str(USER or os.getuid())]
    assert (place.sandbox / "layers/ground/up/file").read_text() == "old\n"
    assert (place.sandbox / "layers/upper/up/file").read_text() == "new\n"


@pytest.mark.spec("B13")
async def test_a_box_that_cannot_be_built_is_no_command_that_failed(place: Place) -> None:
    job = place.job("exit 1")
    assert job.box is not None
    broken = job.box.model_copy(update={"files": job.box.files.model_copy(update={"lowers": ("gone",)})})
    exit = await place.jobs.ensure(job.model_copy(update={"box": broken}))
    assert (exit.ending, exit.exit) == ("unstartable", 126)
    assert "the box cannot be built" in exit.message and "gone" in exit.message


@pytest.mark.spec("B13")
async def test_a_bubblewrap_that_fails_says_why(place: Place) -> None:
    fake = place.path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: no such luck' >&2\nexit 1\n")
    fake.chmod(0o755)
    exit, _ = await place.run("true", walls=replace(place.walls, bwrap=str(fake)))
    assert exit.ending == "unstartable" and "no such luck" in exit.message


async def test_a_program_that_is_not_there_ends_as_in_any_shell(place: Place) -> None:
    job = place.job("true").model_copy(update={"argv": ("no-such-program",)})
    exit = await place.jobs.ensure(job)
    assert (exit.ending, exit.exit) == ("exited", 127)


async def test_a_box_gets_the_prompt_but_not_the_file_it_is_kept_in(place: Place) -> None:
    exit, said = await place.run("cat; echo forged > /proc/self/fd/0; readlink /proc/self/fd/0", stdin="a prompt\n")
    assert said.startswith("a prompt\n") and "/jobs/" not in said, exit
    assert (place.path / "jobs/job1/stdin").read_text() == "a prompt\n"


@pytest.mark.spec("B9")
async def test_a_second_job_in_the_same_layer_is_not_started(place: Place) -> None:
    gate = place.shared() / "gate"
    os.mkfifo(gate)
    gate.chmod(0o666)
    first = place.job(f"read x < {gate}", writes=(str(place.shared()),))
    running = asyncio.create_task(place.jobs.ensure(first))
    held = await asyncio.to_thread(os.open, gate, os.O_WRONLY)
    late = place.job("echo late > file")
    for _ in range(2):
        with pytest.raises(BranchBusy, match="another job runs in this branch") as caught:
            await place.jobs.ensure(late)
        assert caught.value.hint and not place.jobs.running(late.id)
    os.close(held)
    await running
    # It had not begun, so it may begin now.
    assert (await place.jobs.ensure(late)).ending == "exited"
    assert (place.sandbox / "layers/upper/up/file").read_text() == "late\n"


async def test_a_job_whose_layer_was_sealed_before_it_began_may_begin_in_another(place: Place) -> None:
    late = place.job("echo late > file")
    layers = place.sandbox / "layers"
    (layers / "upper/wk").rename(layers / "upper/sealed")
    with pytest.raises(BranchBusy, match="sealed after the job was let in"):
        await place.jobs.ensure(late)
    assert late.box is not None and not (layers / "upper/up/file").exists()
    files = late.box.files.model_copy(update={"upper": "other", "lowers": ("upper", "ground")})
    again = late.model_copy(update={"box": late.box.model_copy(update={"files": files})})
    assert (await place.jobs.ensure(again)).ending == "exited"
    assert (layers / "other/up/file").read_text() == "late\n"
    assert await place.jobs.ensure(late) == await place.jobs.ensure(again)


async def test_a_job_that_was_kept_out_can_be_called_off(place: Place) -> None:
    late = place.job("true", upper="gone")
    with pytest.raises(BranchBusy):
        await place.jobs.ensure(late)
    await place.jobs.cancel(late.id)
    assert (await place.jobs.ensure(late)).ending == "cancelled"


async def test_a_cancelled_job_gets_its_grace_inside_and_leaves_nothing(place: Place) -> None:
    gate = place.shared() / "gate"
    os.mkfifo(gate)
    gate.chmod(0o666)
    script = f"trap 'echo tidied > tidy; exit 7' TERM; setsid sleep 1000 & echo here > {gate}; wait"
    job = place.job(script, writes=(str(place.shared()),))
    running = asyncio.create_task(place.jobs.ensure(job))
    assert await asyncio.to_thread(gate.read_text) == "here\n"
    inside = watched(place, job)
    assert any(b"sleep" in command for command in inside.values())
    await place.jobs.cancel(job.id)
    exit = await running
    assert (exit.ending, exit.exit) == ("cancelled", 7)
    assert (place.sandbox / "layers/upper/up/tidy").read_text() == "tidied\n"
    assert ended(inside) == list(inside)


async def test_a_killed_supervisor_takes_its_box_along(place: Place) -> None:
    gate = place.shared() / "gate"
    os.mkfifo(gate)
    gate.chmod(0o666)
    job = place.job(f"echo here > {gate}; sleep 1000", writes=(str(place.shared()),))
    running = asyncio.create_task(place.jobs.ensure(job))
    await asyncio.to_thread(gate.read_text)
    supervisor = json.loads((place.path / "jobs" / job.id / "started").read_text())["pid"]
    inside = [pid for pid in descendants_of(supervisor) if b"sleep" in command_of(pid)]
    watches = [os.pidfd_open(pid) for pid in inside]
    os.kill(supervisor, signal.SIGKILL)
    with pytest.raises(JobLost):
        await running
    assert inside
    for watch in watches:
        await asyncio.wait_for(readable(watch), 10)


async def test_boxes_of_one_user_do_not_share_their_number_of_processes(place: Place) -> None:
    few = Limits(processes=40)
    script = "i=0; while [ $i -lt 20 ]; do sleep 0.5 & i=$((i+1)); done; wait; echo all"
    uppers = ("upper", "other")
    ended = await asyncio.gather(*(place.run(script, upper=upper, limits=few) for upper in uppers))
    assert [said for _, said in ended] == ["all\n", "all\n"]


BOMB = """exec python3 -c '
import os, time
made = 0
try:
    while made < 200:
        if os.fork() == 0: time.sleep(1000)
        made += 1
except BlockingIOError: pass
print(made)'"""


async def test_a_fork_bomb_stays_in_its_box(place: Place) -> None:
    exit, said = await place.run(BOMB, limits=Limits(processes=50, wall_s=20))
    assert 10 < int(said) < 50, exit


@pytest.mark.parametrize(
    ("limits", "script", "ending"),
    [
        (Limits(disk_bytes=32 << 20), "while :; do head -c 8000000 /dev/zero >> many$((n=n+1)); done", "disk"),
        (
            Limits(memory_bytes=96 << 20),
            "exec python3 -c 'x = []\nwhile True: x.append(bytearray(1 << 20))'",
            "memory",
        ),
    ],
)
async def test_a_job_that_takes_too_much_is_ended_and_told_apart(
    place: Place, limits: Limits, script: str, ending: str
) -> None:
    exit, _ = await place.run(script, limits=limits.model_copy(update={"wall_s": 30}))
    assert exit.ending == ending


@pytest.fixture
def website(tmp_path: Path) -> Iterator[int]:
    """A server of the host's own, on loopback."""

    class Site(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"from the host\n")

        def log_message(self, *_: object) -> None: ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


FETCH = """python3 -c '
import sys, urllib.request, urllib.error
for address in sys.argv[1:]:
    try: print(urllib.request.urlopen(address, timeout=5).read().decode().strip())
    except urllib.error.HTTPError as error: print(error.code)
    except urllib.error.URLError as error: print(type(error.reason).__name__)
' """


@pytest.mark.spec("B12")
async def test_only_what_the_allow_list_names_is_reached(place: Place, website: int) -> None:
    addresses = f"http://127.0.0.1:{website}/ http://127.0.0.2:{website}/"
    _, said = await place.run(FETCH + addresses)
    assert said.split("\n")[:2] == ["ConnectionRefusedError", "ConnectionRefusedError"], "no network at all by default"
    walls = replace(place.walls, network=(f"private!127.0.0.1:{website}",))
    job = place.job(FETCH + addresses, walls=walls)
    await place.jobs.ensure(job)
    assert place.jobs.output(job.id).read_text().split("\n")[:2] == ["from the host", "403"]
    assert f"refused 127.0.0.2:{website}" in (place.path / "jobs" / job.id / "network").read_text()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can lose what root has")
async def test_root_without_the_power_to_mount_still_gets_a_box(place: Place) -> None:
    job = place.job("id -u; echo new > file").model_dump_json()
    program = (
        "import asyncio, sys; from pathlib import Path\n"
        "from resolvent.adapters.jobs.supervised import SupervisedJobs; from resolvent.domain.job import Job\n"
        "job = Job.model_validate_json(sys.argv[2]); jobs = SupervisedJobs(Path(sys.argv[1]))\n"
        "print(asyncio.run(jobs.ensure(job)).ending, jobs.output(job.id).read_text())\n"
    )
    words = ["setpriv", "--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin", sys.executable, "-c", program]
    said = await asyncio.to_thread(
        subprocess.run, [*words, str(place.path / "jobs"), job], capture_output=True, text=True, check=True
    )
    assert said.stdout.split() == ["exited", str(USER)]


async def test_a_kernel_that_takes_layers_only_in_one_string_shows_the_same(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_program(
        monkeypatch, place.path / "older", "launch", lambda text: text.replace('b"lowerdir+"', 'b"unheard-of"')
    )
    exit, said = await place.run("cat file; rm file; mkdir file; grep -o userxattr /proc/self/mountinfo")
    assert (exit.exit, said) == (0, "old\nuserxattr\n")


async def test_a_damaged_layer_is_an_error_and_not_a_loop(place: Place) -> None:
    with pytest.raises(BranchBusy, match="its layer cannot be held"):
        await place.jobs.ensure(place.job("true", upper="gone"))
    (place.sandbox / "layers/other/up").rmdir()
    with pytest.raises(BranchBusy, match="its layer cannot be held"):
        await place.jobs.ensure(place.job("true", upper="other"))


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def watched(place: Place, job: Job) -> dict[int, bytes]:
    """Descriptors of all that the supervisor of a job started, each with its command line."""
    supervisor = json.loads((place.path / "jobs" / job.id / "started").read_text())["pid"]
    return {os.pidfd_open(pid): command_of(pid) for pid in descendants_of(supervisor)}


def locked(path: Path) -> bool:
    """Somebody has it; to try would be to have it."""
    return f":{path.stat().st_ino} 0 EOF" in Path("/proc/locks").read_text()


def ended(watches: dict[int, bytes]) -> list[int]:
    """Those of them that are no more."""
    return select.select(list(watches), [], [], 0)[0]


def descendants_of(pid: int) -> list[int]:
    found, todo = [], [pid]
    while todo:
        one = todo.pop()
        for children in Path(f"/proc/{one}/task").glob("*/children"):
            below = [int(child) for child in children.read_text().split()]
            found += below
            todo += below
    return found


async def test_a_box_that_never_begins_can_be_cancelled_and_has_no_more_time_than_others(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It is told of a cancel by the kernel and does not look for one now and then.
    change_program(
        monkeypatch,
        place.path / "patient",
        "supervise",
        lambda text: text.replace("UNWATCHED_S = 1.0", "UNWATCHED_S = 1e4"),
    )
    stuck = place.path / "bwrap"
    stuck.write_text("#!/bin/sh\nexec sleep 1000\n")
    stuck.chmod(0o755)
    walls = replace(place.walls, bwrap=str(stuck))
    exit, _ = await place.run("true", walls=walls, limits=Limits(wall_s=0.5, grace_s=0.1))
    assert (exit.ending, exit.message) == ("wall", "it had not begun yet")
    job = place.job("true", walls=walls, limits=Limits(grace_s=0.1))
    running = asyncio.create_task(place.jobs.ensure(job))
    while not (place.path / "jobs" / job.id / "started").exists() or not (inside := watched(place, job)):
        await asyncio.sleep(0)
    await place.jobs.cancel(job.id)
    assert (await running).ending == "cancelled"
    assert ended(inside) == list(inside)


async def test_what_bubblewrap_forked_and_has_not_bound_to_itself_yet_dies_with_the_supervisor_too(
    place: Place,
) -> None:
    # As when it is killed between the fork of its child and the child's wish to die with it.
    forking = place.path / "bwrap"
    forking.write_text("#!/bin/sh\nsetsid sleep 1000 &\nwait\n")
    forking.chmod(0o755)
    job = place.job("true", walls=replace(place.walls, bwrap=str(forking)))
    running = asyncio.create_task(place.jobs.ensure(job))
    started, inside = place.path / "jobs" / job.id / "started", dict[int, bytes]()
    while not any(b"sleep" in command for command in inside.values()):
        await asyncio.sleep(0)
        inside = watched(place, job) if started.exists() else {}
    os.kill(json.loads(started.read_text())["pid"], signal.SIGKILL)
    with pytest.raises(JobLost):
        await running
    for watch in inside:
        await asyncio.wait_for(readable(watch), 10)


async def test_no_link_that_a_job_left_shows_a_later_one_more_of_the_host(place: Place) -> None:
    secret = place.path / "secret"
    secret.mkdir()
    (secret / "key").write_text("a secret\n")
    tools = place.shared() / "bin"
    tools.mkdir()
    seen = {"reads": (str(tools),), "writes": (str(place.shared()),)}
    if USER:
        os.chown(tools, USER, USER)
    exit, _ = await place.run(f"rmdir {tools} && ln -s {secret} {tools}", **seen)
    assert exit.exit == 0 and tools.is_symlink()
    exit, said = await place.run(f"cat {tools}/key {secret}/key", **seen)
    assert exit.exit != 0 and "a secret" not in said
    way = place.path / "way"
    way.symlink_to(tools)
    for reads in (str(way), str(tools)):
        # Another agent's place, or a way through it: only a person can say what is meant.
        with pytest.raises(NoSandbox, match="leads through a place that jobs may write"):
            place.job("true", reads=(reads,), walls=replace(place.walls, written=(str(place.shared()),)))


@pytest.mark.skipif(USER is None, reason="only root has another user's files to give")
async def test_root_with_a_narrow_mask_shows_its_boxes_a_readable_etc(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        place = Place(tmp_path)
    finally:
        os.umask(before)
    exit, said = await place.run("cat /etc/passwd && ls /etc/ssl")
    assert exit.exit == 0 and "agent:x:" in said


@pytest.mark.skipif(USER is None, reason="only root gives files away")
def test_giving_a_directory_away_follows_no_link_that_was_put_into_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, ours = place.path / "given", place.path / "ours"
    for directory in (given / "home", ours):
        directory.mkdir(parents=True)
    real = os.chown

    def chown(*arguments: object, **more: object) -> None:
        # As a job would that somebody else let in already.
        if (given / "home").is_dir() and not (given / "home").is_symlink():
            (given / "home").rename(given / "moved")
            (given / "home").symlink_to(ours)
        real(*arguments, **more)  # type: ignore[arg-type]

    (given / "home" / "file").touch()
    (ours / "file").touch()
    monkeypatch.setattr(os, "chown", chown)
    place.walls.give(given)
    assert ours.stat().st_uid == (ours / "file").stat().st_uid == 0


async def test_a_copy_lets_one_job_in_at_a_time_too(place: Place) -> None:
    gate = place.shared() / "gate"
    os.mkfifo(gate)
    gate.chmod(0o666)
    tree = place.path / "branch/files"
    tree.mkdir(parents=True)
    place.walls.give(tree)
    jobs = [place.job(script, writes=(str(place.shared()),)) for script in (f"read x < {gate}", "true")]
    first, late = (
        job.model_copy(update={"box": job.box.model_copy(update={"files": Files(tree=str(tree))})})
        for job in jobs
        if job.box
    )
    running = asyncio.create_task(place.jobs.ensure(first))
    held = await asyncio.to_thread(os.open, gate, os.O_WRONLY)
    with pytest.raises(BranchBusy, match="another job runs in this branch"):
        await place.jobs.ensure(late)
    os.close(held)
    await running
    assert (await place.jobs.ensure(late)).ending == "exited"


async def test_a_look_at_a_layer_keeps_no_job_out(place: Place) -> None:
    looking = os.open(place.sandbox / "layers/upper", os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    running = asyncio.create_task(place.jobs.ensure(place.job("true")))
    # Until it has what only jobs lock, and waits for the rest.
    async with asyncio.timeout(10):
        while not locked(place.sandbox / "layers/upper/up"):
            await asyncio.sleep(0)
    os.close(looking)
    assert (await running).ending == "exited"


async def test_what_lies_in_etc_can_be_shown(place: Place) -> None:
    names = [one for one in Path("/etc").iterdir() if not (Path(place.walls.etc) / one.name).exists()]
    open_to_all = [one for one in names if not one.is_symlink() and one.stat().st_mode & 0o004]
    file = next(one for one in open_to_all if one.is_file())
    directory = next(one for one in open_to_all if one.is_dir() and one.stat().st_mode & 0o001)
    exit, said = await place.run(f"cat {file}; ls {directory}", reads=(str(file), str(directory)))
    assert (exit.ending, exit.exit) == ("exited", 0)
    assert said.startswith(file.read_text()) and sorted(said.split()[len(file.read_text().split()) :]) == sorted(
        name for name in os.listdir(directory) if not name.startswith(".")
    )


@pytest.mark.parametrize("odd", [{"environment": {"A": "b\0--bind\0/\0/mnt"}}, {"cwd": "/workspace\0--share-net"}])
async def test_a_nul_adds_no_word_to_what_bubblewrap_is_told(place: Place, odd: dict[str, object]) -> None:
    exit, _ = await place.run("ls /mnt", **odd)
    assert (exit.ending, exit.exit) == ("unstartable", 126)
    assert "NUL" in exit.message and "--" not in exit.message


async def test_layers_that_an_older_kernel_would_cut_off_are_refused(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_program(
        monkeypatch, place.path / "older", "launch", lambda text: text.replace('b"lowerdir+"', 'b"unheard-of"')
    )
    job = place.job("true")
    assert job.box is not None
    lowers = tuple(f"{number:0100}" for number in range(60))
    for name in lowers:
        (place.sandbox / "layers" / name / "up").mkdir(parents=True)
    files = job.box.files.model_copy(update={"lowers": lowers})
    exit = await place.jobs.ensure(job.model_copy(update={"box": job.box.model_copy(update={"files": files})}))
    assert exit.ending == "unstartable" and "60 layers are too many for this kernel" in exit.message


# Walls without namespaces


@pytest.fixture
def open_place() -> Iterator[Path]:
    """Below a directory that every user may pass through."""
    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o711)
        yield Path(top)


def behind_landlock(top: Path, script: str, *, network: tuple[str, ...] = (), **more: object) -> Job:
    tree, private = top / "tree", top / "private"
    walls = Walls(kind="landlock", user=USER, network=network)
    for directory in (tree, private / "home", private / "tmp"):
        directory.mkdir(parents=True)
    walls.give(tree)
    job = Job(id="plain", argv=("/bin/sh", "-c", script), **more)  # type: ignore[arg-type]
    return walls.around(job, files=Files(tree=str(tree)), private=str(private), objects="")


@needs_landlock
async def test_a_job_behind_walls_without_namespaces_gets_its_grace_too(place: Place, open_place: Path) -> None:
    script = "trap 'echo tidied; exit 7' TERM; sleep 1000 & echo here > gate; wait"
    job = behind_landlock(open_place, script, limits=Limits(grace_s=20))
    gate = open_place / "tree/gate"
    os.mkfifo(gate)
    gate.chmod(0o666)
    running = asyncio.create_task(place.jobs.ensure(job))
    assert await asyncio.to_thread(gate.read_text) == "here\n"
    await place.jobs.cancel(job.id)
    assert ((await running).ending, (await running).exit) == ("cancelled", 7)
    assert place.jobs.output(job.id).read_text() == "tidied\n"


@needs_landlock
@pytest.mark.skipif(USER is None, reason="our own processes are too many to be told apart")
async def test_what_a_user_runs_anyway_takes_nothing_from_a_job_without_namespaces(
    place: Place, open_place: Path
) -> None:
    threads = "import threading, time\nfor _ in range(60): threading.Thread(target=time.sleep, args=(1000,)).start()\n"
    beside = subprocess.Popen(
        ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "/usr/bin/python3", "-c", threads],
        stdout=subprocess.PIPE,
    )
    try:
        while len(os.listdir(f"/proc/{beside.pid}/task")) < 61:
            await asyncio.sleep(0)
        exit = await place.jobs.ensure(behind_landlock(open_place, BOMB, limits=Limits(processes=40, wall_s=20)))
        assert 10 < int(place.jobs.output("plain").read_text()) <= 40, exit
    finally:
        beside.kill()
        beside.communicate()


@needs_landlock
async def test_walls_without_namespaces_have_no_proxy_that_nobody_could_use(place: Place, open_place: Path) -> None:
    job = behind_landlock(open_place, "env", network=("example.org:443",))
    assert (await place.jobs.ensure(job)).exit == 0
    assert "proxy" not in place.jobs.output("plain").read_text().lower()
    assert not (place.path / "jobs/plain/network").exists()


@needs_landlock
async def test_a_killed_supervisor_without_namespaces_leaves_nothing_that_a_look_does_not_end(
    place: Place, open_place: Path
) -> None:
    job = behind_landlock(open_place, "sleep 1000 & echo here > gate; wait")
    gate = open_place / "tree/gate"
    os.mkfifo(gate)
    gate.chmod(0o666)
    running = asyncio.create_task(place.jobs.ensure(job))
    await asyncio.to_thread(gate.read_text)
    inside = watched(place, job)
    assert any(b"sleep" in command for command in inside.values())
    os.kill(json.loads((place.path / "jobs/plain/started").read_text())["pid"], signal.SIGKILL)
    with pytest.raises(JobLost):
        await running
    assert ended(inside) == list(inside)
