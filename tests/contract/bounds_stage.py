"""Programs under a bound of the kernel's, and what they found out."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from resolvent.adapters.jobs import landlock, seccomp

MACHINE = platform.machine()
JOBS = Path(seccomp.__file__).parent
COLUMN = seccomp.MACHINES.get(MACHINE, (0, 0))[1]
MIB = 1 << 20

needs_filter = pytest.mark.skipif(MACHINE not in seccomp.MACHINES, reason=f"no system call filter for {MACHINE}")
needs_landlock = pytest.mark.skipif(landlock.abi() == 0, reason="this kernel has no Landlock")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="an error of the filter and one of the kernel look alike")

HOG = "held = []\nwhile True: held.append(b'x' * (4 << 20))"


def waiting(code: str) -> "subprocess.Popen[str]":
    """A program that waits for `begin`."""
    argv = [sys.executable, "-I", "-S", "-c", f"input()\n{code}"]
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True, start_new_session=True)


def begin(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.close()
