"""Walls without namespaces, attacked for real."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.contract.bounds_stage import JOBS, needs_filter, needs_landlock, needs_root

from resolvent.adapters.jobs import landlock

# Try everything, with walls or without, and say what could be done.
ATTACKS = """
import ctypes, json, os, posix, socket, subprocess, sys
order = json.loads(sys.argv[1])
sys.path.insert(0, order["jobs"])
import landlock, seccomp
abstract, named, secret, tree, host = (order[name] for name in ("abstract", "named", "secret", "tree", "pid"))
def connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as plug:
        plug.connect(address)
def send(flag):
    with socket.socket() as plug:
        plug.settimeout(5)
        plug.sendto(b"x", flag, ("127.0.0.1", order["other"]))
def write(path):
    with open(path, "a") as file:
        file.write("x")
attacks = {
    "read": lambda: open(secret).read(),
    "list": lambda: os.listdir(os.path.dirname(secret)),
    "append": lambda: write(secret),
    "truncate": lambda: os.truncate(secret, 1),
    "create": lambda: write(secret + ".new"),
    "link out of it": lambda: os.link(secret, tree + "/linked"),
    "read by a link": lambda: (os.symlink(secret, tree + "/pointer"), open(tree + "/pointer").read()),
    "rename": lambda: os.rename(secret, secret + ".moved"),
    "remove": lambda: os.unlink(secret + ".moved"),
    "execute": lambda: subprocess.run([order["program"]], check=True),
    "tcp": lambda: connect(socket.AF_INET, ("127.0.0.1", order["other"])),
    "fast open": lambda: send(0x20000000),
    "udp": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9)),
    "abstract socket": lambda: connect(socket.AF_UNIX, abstract),
    "named socket": lambda: connect(socket.AF_UNIX, named),
    "signal": lambda: os.kill(host, 0),
    "environment": lambda: open(f"/proc/{host}/environ").read(),
    "command line": lambda: open(f"/proc/{host}/cmdline").read(),
    "processes": lambda: os.listdir("/proc"),
    "memory": lambda: open(f"/proc/{host}/mem", "rb").read(0),
    "limits": lambda: __import__("resource").prlimit(host, 7),
    "shared memory": lambda: write("/dev/shm/" + os.path.basename(tree)),
}
wishes = {
    "write": lambda: write(tree + "/file"),
    "read back": lambda: open(tree + "/file").read(),
    "make and move": lambda: (os.mkdir(tree + "/d"), os.rename(tree + "/file", tree + "/d/file")),
    "run": lambda: subprocess.run(["sh", "-c", "echo > /dev/null; cat /proc/meminfo /dev/fd/0 > /dev/null"], check=True,
                                  stdin=subprocess.PIPE),
    "look at itself": lambda: open("/proc/self/status").read(),
}
if order["walls"]:
    landlock.restrict(order["reads"], [tree, "/nowhere"])
    seccomp.install(seccomp.program(posix.uname().machine, seccomp.SHARING))
def tried(action):
    try:
        action()
    except (OSError, subprocess.SubprocessError):
        return False
    return True
print(json.dumps([[name for name, action in group.items() if tried(action)] for group in (attacks, wishes)]))
"""


@pytest.fixture
def doors(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """What a box must not reach: a secret, a program, listeners, ourselves; and its own tree."""
    outside, tree = tmp_path / "outside", tmp_path / "tree"
    outside.mkdir()
    tree.mkdir()
    (outside / "secret").write_text("secret")
    shutil.copy("/bin/true", outside / "program")
    abstract = f"\0resolvent-{os.getpid()}-{tmp_path.name}"
    # A socket's path has 107 bytes at most.
    named = f"/tmp/resolvent-{os.getpid()}-{time.monotonic_ns()}"
    listeners = [socket.create_server(("127.0.0.1", 0))]
    for address in (abstract, named):
        listeners.append(socket.socket(socket.AF_UNIX))
        listeners[-1].bind(address)
        listeners[-1].listen()
    reads = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/ld.so.cache", sys.prefix, sys.base_prefix, str(JOBS)]
    yield {
        "jobs": str(JOBS), "secret": str(outside / "secret"), "program": str(outside / "program"), "tree": str(tree),
        "abstract": abstract, "named": named, "pid": os.getpid(), "reads": reads,
        "other": listeners[0].getsockname()[1],
    }  # fmt: skip
    for listener in listeners:
        listener.close()
    os.unlink(named)
    Path("/dev/shm", tree.name).unlink(missing_ok=True)


def attack(doors: dict[str, Any], *, walls: bool) -> tuple[list[str], list[str]]:
    order = json.dumps({**doors, "walls": walls})
    argv = [sys.executable, "-I", "-S", "-c", ATTACKS, order]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    attacks, wishes = json.loads(ended.stdout)
    return attacks, wishes


WISHES = ["write", "read back", "make and move", "run", "look at itself"]


@needs_filter
@needs_landlock
def test_no_attack_gets_through_the_walls_without_namespaces(doors: dict[str, Any]) -> None:
    assert attack(doors, walls=True) == ([], WISHES)


@needs_root
def test_every_attack_succeeds_where_there_are_no_walls(doors: dict[str, Any]) -> None:
    succeeded, _ = attack(doors, walls=False)
    tried = re.findall(r'^    "([a-z ]+)": lambda', ATTACKS.partition("wishes")[0], re.MULTILINE)
    # A fast open needs the far side to ask for it.
    assert set(tried) - set(succeeded) <= {"fast open"}


@needs_landlock
def test_what_stays_open_is_said() -> None:
    said = landlock.unenforced()
    assert any("attributes" in sentence for sentence in said)
    assert any("signals" in sentence for sentence in said) == (landlock.abi() < 6)
