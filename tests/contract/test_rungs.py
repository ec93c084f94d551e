"""The ladder on machines that really lack something: what is found, why no stronger rung, and what a person is told."""

import asyncio
import hashlib
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from resolvent.adapters.jobs.supervised import SupervisedJobs
from resolvent.adapters.workspace import lodger, probing
from resolvent.adapters.workspace.bubblewrap import Bubblewrap, discover
from resolvent.adapters.workspace.confine import Walls
from resolvent.adapters.workspace.files import remove_tree
from resolvent.adapters.workspace.remedies import Failure, Machine, Trouble, explain, filesystem
from resolvent.adapters.workspace.rungs import Rung, Trial, find, reasons
from resolvent.domain.job import Files, Job
from resolvent.errors import NoSandbox

OBSTACLES = Path(__file__).parents[1] / "obstacles.py"
ROOT = os.geteuid() == 0
# Whoever runs the tests, and somebody who is not root.
CALLERS = ((), ("person",)) if ROOT else ((),)
CLIMB = """
import asyncio, json, sys
from pathlib import Path
from resolvent.adapters.workspace.rungs import find
from resolvent.errors import NoSandbox
try:
    print(asyncio.run(find(Path(sys.argv[1]), wanted=sys.argv[2], path=sys.argv[3])).model_dump_json())
except NoSandbox as error:
    print(json.dumps({"refused": error.message, "hint": error.hint}))
"""


@dataclass(frozen=True)
class Ground:
    """A directory for one state, outside of pytest's own, which other users cannot enter."""

    top: Path

    @property
    def state(self) -> Path:
        return self.top / "state"

    def climb(self, *obstacles: str, wanted: str = "auto") -> dict[str, Any]:
        """What the ladder says behind these obstacles."""
        if "person" in obstacles:
            for path in (self.top, *self.top.rglob("*")):
                os.chown(path, 54321, 54321, follow_symlinks=False)
        command = [sys.executable, "-c", CLIMB, str(self.state), wanted, os.environ["PATH"]]
        environ = os.environ | {"RESOLVENT_HOME": str(self.state), "OBSTACLES": str(self.top)}
        words = [sys.executable, str(OBSTACLES), *obstacles, "--", *command]
        done = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout)
        if answer.get("name") == "memory":
            remove_tree(Path(answer["sandbox"]))
        assert not [place for place in Path("/dev/shm").glob("resolvent-*") if _of(place, self.state)]
        return answer


def _of(place: Path, state: Path) -> bool:
    """A directory in memory belongs to this state."""
    return place.name.endswith(hashlib.sha256(os.fsencode(state)).hexdigest()[:12])


@pytest.fixture
def ground() -> Iterator[Ground]:
    with tempfile.TemporaryDirectory(prefix="rungs ") as top:
        os.chmod(top, 0o755)
        (Path(top) / "state").mkdir()
        yield Ground(Path(top))
        # Overlays leave a directory that even its owner cannot enter.
        for left in Path(top).iterdir():
            remove_tree(left) if left.is_dir() else left.unlink()


@pytest.mark.spec("B15")
@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize(
    ("obstacles", "rung", "lacks"),
    [
        ((), "overlay", {}),
        (("system_bwrap_gone",), "overlay", {}),
        (("store_noexec",), "overlay", {}),
        (("store_on_overlay",), "memory", {"overlay": "overlayfs"}),
        (("store_on_overlay", "memory_narrow"), "copy", {"overlay": "overlayfs", "memory": "has 64 MB left"}),
        (("store_on_overlay", "memory_on_overlay"), "copy", {"overlay": "overlayfs", "memory": "overlayfs"}),
    ],
)
def test_the_strongest_rung_that_works_is_found(
    ground: Ground, caller: tuple[str, ...], obstacles: tuple[str, ...], rung: str, lacks: dict[str, str]
) -> None:
    found = ground.climb(*caller, *obstacles)
    assert found.get("name") == rung, found
    assert [trial["rung"] for trial in found["tried"]] == list(lacks)
    for trial in found["tried"]:
        assert lacks[trial["rung"]] in trial["why"] and trial["fix"] and not trial["works"]
    dropped = ROOT and not caller
    assert (found["user"] is not None) == dropped and found["user"] != 0


@pytest.mark.parametrize(
    ("obstacle", "why", "fix"),
    [
        ("namespaces_filtered", "seccomp filter forbids user namespaces", "--security-opt seccomp=unconfined"),
        ("namespaces_off", "user.max_user_namespaces is 0", "echo user.max_user_namespaces=15000 | sudo tee"),
        ("bwrap_gone", "bubblewrap is not installed", "apt-get install --yes bubblewrap"),
    ],
)
def test_without_namespaces_there_is_landlock_and_the_fix_is_told(
    ground: Ground, obstacle: str, why: str, fix: str
) -> None:
    found = ground.climb("person", obstacle)
    assert found.get("name") == "landlock" and found["bwrap"] is None and found["user"] is None, found
    assert [trial["rung"] for trial in found["tried"]] == ["overlay", "memory", "copy"]
    assert all(why in trial["why"] and fix in trial["fix"] for trial in found["tried"])


def test_auto_never_becomes_plain(ground: Ground) -> None:
    found = ground.climb("person", "namespaces_filtered", "landlock_filtered")
    assert "nothing on this machine can confine an agent: overlay, memory and copy: a secc" in found["refused"]
    assert "; landlock: " in found["refused"]
    assert "seccomp=unconfined" in found["hint"] and "--unsafe" in found["hint"]


@pytest.mark.parametrize(
    ("wanted", "obstacles", "why"),
    [
        ("overlay", ("store_on_overlay",), "overlayfs"),
        ("memory", ("memory_narrow",), "64 MB"),
        ("copy", ("namespaces_filtered",), "seccomp"),
        ("copy", ("store_noexec",), "noexec"),
        ("landlock", ("landlock_filtered",), "Landlock"),
        ("overlay", ("bwrap_gone",), "bubblewrap"),
    ],
)
def test_a_rung_that_was_asked_for_is_that_rung_or_none(
    ground: Ground, wanted: str, obstacles: tuple[str, ...], why: str
) -> None:
    found = ground.climb("person", *obstacles, wanted=wanted)
    assert found["refused"].startswith(f'sandbox.rung = "{wanted}" does not work here: ') and why in found["refused"]
    assert found["hint"] and "--unsafe" not in found["hint"]


@pytest.mark.parametrize("wanted", ["memory", "copy", "landlock"])
def test_a_weaker_rung_is_given_to_who_asks_for_it(ground: Ground, wanted: str) -> None:
    found = ground.climb("person", wanted=wanted)
    assert found.get("name") == wanted and found["tried"] == [], found


@pytest.mark.parametrize("caller", CALLERS)
def test_a_masked_proc_costs_the_box_its_proc_and_nothing_else(ground: Ground, caller: tuple[str, ...]) -> None:
    found = ground.climb(*caller, "proc_masked", "hostname_filtered")
    assert found.get("name") == "overlay" and found["proc"] is False, found
    (trial,) = found["tried"]
    assert trial["works"] and "/proc" in trial["why"] and "systempaths=unconfined" in trial["fix"]


async def test_a_box_without_proc_makes_no_namespaces_either(ground: Ground) -> None:
    rung = (await find(ground.state, wanted="copy", path=os.environ["PATH"])).model_copy(update={"proc": False})
    walls = rung.walls()
    assert walls is not None
    for name in ("tree", "private"):
        (ground.state / name).mkdir()
        walls.give(ground.state / name)
    for words in (("unshare", "--user", "true"), ("ls", "/proc/self"), ("true",)):
        job = Job(id=words[0], argv=words, environment={"PATH": "/usr/bin:/bin"})
        files = Files(tree=str(ground.state / "tree"))
        boxed = walls.around(job, files=files, private=str(ground.state / "private"), objects="")
        ended = await SupervisedJobs(ground.state / "jobs").ensure(boxed)
        assert ended.ending == "exited" and (ended.exit == 0) == (words == ("true",)), (words, ended)


@pytest.mark.parametrize("caller", CALLERS)
def test_the_wheel_stands_in_for_the_system(ground: Ground, caller: tuple[str, ...]) -> None:
    bwrap = ground.climb(*caller, "system_bwrap_gone")["bwrap"]
    assert bwrap["origin"] == "wheel" and bwrap["version"] == "0.11.0"


@pytest.mark.skipif(not ROOT, reason="needs root: it is about a root caller")
class TestARootCaller:
    """Jobs of root are never root's."""

    def test_jobs_run_as_a_number_of_the_state_that_nobody_has(self, ground: Ground) -> None:
        found = ground.climb()
        assert found["user"] == ground.climb()["user"] == lodger.jobs_user(ground.state)
        assert lodger.FIRST <= found["user"] <= lodger.LAST
        others = {lodger.jobs_user(ground.top / f"other-{number}") for number in range(20)}
        assert len(others) > 15

    def test_jobs_run_as_the_user_resolvent_where_there_is_one(self, ground: Ground) -> None:
        assert ground.climb("user_known")["user"] == 967

    @pytest.mark.parametrize("obstacle", ["user_shared", "user_root"])
    def test_a_user_resolvent_that_is_somebody_else_too_is_not_taken(self, ground: Ground, obstacle: str) -> None:
        assert lodger.FIRST <= ground.climb(obstacle)["user"] <= lodger.LAST

    def test_jobs_stay_who_they_were_so_that_branches_stay_theirs(self, ground: Ground) -> None:
        first = ground.climb()["user"]
        assert ground.climb("user_known")["user"] == first
        moved = ground.top / "moved"
        ground.state.rename(moved)
        assert lodger.jobs_user(moved) == first

    @pytest.mark.parametrize("kept", ["0", "65534", "1000", "-1", "", "x", "61184 ", "9" * 5000])
    def test_a_number_that_no_job_may_have_is_not_kept(self, ground: Ground, kept: str) -> None:
        (ground.state / "sandbox").mkdir()
        (ground.state / "sandbox/user").write_text(kept)
        number = lodger.jobs_user(ground.state)
        assert number is not None and lodger.FIRST <= number <= lodger.LAST

    def test_a_container_without_sys_admin_is_enough(self, ground: Ground) -> None:
        found = ground.climb("without_sys_admin")
        assert found.get("name") == "overlay" and lodger.FIRST <= found["user"] <= lodger.LAST, found

    def test_a_root_in_name_only_is_told_to_be_somebody_else(self, ground: Ground) -> None:
        found = ground.climb("without_capabilities")
        assert "you are root and may not become anybody else" in found["refused"]
        assert "--user 1000:1000" in found["hint"]

    def test_landlock_is_not_for_root(self, ground: Ground) -> None:
        found = ground.climb(wanted="landlock")
        assert "another user" in found["refused"] and "normal user" in found["hint"]


def test_a_root_with_nobody_else_around_is_told_to_be_somebody_else(ground: Ground) -> None:
    found = ground.climb("person", "fake_root")
    assert "no other user that jobs could run as" in found["refused"] and "normal user" in found["hint"]


async def remembered(state: Path, **more: Any) -> bool:
    """Does the ladder answer from memory? What it remembers is changed first, so that one can tell."""
    file = state / "sandbox/rung.json"
    kept = json.loads(file.read_text())
    kept["rung"]["tried"] = [{"rung": "overlay", "works": True, "why": "as remembered"}]
    file.write_text(json.dumps(kept))
    found = await find(state, wanted="copy", **more)
    return bool(found.tried)


async def test_the_answer_is_remembered_until_the_machine_changes(ground: Ground) -> None:
    tools = ground.top / "tools"
    tools.mkdir()
    real = await discover(os.environ["PATH"])
    assert isinstance(real, Bubblewrap)
    (tools / "bwrap").write_text(f'#!/bin/sh\nexec {real.path} "$@"\n')
    (tools / "bwrap").chmod(0o755)
    path = str(tools)
    assert (await find(ground.state, wanted="copy", path=path)).bwrap is not None
    assert await remembered(ground.state, path=path)
    assert not await remembered(ground.state, path=path, fresh=True)
    os.utime(tools / "bwrap", ns=(0, 0))
    assert not await remembered(ground.state, path=path)
    assert not await remembered(ground.state, path="/usr/bin:/bin:/nowhere")


@pytest.mark.parametrize("garbage", [b"", b"{", b"\xff\xfe", b'{"key": "x", "rung": {"name": "plain"}}', b"[]"])
async def test_a_memory_that_makes_no_sense_is_no_memory(ground: Ground, garbage: bytes) -> None:
    (ground.state / "sandbox").mkdir()
    (ground.state / "sandbox/rung.json").write_bytes(garbage)
    assert (await find(ground.state, wanted="copy", path="/usr/bin:/bin")).name == "copy"


async def test_a_probe_leaves_nothing_behind(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    (ground.top / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(ground.top / "tmp"))
    await find(ground.state, path=os.environ["PATH"])
    left = {path.name.partition("-")[0] for path in (ground.state / "sandbox").iterdir()}
    assert left - {"user"} == {"etc", "rung.json", "scratch"}
    assert [*(ground.state / "sandbox/scratch").iterdir(), *(ground.top / "tmp").iterdir()] == []
    assert (ground.state / "sandbox").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", [b"a space", b"new\nline", b"quote' \" $(x)", b"\xff\xfe", "ä".encode(), b"-rf"])
async def test_any_name_of_a_directory_will_do(ground: Ground, name: bytes) -> None:
    state = Path(os.fsdecode(os.fsencode(ground.state) + b"/" + name))
    state.mkdir(mode=0o700)
    found = await find(state, path=os.environ["PATH"])
    assert found.name == "overlay" and await find(state, path=os.environ["PATH"]) == found


async def test_plain_is_found_without_trying_anything(ground: Ground) -> None:
    found = await find(ground.state, wanted="plain")
    assert (found.name, found.kind, found.overlay, found.walls()) == ("plain", None, False, None)
    assert list((ground.state / "sandbox").iterdir()) == []


async def test_a_place_in_memory_that_somebody_prepared_is_not_used(ground: Ground, tmp_path: Path) -> None:
    place = Path((await find(ground.state, wanted="memory", path=os.environ["PATH"])).sandbox)
    assert place.stat().st_mode & 0o777 == 0o700
    remove_tree(place)
    for target in (tmp_path, tmp_path / "nowhere"):
        place.symlink_to(target)
        try:
            with pytest.raises(NoSandbox, match="is not ours"):
                await find(ground.state, wanted="memory", path=os.environ["PATH"])
        finally:
            place.unlink()
    assert list(tmp_path.iterdir()) == []


class NoWalls(Walls):
    """The mistake that a probe is there to notice: the job runs, and nothing is around it."""

    def around(self, job: Job, *, files: Files, private: str, objects: str) -> Job:
        return job.model_copy(update={"cwd": files.tree})

    def inside(self, private: str) -> str:
        return private


async def test_walls_that_are_not_there_are_noticed(tmp_path: Path) -> None:
    failure = await probing.attempt(NoWalls(kind="landlock"), tmp_path, layered=False)
    assert failure == Failure(kind="leaking", said="read a file outside")


async def test_a_way_to_the_network_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(probing, "SCRIPT", 'shift 2; ("$@") >/dev/null 2>&1 || true')
    failure = await probing.attempt(NoWalls(kind="landlock"), tmp_path, layered=False)
    assert failure == Failure(kind="leaking", said="reach the network")


async def test_a_probe_that_is_broken_off_leaves_no_job_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")
    monkeypatch.setattr(probing, "SCRIPT", f"echo $$ > {tmp_path}/gate; exec sleep 1000")
    probe = asyncio.create_task(probing.attempt(NoWalls(kind="landlock"), tmp_path / "sandbox", layered=False))
    job = os.pidfd_open(int(await asyncio.to_thread((tmp_path / "gate").read_text)))
    probe.cancel()
    await asyncio.gather(probe, return_exceptions=True)
    assert probe.cancelled() and select.select([job], [], [], 0)[0]
    assert list((tmp_path / "sandbox/scratch").iterdir()) == []
    os.close(job)


@pytest.mark.parametrize("reach", ["bash", "python"])
@pytest.mark.parametrize("port", ["tcp", "udp"])
def test_what_tries_the_network_would_get_there(reach: str, port: str) -> None:
    with probing.outside(NoWalls(kind="landlock")) as beyond, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nowhere = closed.getsockname()[1]
        tcp, udp = (listener.getsockname()[1] for listener in (beyond.tcp, beyond.udp))
        ports = [str(tcp if port == "tcp" else nowhere), str(udp if port == "udp" else nowhere)]
        bash = [str(shutil.which("bash")), "-c", probing.BASH, "bash"]
        words = bash if reach == "bash" else [sys.executable, "-I", "-S", "-c", probing.PYTHON]
        subprocess.run([*words, *ports], check=False, env={"WORD": beyond.word}, capture_output=True)
        assert beyond.touched("") == "reach the network"


def test_whatever_a_job_does_outside_is_noticed_out_there() -> None:
    with probing.outside(NoWalls(kind="landlock")) as beyond:
        assert beyond.touched("nothing happened") == ""
        assert beyond.touched(f"it says {beyond.secret}!") == "read a file outside"
        (beyond.place / "planted").touch()
        assert beyond.touched("") == "write a file outside"
    assert not beyond.place.exists()


def test_what_others_do_on_the_machine_is_not_held_against_the_walls() -> None:
    with probing.outside(NoWalls(kind="landlock")) as beyond, socket.socket(type=socket.SOCK_DGRAM) as udp:
        with (
            socket.create_connection(beyond.tcp.getsockname()),
            socket.create_connection(beyond.tcp.getsockname()) as two,
        ):
            two.sendall(b"who is there?")
            udp.sendto(b"hello", beyond.udp.getsockname())
            assert beyond.touched("") == ""
            udp.sendto(beyond.word.encode(), beyond.udp.getsockname())
            assert beyond.touched("") == "reach the network"
        assert beyond.place.stat().st_mode & 0o777 == 0o700


async def test_an_old_or_broken_bubblewrap_gives_way_to_the_wheel(tmp_path: Path) -> None:
    for text in ("echo bubblewrap 0.7.0", "echo bubblewrap", "exit 1", "kill -9 $$"):
        (tmp_path / "bwrap").write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "bwrap").chmod(0o755)
        found = await discover(str(tmp_path))
        assert isinstance(found, Bubblewrap) and found.origin == "wheel"
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho bubblewrap 0.8.0\n")
    found = await discover(str(tmp_path))
    assert isinstance(found, Bubblewrap) and (found.origin, found.version) == ("system", "0.8.0")


async def test_a_bubblewrap_that_never_ends_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resolvent.adapters.workspace.bubblewrap.find_spec", lambda _: None)
    monkeypatch.setattr("resolvent.adapters.workspace.bubblewrap.PATIENCE_S", 0.2)
    (tmp_path / "bwrap").write_text("#!/bin/sh\nexec sleep 1000\n")
    (tmp_path / "bwrap").chmod(0o755)
    found = await asyncio.wait_for(discover(str(tmp_path)), 20)
    assert isinstance(found, Trouble) and "does not run: it does not end" in found.why


async def test_an_old_bubblewrap_alone_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resolvent.adapters.workspace.bubblewrap.find_spec", lambda _: None)
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho bubblewrap 0.7.0\n")
    (tmp_path / "bwrap").chmod(0o755)
    found = await discover(str(tmp_path))
    assert isinstance(found, Trouble) and "is bubblewrap 0.7.0: 0.8 or newer is needed" in found.why


async def test_bubblewrap_is_not_taken_from_where_we_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho bubblewrap 9.9.9\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    for path in (".", "", ":", "./:", "../" + tmp_path.name):
        found = await discover(path)
        assert isinstance(found, Bubblewrap) and found.origin == "wheel"


SOUND = Machine(
    kernel=(6, 12), user_namespaces=9999, cloning=None, apparmor=None, filtered=False, capabilities=0, root=False
)
UNSHARE = Failure(kind="building", said="[Errno 1] Operation not permitted: 'unshare'")
HOSTNAME = Failure(kind="building", said="bwrap: Can't set hostname to box: Operation not permitted")
OVERLAY = Failure(kind="building", said="[Errno 22] Invalid argument: 'syscall'")


@pytest.mark.parametrize(
    ("failure", "machine", "why", "fix"),
    [
        (UNSHARE, replace(SOUND, apparmor=1), "AppArmor", "apparmor_parser -r /etc/apparmor.d/resolvent"),
        (UNSHARE, replace(SOUND, cloning=0), "kernel.unprivileged_userns_clone is 0", "_clone=1 | sudo tee"),
        (
            UNSHARE,
            replace(SOUND, user_namespaces=0, cloning=0),
            "max_user_namespaces is 0",
            "max_user_namespaces=15000",
        ),
        (UNSHARE, SOUND, "Operation not permitted", "unshare --user"),
        (UNSHARE, replace(SOUND, filtered=True), "a seccomp filter forbids user namespaces", "seccomp=unconfined"),
        (HOSTNAME, replace(SOUND, filtered=True), "may forbid this: bwrap: Can't set hostname", "seccomp=unconfined"),
        (OVERLAY, replace(SOUND, kernel=(5, 10)), "Linux 5.10 has no overlays without root: 5.11", "uname -r"),
        (OVERLAY, SOUND, "no branch can lie on proc", "RESOLVENT_HOME"),
        (Failure(kind="leaking", said="read a file outside"), SOUND, "the walls leak", "resolvent prove sandbox"),
        (Failure(kind="working", said="replace: rm: Input/output error"), SOUND, "could not replace", "RESOLVENT_HOME"),
    ],
)
def test_a_kernel_that_refuses_is_explained(failure: Failure, machine: Machine, why: str, fix: str) -> None:
    told = explain(failure, rung="overlay", store=Path("/proc"), machine=machine)
    assert why in told.why and fix in told.fix


@pytest.mark.parametrize(
    ("machine", "why"),
    [
        (replace(SOUND, kernel=(5, 12)), "Linux 5.12 has no Landlock: 5.13"),
        (replace(SOUND, filtered=True), "a seccomp filter forbids Landlock"),
        (SOUND, "Landlock does not work"),
    ],
)
def test_a_kernel_without_landlock_is_explained(machine: Machine, why: str) -> None:
    failure = Failure(kind="building", said="[Errno 38] this kernel has no Landlock")
    assert why in explain(failure, rung="landlock", store=Path("/"), machine=machine).why


def test_the_profile_for_apparmor_is_what_the_command_writes() -> None:
    fix = explain(UNSHARE, rung="overlay", store=Path("/"), machine=replace(SOUND, apparmor=1)).fix
    written = subprocess.run(["sh", "-c", fix.split(" | ")[0]], check=True, capture_output=True, text=True).stdout
    assert written == (
        "abi <abi/4.0>,\ninclude <tunables/global>\n"
        f'profile resolvent "{os.path.realpath(sys.executable)}" flags=(unconfined) {{\n  userns,\n}}\n'
    )


def test_switches_are_read_from_the_kernel(tmp_path: Path) -> None:
    for name, text in {
        "self/status": "Name:\tx\nSeccomp:\t2\nCapEff:\t00000000000000c0\n",
        "sys/kernel/osrelease": "5.15.0-generic\n",
        "sys/user/max_user_namespaces": "0\n",
        "sys/kernel/apparmor_restrict_unprivileged_userns": "1\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert Machine.look(tmp_path) == Machine(
        kernel=(5, 15), user_namespaces=0, cloning=None, apparmor=1, filtered=True, capabilities=0xC0, root=ROOT
    )


def test_a_filesystem_is_known_by_its_mount() -> None:
    assert filesystem(Path("/proc/self/fd")) == "proc"
    assert filesystem(Path("/dev/shm")) == "tmpfs"
    assert filesystem(Path("/proc/../dev/shm/not/there")) == "tmpfs"


def test_neighbours_with_the_same_trouble_are_told_as_one() -> None:
    tried = [Trial(rung=name, works=False, why="x") for name in ("overlay", "memory", "copy")]
    tried.append(Trial(rung="landlock", works=False, why="y"))
    assert [names for names, _ in reasons(tried)] == ["overlay, memory and copy", "landlock"]
    assert [names for names, _ in reasons(tried[:2])] == ["overlay and memory"]


async def test_two_who_look_at_once_both_find(ground: Ground) -> None:
    found = await asyncio.gather(*(find(ground.state, path=os.environ["PATH"]) for _ in range(3)))
    assert {rung.name for rung in found} == {"overlay"}
    assert Rung.model_validate(json.loads((ground.state / "sandbox/rung.json").read_text())["rung"]) in found
