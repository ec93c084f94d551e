"""The watchdog, and programs that take too much and hide it."""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.contract.bounds_stage import HOG, JOBS, MIB

from resolvent.adapters.jobs import counting, spawning, watch

FILL = "with open('large', 'wb', 0) as file:\n    while True: file.write(b'x' * (1 << 20))"
FILL_WITHOUT_NAME = """
import os
kept = []
while True:
    kept.append(open("file", "wb", 0))
    os.unlink("file")
    for _ in range(8):
        kept[-1].write(b"x" * (1 << 20))
"""
FILL_MAPPED = """
import mmap, os
kept = []
while True:
    with open("file", "w+b", 0) as file:
        os.unlink("file")
        for _ in range(8):
            file.write(b"x" * (1 << 20))
        kept.append(mmap.mmap(file.fileno(), 8 << 20))
"""
FILL_SMALL = """
import os
for number in range(1 << 30):
    os.makedirs(f"d{number // 100}", exist_ok=True)
    with open(f"d{number // 100}/{number}", "wb") as file:
        file.write(b"x" * (1 << 17))
"""
FILL_DARK = """
import os
os.mkdir("dark")
with open("dark/file", "wb", 0) as file:
    os.chmod("dark", 0)
    while True:
        file.write(b"x" * (1 << 20))
"""
FILL_BEHIND_A_CURTAIN = "import ctypes\nctypes.CDLL(None).prctl(4, 0)  # PR_SET_DUMPABLE\n" + FILL_WITHOUT_NAME
FILL_DEEP = "import os\nfor _ in range(1500): os.mkdir('deep'); os.chdir('deep')\n" + FILL
HOG_WITHOUT_MAP = "import os\nfile = os.memfd_create('x')\nwhile True: os.write(file, b'x' * (1 << 20))"
HOG_SHARED = "import mmap\nkept = []\nwhile True: kept.append(mmap.mmap(-1, 8 << 20)); kept[-1].write(b'x' * (8 << 20))"
# Files wait in a socket that somebody holds, and no process has them.
IN_FLIGHT = """
import os, socket
kept = []
def send_away(file):
    one, other = socket.socketpair()
    socket.send_fds(one, [b"x"], [file])
    os.close(file)
    kept.extend((one, other))
while True:
    file = {make}
    for _ in range(8):
        os.write(file, b"x" * (1 << 20))
    send_away(file)
"""


def without_first_thread(code: str) -> str:
    """The same program in a second thread, after the first ended: the kernel says nothing of the process then."""
    second = "import _thread, ctypes, os\ndef second():\n" + textwrap.indent(code, "    ")
    leave = "ctypes.CDLL(None).syscall(60 if os.uname().machine == 'x86_64' else 93, 0)"
    return f"{second}\n_thread.start_new_thread(second, ())\n{leave}\n"


FILL_IN_FLIGHT = IN_FLIGHT.format(make='os.open("file", os.O_RDWR | os.O_CREAT); os.unlink("file")')
HOG_IN_FLIGHT = IN_FLIGHT.format(make='os.memfd_create("x")')
HOG_OWN_TABLE = """
import _thread, ctypes, os, time
def hog():
    ctypes.CDLL(None).unshare(0x400)  # CLONE_FILES: descriptors that no other thread has
    file = os.memfd_create("x")
    while True: os.write(file, b"x" * (1 << 20))
_thread.start_new_thread(hog, ())
time.sleep(60)
"""
HOG_MANY = "import os, time\nheld = b''\nfor _ in range(8): os.fork()\nheld = b'x' * (4 << 20)\ntime.sleep(60)"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """Where a program fills the disk; gone afterwards, however deep it is."""
    inside = tmp_path / "place"
    inside.mkdir()
    yield inside
    subprocess.run(["sh", "-c", 'chmod -R u+rwx "$1" && rm -rf "$1"', "sh", str(inside)], check=True)


class Judged(NamedTuple):
    """What the watchdog said, the part of a core that looking took, and how many counts came to their end."""

    said: str
    share: float
    counts: int


def judged(code: str, place: Path, *, seconds: float = 60.0, counts: int = 0, **limits: int | None) -> Judged:
    """What the watchdog says of a program, asked in its own rhythm; with `counts`, asked no more after so many.

    Such a program says when it has done what it is judged for.
    """
    finished: list[counting.Count] = []

    class Count(counting.Count):
        def go_on(self, seconds: float) -> float:
            took = super().go_on(seconds)
            finished.extend([self] if self.done else ())
            return took

    program = [sys.executable, "-I", "-S", "-c", code]
    with pytest.MonkeyPatch.context() as patch, started(["sh", "-c", '"$@" & wait', "sh", *program], place) as shell:
        patch.setattr(watch, "Count", Count)
        watched = watch.Watch(
            [str(place)], disk_bytes=limits.get("disk"), memory_bytes=limits.get("memory"), pid=shell.pid
        )
        assert shell.stdout is not None
        said = "" if not counts else shell.stdout.readline().decode().replace("done\n", "")
        begun, took = time.monotonic(), time.process_time()
        while not said and time.monotonic() - begun < seconds and (not counts or len(finished) < counts):
            if shell.poll() is not None:
                break
            assert watched.due is not None
            time.sleep(watched.due)
            said = watched.look()
        share = (time.process_time() - took) / (time.monotonic() - begun)
        return Judged(said, share, len(finished))


@contextlib.contextmanager
def started(argv: list[str], place: Path) -> "Iterator[subprocess.Popen[bytes]]":
    with subprocess.Popen(argv, cwd=place, stdout=subprocess.PIPE, start_new_session=True) as shell:
        try:
            yield shell
        finally:
            with contextlib.suppress(ProcessLookupError):  # it ended by itself
                os.killpg(shell.pid, signal.SIGKILL)


FILLERS = {
    "one file": FILL,
    "removed files": FILL_WITHOUT_NAME,
    "mapped files": FILL_MAPPED,
    "small files": FILL_SMALL,
    "deep": FILL_DEEP,
    "unreadable directory": FILL_DARK,
    "unreadable process": FILL_BEHIND_A_CURTAIN,
    "descriptors in flight": FILL_IN_FLIGHT,
    "removed files, no first thread": without_first_thread(FILL_WITHOUT_NAME),
    "mapped files, no first thread": without_first_thread(FILL_MAPPED),
}
HOGS = {
    "private": HOG,
    "unmapped": HOG_WITHOUT_MAP,
    "shared": HOG_SHARED,
    "many processes": HOG_MANY,
    "descriptors in flight": HOG_IN_FLIGHT,
    "descriptors of one thread": HOG_OWN_TABLE,
    "private, no first thread": without_first_thread(HOG),
    "unmapped, no first thread": without_first_thread(HOG_WITHOUT_MAP),
}


@pytest.mark.parametrize("code", FILLERS.values(), ids=FILLERS)
def test_whoever_fills_the_disk_is_found_however_it_hides(code: str, place: Path) -> None:
    assert judged(code, place, disk=64 * MIB).said == "disk"


def test_one_large_file_overshoots_by_little(place: Path) -> None:
    judged(FILL, place, disk=64 * MIB)
    assert (place / "large").stat().st_size < 512 * MIB


@pytest.mark.parametrize("code", HOGS.values(), ids=HOGS)
def test_whoever_takes_the_memory_is_found_however_it_hides(code: str, place: Path) -> None:
    assert judged(code, place, memory=256 * MIB).said == "memory"


# A program says that it has done what it is judged for, and waits.
DONE = "\nimport sys, time\nprint('done', flush=True)\ntime.sleep(1000)"


def test_memory_that_forks_share_counts_once(place: Path) -> None:
    share = (
        "import os, time\nheld = b'x' * (64 << 20)\nfor _ in range(10):\n    if os.fork() == 0: time.sleep(1000)" + DONE
    )
    assert judged(share, place, memory=256 * MIB, counts=2)[::2] == ("", 2)


def test_what_was_there_before_the_job_is_not_its_doing(place: Path) -> None:
    (place / "there").write_bytes(bytes(32 * MIB))
    time.sleep(3 * watch.TICK_S)  # a file of the last tick is the job's
    assert judged(DONE, place, disk=16 * MIB, counts=2)[::2] == ("", 2)
    append = "with open('there', 'ab') as file: file.write(b'x')" + DONE
    assert judged(append, place, disk=16 * MIB, counts=2).said == "disk"


def test_a_clock_that_is_set_back_hides_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + 3600)
    watched = watch.Watch([str(place)], disk_bytes=16 * MIB, memory_bytes=None, pid=os.getpid())
    monkeypatch.setattr(time, "time", right)
    (place / "large").write_bytes(bytes(32 * MIB))
    over = time.monotonic() + 60
    while not (said := watched.look()) and time.monotonic() < over:
        time.sleep(watched.due or 0)
    assert said == "disk"


def test_a_link_to_something_large_is_a_link(place: Path) -> None:
    link = (
        "import os\nos.mkdir('../outside')\nopen('../outside/large', 'wb').write(b'x' * (32 << 20))\n"
        "os.symlink('../outside', 'link')\nos.symlink('../outside/large', 'file')" + DONE
    )
    assert judged(link, place, disk=16 * MIB, counts=2)[::2] == ("", 2)


def test_a_file_with_many_names_counts_once(place: Path) -> None:
    names = (
        "import os\nopen('0', 'wb').write(b'x' * (8 << 20))\n"
        "for number in range(1, 20): os.link('0', str(number))" + DONE
    )
    assert judged(names, place, disk=16 * MIB, counts=2)[::2] == ("", 2)


def test_a_wide_tree_at_the_end_of_a_long_path_takes_little_memory(place: Path) -> None:
    here = os.open(place, os.O_RDONLY)
    for _ in range(400):
        os.mkdir("d" * 250, dir_fd=here)
        below = os.open("d" * 250, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    for number in range(1000):
        os.mkdir(str(number), dir_fd=here)
    os.close(here)
    tracemalloc.start()
    try:
        count = counting.Count([str(place)], [], since=0)
        count.go_on(60)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Whole paths of the last thousand would be 100 MB.
    assert count.done and count.entries == 1400 and most < 4 * MIB


def test_looking_at_a_large_tree_takes_no_core(place: Path) -> None:
    (place / "file").touch()
    for directory in range(40):
        (place / str(directory)).mkdir()
        for name in range(500):
            os.link(place / "file", place / str(directory) / str(name))
    ended = judged("import time; time.sleep(4)", place, disk=1 << 30, memory=1 << 30)
    assert ended.said == ""
    assert ended.share < 0.15


def test_an_idle_box_with_much_left_is_looked_at_once_a_second(place: Path) -> None:
    calm = watch.Watch([str(place)], disk_bytes=64 << 30, memory_bytes=64 << 30, pid=os.getpid())
    tight = watch.Watch([str(place)], disk_bytes=64 << 30, memory_bytes=1, pid=os.getpid())
    dues = []
    for watched in (calm, tight):
        time.sleep(watched.due or 0)
        watched.look()
        dues.append(watched.due or 0)
    assert dues[0] > 0.9
    assert dues[1] < 0.5


def test_nothing_to_watch_is_never_due(place: Path) -> None:
    unlimited = watch.Watch([str(place)], disk_bytes=None, memory_bytes=None, pid=os.getpid())
    assert unlimited.due is None
    assert unlimited.look() == ""


def test_the_programs_of_the_supervisor_import_only_what_is_built_in() -> None:
    programs = {source.stem for source in JOBS.glob("*.py")} - set(spawning.OURS)
    # The proxy is loaded for a job that has a network, and for no other.
    first = sorted(name for name in programs if "proxy" not in name)
    ask = f"import sys; sys.path.insert(0, {str(JOBS)!r}); before = set(sys.modules)\nimport {', '.join(first)}\n"
    ask += "print(*sorted(set(sys.modules) - before))"
    said = subprocess.run([sys.executable, "-I", "-S", "-c", ask], capture_output=True, text=True, check=True).stdout
    built_in = {"_ctypes", "binascii", "_json", "_signal", "_socket", "marshal", "posix", "resource", "select", "time"}
    assert {"supervise", "keep", "launch", "nursery", "watch"} <= set(first)
    assert set(said.split()) <= {*first, *built_in}
