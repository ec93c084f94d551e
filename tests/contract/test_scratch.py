"""Unfinished things belong to who holds them, wherever that process is; what nobody holds is removed."""

import errno
import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.contract.boxed import trouble

from resolvent.adapters.workspace import scratch
from resolvent.adapters.workspace.scratch import Scratch, clear_away

HOLDER = """
import sys
from pathlib import Path
from resolvent.adapters.workspace.scratch import Scratch
with Scratch(Path(sys.argv[1]))() as fresh:
    (fresh / "unfinished").write_text("x")
    print(fresh, flush=True)
    sys.stdin.readline()
"""


def swept(place: Path) -> list[str]:
    """What is there after somebody else came by."""
    with Scratch(place)() as mine:
        return [left.name for left in place.iterdir() if left != mine]


@pytest.mark.skipif(bool(trouble()), reason=trouble())
def test_what_a_process_in_another_pid_namespace_makes_is_left_alone_until_it_died(tmp_path: Path) -> None:
    place = tmp_path / "scratch"
    beyond = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child"]
    holder = subprocess.Popen(
        [*beyond, sys.executable, "-c", HOLDER, place], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout and holder.stdin
    fresh = Path(holder.stdout.readline().strip())
    # Its maker is process 1 where it lives, which here is somebody else; and what it makes bears no such name.
    for name in (f"{os.getpid()}-left", "1-left"):
        (place / name).mkdir()
    assert swept(place) == [fresh.name] and (fresh / "unfinished").exists()
    holder.kill()
    # Its child has the other end of this until it is gone.
    assert holder.stdout.read() == ""
    holder.communicate()
    assert swept(place) == []


def test_what_is_made_at_the_moment_of_a_sweep_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, real, times = tmp_path / "scratch", scratch.locked, []

    def locked(directory: int, **more: bool) -> bool | None:
        times.append(directory)
        if len(times) == 1:
            clear_away(Path(os.readlink(f"/proc/self/fd/{directory}")))
        return real(directory, **more)

    with monkeypatch.context() as patched:
        patched.setattr(scratch, "locked", locked)
        making = Scratch(place)()
        fresh = making.__enter__()
    assert fresh.is_dir() and swept(place) == [fresh.name]
    making.__exit__(None, None, None)
    assert not fresh.exists()


def test_two_who_clear_the_same_away_do_not_disturb_each_other(tmp_path: Path) -> None:
    failures: list[BaseException] = []

    def clear(left: Path) -> None:
        try:
            clear_away(left)
        except OSError as error:
            failures.append(error)

    for number in range(30):
        left = tmp_path / str(number)
        (left / "/".join("d" * 20)).mkdir(parents=True)
        for name in range(20):
            (left / f"d/{name}").touch()
        both = [threading.Thread(target=clear, args=(left,)) for _ in range(2)]
        for one in both:
            one.start()
        for one in both:
            one.join()
        assert not left.exists()
    assert failures == []


def test_where_directories_have_no_locks_nothing_is_taken_from_anybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(fd: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    place = tmp_path / "scratch"
    (place / "left").mkdir(parents=True)
    assert swept(place) == ["left"]
    assert [left.name for left in place.iterdir()] == ["left"]
