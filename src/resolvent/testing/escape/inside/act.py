"""What a hostile agent tries from inside of its box: `python3 act.py ACT` with JSON on standard input.

One line of JSON tells how it went; whoever sent it looks from outside at what really happened. Standard library only,
and of a Python that may be older than ours.
"""

from __future__ import annotations

import ctypes
import errno
import glob
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

PTRACE_ATTACH = 16
AT_CWD, EXCHANGE = -100, 2
# Where an act is looked for; they lie beside this file, in the box as in the package.
MODULES = ("act", "kernel", "network", "greed", "plants", "traps")


def told(error: OSError) -> str:
    """The name of an error, or nothing more than that there was one."""
    return errno.errorcode.get(error.errno or 0, "failed")


def outcome(act: Callable[..., object], *arguments: Any) -> str:
    """`done`, or the name of the error that stopped it."""
    try:
        act(*arguments)
    except OSError as error:
        return told(error)
    return "done"


def called(name: str, *arguments: Any) -> str:
    """The same for a function of the C library."""
    ctypes.set_errno(0)
    answer = getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments)
    return errno.errorcode.get(ctypes.get_errno(), "failed") if answer < 0 else "done"


def open_and_close(path: str, flags: int) -> None:
    """Whether it can be opened at all."""
    os.close(os.open(path, flags))


def leave(path: str, text: str) -> None:
    """Write a file."""
    with open(path, "w") as file:
        file.write(text)


def write(places: list[str], name: str) -> dict[str, str]:
    """Leave a file in every place."""
    return {place: outcome(leave, os.path.join(place, name), "planted") for place in places}


def overwrite(paths: list[str]) -> dict[str, str]:
    """Open what is there for writing, and write nothing: were it open, that would be enough."""
    return {path: outcome(open_and_close, path, os.O_WRONLY) for path in paths}


def spoil(paths: list[str]) -> dict[str, str]:
    """Change, empty, rename and remove what is there."""
    found = {}
    for path in paths:
        found[f"append {path}"] = outcome(open_and_close, path, os.O_WRONLY | os.O_APPEND)
        found[f"truncate {path}"] = outcome(os.truncate, path, 0)
        found[f"rename {path}"] = outcome(os.rename, path, path + ".moved")
        found[f"link {path}"] = outcome(os.link, path, "linked")
        found[f"unlink {path}"] = outcome(os.unlink, path)
    return found


def change_modes(paths: list[str]) -> dict[str, str]:
    """Change what files say about themselves."""
    found = {}
    for path in paths:
        found[f"chmod {path}"] = outcome(os.chmod, path, 0o700)
        found[f"utime {path}"] = outcome(os.utime, path, (1, 1))
    return found


def read(paths: list[str]) -> dict[str, str]:
    """What each of them holds, or why not."""
    found = {}
    for path in paths:
        try:
            if os.path.isdir(path):
                found[path] = "holds " + " ".join(sorted(os.listdir(path)))
            else:
                with open(path, "rb") as file:
                    found[path] = "reads " + file.read(4096).decode(errors="replace")
        except OSError as error:
            found[path] = told(error)
    return found


def search(backwards: str) -> list[str]:
    """Where a secret shows among the processes and in this one's own environment; it is given backwards."""
    secret = backwards[::-1].encode()
    seen = [f"environment {name}" for name, value in os.environ.items() if secret in value.encode()]
    for path in glob.glob("/proc/*/environ") + glob.glob("/proc/*/cmdline"):
        try:
            with open(path, "rb") as file:
                if secret in file.read():
                    seen.append(path)
        except OSError:
            continue
    return seen


def search_objects(backwards: str) -> bool:
    """Whether a text, given backwards, is in any object that the repository of the workspace can see."""
    listed = ("git", "cat-file", "--batch-all-objects", "--batch", "--buffer")
    said = subprocess.run(listed, check=True, capture_output=True, env=dict(os.environ, GIT_CONFIG_NOSYSTEM="1"))
    return backwards[::-1].encode() in said.stdout


def descriptors(word: str) -> dict[str, str]:
    """Every descriptor that can be found here, in our parent and in the first process; what came of writing to it."""
    found = {}
    for owner in dict.fromkeys(("self", str(os.getppid()), "1")):
        try:
            names = os.listdir(f"/proc/{owner}/fd")
        except OSError as error:
            found[owner] = told(error)
            continue
        for name in names:
            path = f"/proc/{owner}/fd/{name}"
            try:
                target = os.readlink(path)
            except OSError:
                continue  # the listing itself
            found[f"{owner} {name} {target}"] = outcome(_scribble, path, word)
    return found


def _scribble(path: str, word: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_APPEND)
    try:
        # A pipe is our own output: what is written there is only said.
        if not os.readlink(path).startswith("pipe:"):
            os.write(descriptor, word.encode())
    finally:
        os.close(descriptor)


def standing() -> dict[str, dict[str, str]]:
    """What the first process may do, and what we may: code of ours in it would gain the difference."""
    found = {}
    for owner in ("1", "self"):
        with open(f"/proc/{owner}/status") as status:
            lines = {name: value.strip() for name, _, value in (line.partition(":") for line in status)}
        found[owner] = {name: lines[name] for name in ("Uid", "CapEff", "CapPrm", "NoNewPrivs", "Seccomp")}
    return found


def attack_process(pid: int, backwards: str) -> dict[str, str]:
    """Kill, trace and read a process of the host: by its number there, and by its name if it can be seen."""
    pids = [pid]
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as file:
                if backwards[::-1].encode() in file.read():
                    pids.append(int(path.split("/")[2]))
        except OSError:
            continue
    found = {}
    for one in dict.fromkeys(pids):
        found[f"ptrace {one}"] = called("ptrace", PTRACE_ATTACH, one, None, None)
        found[f"memory {one}"] = outcome(open_and_close, f"/proc/{one}/mem", os.O_RDWR)
        found[f"environ {one}"] = outcome(open_and_close, f"/proc/{one}/environ", os.O_RDONLY)
        found[f"kill {one}"] = outcome(os.kill, one, signal.SIGKILL)
    return found


def shared_memory(key: int) -> str:
    """What lies in a segment of System V memory that the host made, or why it is not there."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    segment = libc.shmget(key, 64, 0)
    if segment < 0:
        return errno.errorcode.get(ctypes.get_errno(), "failed")
    return ctypes.string_at(libc.shmat(segment, None, 0), 64).rstrip(b"\0").decode(errors="replace")


def show_yourself(ready: str, go: str) -> str:
    """Be there until the host has looked."""
    leave(ready, "here")
    with open(go) as meeting:
        return meeting.readline()


def swap_directories(target: str, ready: str, go: str) -> int:
    """Let a name be a directory and a link to the target in turn, as fast as can be, until the host says so."""
    home = os.environ["HOME"]
    os.makedirs(f"{home}/a/inner")
    os.symlink(target, f"{home}/b")
    one, other = f"{home}/a".encode(), f"{home}/b".encode()
    exchange = ctypes.CDLL(None, use_errno=True).renameat2
    leave(ready, "here")
    count = 0
    with open(os.open(go, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0) as meeting:
        while not meeting.read(1):
            for _ in range(100):
                exchange(AT_CWD, one, AT_CWD, other, EXCHANGE)
                count += 1
    return count


def core_limit() -> list[int]:
    """How large a dump of our memory may get."""
    return list(resource.getrlimit(resource.RLIMIT_CORE))


def main() -> None:
    """Do what the first word names, with the parameters on standard input."""
    given = json.loads(sys.stdin.read() or "{}")
    acts = (getattr(importlib.import_module(name), sys.argv[1], None) for name in MODULES)
    said = next(act for act in acts if act)(**given)
    # On a line of its own, whatever the attack printed before.
    sys.stdout.write(f"\n{json.dumps(said)}\n")


if __name__ == "__main__":
    main()
