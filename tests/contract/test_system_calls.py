"""The system calls a box may not make, made for real."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.contract.bounds_stage import COLUMN, JOBS, MACHINE, needs_filter, needs_root

from resolvent.adapters.jobs import seccomp

# Put the filter on, the way the supervisor does, and become the command.
FILTERED = """
import posix, sys
sys.path.insert(0, sys.argv[1])
import seccomp
if sys.argv[2] != "off":
    seccomp.install(seccomp.program(posix.uname().machine, sys.argv[2]))
posix.execv(sys.argv[3], sys.argv[3:])
"""
# Make system calls by number, and say what the kernel answered.
CALLS = """
import ctypes, json, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    ctypes.set_errno(0)
    answer = libc.syscall(ctypes.c_long(number), *(ctypes.c_long(one) for one in arguments))
    return ctypes.get_errno() if answer == -1 else 0
print(json.dumps({name: call(*numbers) for name, numbers in json.loads(sys.argv[1]).items()}))
"""
EVERYTHING_WRONG = (-1, -1, -1, -1, -1, -1)


def run(argv: list[str], kind: str = seccomp.WATCHED, **options: Any) -> "subprocess.CompletedProcess[str]":
    """A command under the filter; `off` is the same way without it."""
    command = [sys.executable, "-I", "-S", "-c", FILTERED, str(JOBS), kind, shutil.which(argv[0]) or "", *argv[1:]]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=100, start_new_session=True, check=False, **options
    )


def answers(calls: dict[str, tuple[int, ...]], kind: str = seccomp.WATCHED) -> dict[str, int]:
    """The errno of each call, 0 where it succeeded."""
    ended = run([sys.executable, "-I", "-c", CALLS, json.dumps(calls)], kind)
    assert ended.returncode == 0, ended.stderr
    said: dict[str, int] = json.loads(ended.stdout)
    return said


def verdict(program: bytes, architecture: int, number: int, arguments: tuple[int, ...] = ()) -> int:
    """What a filter says to a call, by the rules of classic BPF: the way to ask one made for another machine."""
    words = [number, architecture, 0, 0, *(half for one in arguments for half in (one & 0xFFFFFFFF, one >> 32))]
    words += [0] * 16
    at = held = 0
    while True:
        code, true, false = int.from_bytes(program[at : at + 2], "little"), program[at + 2], program[at + 3]
        value = int.from_bytes(program[at + 4 : at + 8], "little")
        at += 8
        if code == seccomp.RETURN:
            return value
        if code == seccomp.LOAD:
            held = words[value // 4]
        elif code == seccomp.AND:
            held &= value
        else:
            tests = {
                seccomp.EQUAL: held == value,
                seccomp.GREATER: held > value,
                seccomp.AT_LEAST: held >= value,
                seccomp.ANY_BIT: bool(held & value),
            }
            at += 8 * (true if tests[code] else false)


@needs_filter
def test_every_denied_call_is_refused_when_it_is_really_made() -> None:
    denied = seccomp.DENIED | seccomp.SHARED
    calls = {name: (number, *EVERYTHING_WRONG) for name, call in denied.items() if (number := call[COLUMN]) is not None}
    assert answers(calls, seccomp.SHARING) == dict.fromkeys(calls, seccomp.EPERM)
    ours = {name: call for name, call in calls.items() if name in seccomp.DENIED}
    assert answers(ours) == dict.fromkeys(ours, seccomp.EPERM)


@needs_filter
@needs_root
def test_it_is_the_filter_that_refuses_them() -> None:
    names = (
        "mount umount2 chroot unshare setns bpf perf_event_open io_uring_setup keyctl ptrace kcmp fsopen reboot syslog"
    )
    calls = {name: (number, *EVERYTHING_WRONG) for name in names.split() if (number := seccomp.DENIED[name][COLUMN])}
    without = answers(calls, "off")
    assert [name for name, error in without.items() if error == seccomp.EPERM] == []


@needs_filter
def test_no_process_is_made_in_a_new_namespace() -> None:
    spaces = {0x20000: "mnt", 0x2000000: "cgroup", 0x4000000: "uts", 0x8000000: "ipc", 0x10000000: "user",
              0x20000000: "pid", 0x40000000: "net"}  # fmt: skip
    calls = {name: (seccomp.CLONE[COLUMN], flag | signal.SIGCHLD, 0, 0, 0, 0) for flag, name in spaces.items()}
    assert answers(calls) == dict.fromkeys(calls, seccomp.EPERM)


@needs_filter
def test_clone3_does_not_exist_so_that_the_c_library_falls_back_to_what_can_be_checked() -> None:
    assert answers({"clone3": (seccomp.CLONE3[COLUMN], *EVERYTHING_WRONG)}) == {"clone3": seccomp.ENOSYS}


@needs_filter
def test_a_terminal_takes_no_input_from_the_box_whatever_the_upper_half_of_the_request_says() -> None:
    for request in (*seccomp.TERMINAL_INJECTION, 0x1_0000_0000 | seccomp.TERMINAL_INJECTION[0]):
        said = answers({"ioctl": (seccomp.IOCTL[COLUMN], 0, request, 0)})
        assert said == {"ioctl": seccomp.EPERM}, hex(request)
    size = answers({"ioctl": (seccomp.IOCTL[COLUMN], 0, 0x5413, 0)})
    assert size["ioctl"] != seccomp.EPERM


@needs_filter
def test_only_harmless_personalities_can_be_taken() -> None:
    calls = {str(value): (seccomp.PERSONALITY[COLUMN], value) for value in (0xFFFFFFFF, 0, 0x0040000, 0x0400000)}
    assert answers(calls) == {"4294967295": 0, "0": 0, str(0x0040000): seccomp.EPERM, str(0x0400000): seccomp.EPERM}


@needs_filter
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (seccomp.COUNTED, {"unix": 0, "udp": 0, "tcp": 0, "tcp6": 0, "route": 0, "pair": 0, "dgram pair": 0}),
        (seccomp.WATCHED, {"unix": 0, "udp": 0, "tcp": 0, "tcp6": 0, "route": 0, "pair": 0, "dgram pair": 0}),
        (seccomp.SHARING, {"unix": 97, "udp": 97, "tcp": 97, "tcp6": 97, "route": 0, "pair": 0, "dgram pair": 93}),
    ],
)
def test_sockets_that_work_are_those_of_the_network_the_box_has(kind: str, expected: dict[str, int]) -> None:
    number, pair = seccomp.SOCKET[COLUMN], seccomp.SOCKETPAIR[COLUMN]
    stream, datagram, raw, flags = 1, 2, 3, 0o2004000
    # The pairs come out wherever the program has room for two numbers: at none, so the kernel answers EFAULT.
    calls: dict[str, tuple[int, ...]] = {
        "unix": (number, 1, stream | flags, 0),
        "udp": (number, 2, datagram, 0),
        "tcp": (number, 2, stream | flags, 0),
        "tcp6": (number, 10, stream, 6),
        "route": (number, 16, raw, 0),
        "pair": (pair, 1, stream | flags, 0, 0),
        "dgram pair": (pair, 1, datagram, 0, 0),
    }
    said = {name: 0 if error == 14 else error for name, error in answers(calls, kind).items()}
    assert said == expected
    never = {
        "packet": (number, 17, raw, 0),
        "alg": (number, 38, 5, 0),
        "vsock": (number, 40, stream, 0),
        "generic netlink": (number, 16, raw, 16),
        "netfilter": (number, 16, raw, 12),
        "sctp": (number, 2, stream, 132),
        "mptcp": (number, 2, stream, 262),
    }
    assert set(answers(never, kind).values()) <= {93, 97}


@needs_filter
def test_a_box_without_namespaces_touches_limits_and_priority_of_no_other_process() -> None:
    prlimit, priority = seccomp.PRLIMIT[COLUMN], seccomp.SETPRIORITY[COLUMN]
    calls = {
        "own limit": (prlimit, 0, 7, 0, 0),
        "their limit": (prlimit, os.getpid(), 7, 0, 0),
        "own priority": (priority, 0, 0, 5),
        "their priority": (priority, 0, os.getpid(), 5),
        "priority of all": (priority, 2, 0, 5),
    }
    assert [name for name, error in answers(calls, seccomp.SHARING).items() if error == seccomp.EPERM] == [
        "their limit",
        "their priority",
        "priority of all",
    ]


@needs_filter
def test_space_is_taken_by_writing_never_in_no_time(tmp_path: Path) -> None:
    allocate = (
        "import os, ctypes\n"
        "fd = os.open('file', os.O_RDWR | os.O_CREAT)\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "print(libc.fallocate(fd, 0, ctypes.c_long(0), ctypes.c_long(1 << 30)), ctypes.get_errno())\n"
        "os.posix_fallocate(fd, 0, 1 << 16)\n"
        "print(os.fstat(fd).st_size)\n"
    )
    ended = run([sys.executable, "-c", allocate], cwd=tmp_path)
    assert ended.stdout.split() == ["-1", str(seccomp.EOPNOTSUPP), str(1 << 16)], ended.stderr


@needs_filter
def test_space_is_not_taken_by_the_older_ways_either(tmp_path: Path) -> None:
    # FS_IOC_RESVSP, FS_IOC_RESVSP64 and FS_IOC_ZERO_RANGE, of a range from 0 to 1 MiB.
    reserve = (
        "import errno, fcntl, os, struct\n"
        "fd = os.open('file', os.O_RDWR | os.O_CREAT)\n"
        "for request in (0x40305828, 0x4030582A, 0x40305839):\n"
        "    try: fcntl.ioctl(fd, request, struct.pack('hhqqiI16x', 0, 0, 0, 1 << 20, 0, 0))\n"
        "    except OSError as error: print(error.errno)\n"
        "print(os.fstat(fd).st_blocks)\n"
    )
    ended = run([sys.executable, "-c", reserve], cwd=tmp_path)
    assert ended.stdout.split() == [*[str(seccomp.EOPNOTSUPP)] * 3, "0"], ended.stderr


@needs_filter
def test_memory_that_no_process_has_is_taken_only_where_the_kernel_counts_it() -> None:
    segments = (
        "import ctypes\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "for size in (56, 1 << 20):\n"
        "    made = libc.shmget(0, ctypes.c_size_t(size), 0o1600)\n"
        "    print(0 if made >= 0 else ctypes.get_errno())\n"
        "    libc.shmctl(made, 0, None)\n"
    )
    said = {kind: run([sys.executable, "-c", segments], kind).stdout.split() for kind in seccomp.KINDS}
    assert said == {seccomp.COUNTED: ["0", "0"], seccomp.WATCHED: ["0", "22"], seccomp.SHARING: ["1", "1"]}


@needs_filter
@pytest.mark.skipif(MACHINE != "x86_64", reason="x32 is a door of x86_64 only")
def test_calls_by_the_numbers_of_x32_kill() -> None:
    getpid = {"getpid": (0x40000000 | 39,)}
    assert run([sys.executable, "-I", "-c", CALLS, json.dumps(getpid)]).returncode == -signal.SIGSYS
    assert answers({"nothing": (-1,)}) == {"nothing": seccomp.ENOSYS}


@needs_filter
@pytest.mark.skipif(MACHINE != "x86_64", reason="32-bit calls are a door of x86_64 only")
def test_calls_of_another_architecture_kill() -> None:
    getpid = (
        "import ctypes, mmap\n"
        "page = mmap.mmap(-1, 4096, prot=7)\n"
        "page.write(bytes.fromhex('b814000000cd80c3'))  # mov eax, 20; int 0x80; ret\n"
        "ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()\n"
    )
    if run([sys.executable, "-c", getpid], "off").returncode != 0:
        pytest.skip("this kernel has no 32-bit calls")
    assert run([sys.executable, "-c", getpid]).returncode == -signal.SIGSYS


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("kind", seccomp.KINDS)
def test_the_filter_of_each_machine_refuses_what_it_lists_and_nothing_else(machine: str, kind: str) -> None:
    architecture, column = seccomp.MACHINES[machine]
    program = seccomp.program(machine, kind)
    listed = seccomp.DENIED | seccomp.SHARED if kind == seccomp.SHARING else seccomp.DENIED
    denied = {number for call in listed.values() if (number := call[column]) is not None}
    by_arguments = {
        call[column]
        for call in (seccomp.CLONE, seccomp.CLONE3, seccomp.IOCTL, seccomp.PERSONALITY, seccomp.FALLOCATE,
                     seccomp.PRLIMIT, seccomp.SETPRIORITY, seccomp.SOCKET, seccomp.SOCKETPAIR, seccomp.SHMGET)
    }  # fmt: skip
    refused = seccomp.ERRNO | seccomp.EPERM
    for number in set(range(seccomp.NEWEST + 1)) - by_arguments:
        expected = refused if number in denied else seccomp.ALLOW
        assert verdict(program, architecture, number) == expected, number
    assert verdict(program, architecture, seccomp.NEWEST + 1) == seccomp.ERRNO | seccomp.ENOSYS
    assert verdict(program, architecture, 0x3FFFFFFF) == seccomp.ERRNO | seccomp.ENOSYS
    assert verdict(program, architecture, 0x40000000) == seccomp.KILL
    assert verdict(program, 0x40000003, 20) == seccomp.KILL
    assert verdict(program, architecture, seccomp.CLONE[column], (0x10000011,)) == refused
    assert verdict(program, architecture, seccomp.CLONE[column], (0x3D0F00,)) == seccomp.ALLOW
    assert verdict(program, architecture, seccomp.IOCTL[column], (0, 0x5412 | 1 << 40)) == refused
    sizes = (1 << 16, 1 + (1 << 16), 1 << 32)
    small, large, larger = (verdict(program, architecture, seccomp.SHMGET[column], (0, size)) for size in sizes)
    others = {seccomp.SHARING: refused, seccomp.WATCHED: seccomp.ERRNO | seccomp.EINVAL}.get(kind, seccomp.ALLOW)
    assert (small, large, larger) == (refused if kind == seccomp.SHARING else seccomp.ALLOW, others, others)


@pytest.mark.parametrize(("header", "column"), [("x86_64-linux-gnu/asm/unistd_64.h", 0), ("asm-generic/unistd.h", 1)])
def test_the_numbers_are_those_of_the_kernel(header: str, column: int) -> None:
    path = Path("/usr/include") / header
    if not path.exists():
        pytest.skip(f"no {path}")
    known = {name: int(number) for name, number in re.findall(r"#define __NR_(\w+)\s+(\d+)", path.read_text())}
    by_arguments = {name.lower(): vars(seccomp)[name] for name in ("CLONE", "CLONE3", "IOCTL", "PERSONALITY",
                    "FALLOCATE", "SETPRIORITY", "SOCKET", "SOCKETPAIR", "SHMGET")}  # fmt: skip
    ours = seccomp.DENIED | seccomp.SHARED | by_arguments | {"prlimit64": seccomp.PRLIMIT}
    checked = {name: call[column] for name, call in ours.items() if name in known}
    assert checked == {name: known[name] for name in checked}
    # Younger than the header, or not there on this machine.
    assert {name for name, call in ours.items() if call[column] is not None} - set(checked) <= {"open_tree_attr"}


def test_a_machine_without_a_table_gets_no_filter_instead_of_a_wrong_one() -> None:
    with pytest.raises(ValueError, match="riscv64"):
        seccomp.program("riscv64")
    with pytest.raises(ValueError, match="kind of box"):
        seccomp.program("x86_64", "some")


PROGRAMS = {
    "git": "git init -q . && git config user.email a@b && git config user.name a && echo 1 > f && git add f"
    " && git commit -qm one && git clone -q . clone && git -C clone log --oneline && git gc -q && git status",
    "node": "node -e \"const {execSync}=require('child_process');const {Worker}=require('worker_threads');"
    "require('os').networkInterfaces();new Worker('1',{eval:true}).on('exit',()=>console.log(''+execSync('echo')))\"",
    "gcc": "printf 'int main(){return 0;}' > m.c && printf 'all: a b\\na b: m.c\\n\\tgcc -o $@ m.c\\n' > Makefile"
    " && make -s -j4 && ./a && ./b",
    "bash": "bash -c 'set -m; sleep 60 & kill %1; wait; echo <(true) | cat; for i in 1 2 3; do true & done; wait'",
    "python3": 'python3 -c "import threading,subprocess,asyncio,tempfile,socket\n'
    "threading.Thread(target=print).start()\nsubprocess.run(['true'],check=True)\nsocket.socketpair()\n"
    "asyncio.run(asyncio.create_subprocess_exec('true'))\ntempfile.TemporaryFile()\n"
    'import multiprocessing\nassert multiprocessing.Pool(2).map(abs, [-1, -2]) == [1, 2]"',
    "tar": "mkdir d && echo x > d/x && tar czf d.tgz d && rm -r d && tar xzf d.tgz && cat d/x",
}


@needs_filter
@pytest.mark.parametrize("kind", [seccomp.WATCHED, seccomp.SHARING])
@pytest.mark.parametrize("name", PROGRAMS)
def test_real_programs_work_under_the_filter(name: str, kind: str, tmp_path: Path) -> None:
    if not shutil.which(name):
        pytest.skip(f"no {name}")
    ended = run(["sh", "-ec", PROGRAMS[name]], kind, cwd=tmp_path, env={**os.environ, "HOME": str(tmp_path)})
    assert ended.returncode == 0, ended.stdout + ended.stderr


@needs_filter
def test_bubblewrap_takes_the_filter_and_what_runs_in_it_has_it() -> None:
    if not shutil.which("bwrap"):
        pytest.skip("no bwrap")
    ready = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "true"]
    if subprocess.run(ready, check=False, capture_output=True).returncode != 0:
        pytest.skip("no namespaces here")
    program = os.memfd_create("filter")
    os.write(program, seccomp.program(MACHINE))
    os.lseek(program, 0, os.SEEK_SET)
    argv = [*ready[:-1], "--seccomp", str(program), "sh", "-c", "grep Seccomp: /proc/self/status; unshare -U true"]
    ended = subprocess.run(argv, pass_fds=[program], capture_output=True, text=True, check=False)
    os.close(program)
    assert ended.stdout.split() == ["Seccomp:", "2"]
    assert ended.returncode != 0
    assert "not permitted" in ended.stderr
