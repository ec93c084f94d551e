"""A cgroup of its own for each box, as the kernel of this machine gives it."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract.bounds_stage import HOG, JOBS, MIB, begin, needs_root, waiting

from resolvent.adapters.jobs import cgroup

BOMB = """
import os, time
made = 0
try:
    while made < 500:
        if os.fork() == 0:
            time.sleep(60)
        made += 1
except OSError:
    pass
print(made, flush=True)
"""


@pytest.fixture
def group() -> Iterator[cgroup.Membership]:
    made = cgroup.enter("test", memory=64 * MIB, processes=20, cpus=0.5)
    if made is None:
        pytest.skip("no cgroup may be made below our own here")
    yield made
    made.remove()


def bounded(group: cgroup.Membership, code: str) -> "subprocess.Popen[str]":
    """A program that begins when it is in the group."""
    process = waiting(code)
    group.join(process.pid)
    begin(process)
    return process


def test_a_memory_hog_is_killed_at_the_limit_and_the_alarm_rings(group: cgroup.Membership) -> None:
    if "memory" not in group.bounds:
        pytest.skip("no memory controller may be used here")
    assert not group.oom_killed()
    with bounded(group, HOG) as hog:
        assert hog.wait(timeout=60) == -signal.SIGKILL
    assert group.oom_killed()
    assert group.alarm < 0 or os.eventfd_read(group.alarm) > 0


def test_a_kill_that_does_not_end_the_job_rings_the_alarm_once_it_is_done(group: cgroup.Membership) -> None:
    if group.alarm < 0:
        pytest.skip("only version 1 has an alarm")
    below = f"import os, time\nif os.fork() == 0:\n    {HOG.replace(chr(10), chr(10) + '    ')}\ntime.sleep(60)"
    with bounded(group, below) as job:
        while not group.oom_killed():
            assert select.select([group.alarm], [], [], 30)[0], "nobody would look again"
            os.eventfd_read(group.alarm)
        assert job.poll() is None
        os.killpg(job.pid, signal.SIGKILL)


def test_an_alarm_that_cannot_be_had_leaves_no_descriptor(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")
    assert cgroup._bell(str(tmp_path)) == -1
    assert os.listdir("/proc/self/fd") == before


@needs_root
def test_a_group_of_version_2_is_removed_as_soon_as_its_last_process_is_gone() -> None:
    own = cgroup.places(Path("/proc/self/cgroup").read_text(), Path("/proc/self/mountinfo").read_text()).get("", "")
    if not own:
        pytest.skip("no version 2 here")
    place = Path(own, f"resolvent-emptied.{os.getpid()}")
    place.mkdir()
    # Much to give back, so that it is not gone at once.
    with waiting("held = b'x' * (256 << 20)\nprint('full', flush=True)\ninput()") as process:
        (place / "cgroup.procs").write_text(str(process.pid))
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        process.stdout.readline()
        process.kill()
        cgroup.Membership({"processes": str(place)}).remove()
        assert not place.exists()


def test_a_fork_bomb_stops_at_the_limit(group: cgroup.Membership) -> None:
    if "processes" not in group.bounds:
        pytest.skip("no pids controller may be used here")
    with bounded(group, BOMB) as bomb:
        assert bomb.stdout is not None
        assert int(bomb.stdout.readline()) == 19
        os.killpg(bomb.pid, signal.SIGKILL)


def test_a_removed_cgroup_leaves_nothing_and_takes_those_of_dead_supervisors_along(group: cgroup.Membership) -> None:
    orphan = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(JOBS)!r})\nimport cgroup\n"
         "print(*cgroup.enter('orphan', memory=None, processes=5, cpus=None)._groups, sep='\\n')"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    left = orphan.stdout.split()
    assert left
    assert all(Path(place).is_dir() for place in left)
    group.remove()
    assert not any(Path(place).exists() for place in (*left, *group._groups))


def test_a_process_is_only_ever_put_below_the_cgroup_we_are_in(group: cgroup.Membership) -> None:
    before = dict(line.split(":")[1:] for line in Path("/proc/self/cgroup").read_text().splitlines())
    with bounded(group, "print(open('/proc/self/cgroup').read())") as inside:
        assert inside.stdout is not None
        after = dict(line.split(":")[1:] for line in inside.stdout.read().split())
    moved = {name: path for name, path in after.items() if path != before[name]}
    assert len(moved) == len(group._groups)
    assert all(path.startswith(before[name].rstrip("/") + "/resolvent-test.") for name, path in moved.items())


def test_our_place_is_found_for_each_version_and_through_a_partial_mount() -> None:
    modern = "25 1 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"
    assert cgroup.places("0::/user.slice/a b\n", modern) == {"": "/sys/fs/cgroup/user.slice/a b"}
    assert cgroup.places("0::/\n", modern) == {"": "/sys/fs/cgroup"}
    legacy = (
        "30 1 0:30 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n"
        "31 1 0:31 / /mnt/with\\040blank rw shared:9 - cgroup cgroup rw,memory\n"
    )
    said = "4:memory:/x:y\n3:cpu,cpuacct:/docker/abc/inner\n2:pids:/\n1:name=systemd:/\n"
    assert cgroup.places(said, legacy) == {
        "memory": "/mnt/with blank/x:y",
        "cpu": "/sys/fs/cgroup/cpu,cpuacct/inner",
        "cpuacct": "/sys/fs/cgroup/cpu,cpuacct/inner",
    }
    assert "cpu" not in cgroup.places("3:cpu,cpuacct:/docker/abcdef\n", legacy)


def test_in_the_leaf_for_everyone_else_child_groups_are_made_beside_it(tmp_path: Path) -> None:
    """Path logic only, on plain files: that the kernel agrees is for a machine with version 2 to show."""
    (tmp_path / cgroup.OUTSIDE).mkdir()
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids\n")
    (tmp_path / "cgroup.subtree_control").write_text("memory pids\n")
    place = f"{tmp_path}/{cgroup.OUTSIDE}"
    assert cgroup.handed(place, {"memory", "pids"}) == (str(tmp_path), {"memory", "pids"})
    assert cgroup.handed("", {"memory"}) == ("", set())


def test_a_name_that_would_leave_the_directory_is_refused() -> None:
    with pytest.raises(ValueError, match="not the name"):
        cgroup.enter("../../x", memory=1, processes=None, cpus=None)


@needs_root
def test_controllers_of_version_2_are_handed_down_only_where_the_group_was_delegated() -> None:
    """Live, with the controller this machine has left for version 2."""
    own = cgroup.places(Path("/proc/self/cgroup").read_text(), Path("/proc/self/mountinfo").read_text()).get("", "")
    offered = Path(own, "cgroup.controllers").read_text().split() if own else []
    active = Path(own, "cgroup.subtree_control").read_text().split() if own else []
    if not active and (not offered or os.path.exists(f"{own}/cgroup.type")):
        pytest.skip("no controller of version 2 is left for a group of ours")
    controller = (active or offered)[0]
    base = f"{own}/resolvent-delegated.{os.getpid()}"
    ask = f"import sys; sys.path.insert(0, {str(JOBS)!r})\nimport cgroup\n"
    ask += f"print(cgroup.handed({base!r}, {{{controller!r}}}))"
    os.mkdir(base)
    try:
        if not active:
            Path(own, "cgroup.subtree_control").write_text(f"+{controller}")

        def asked() -> str:
            with waiting(ask) as process:
                Path(base, "cgroup.procs").write_text(str(process.pid))
                begin(process)
                assert process.stdout is not None
                return process.stdout.read().strip()

        assert asked() == str((base, set()))
        os.setxattr(base, "trusted.delegate", b"1")
        assert asked() == str((base, {controller}))
        assert Path(base, "cgroup.subtree_control").read_text().split() == [controller]
    finally:
        if Path(base, cgroup.OUTSIDE).exists():
            os.rmdir(f"{base}/{cgroup.OUTSIDE}")
        os.rmdir(base)
        if not active:
            Path(own, "cgroup.subtree_control").write_text(f"-{controller}")
