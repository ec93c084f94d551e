"""What bounds a box from the kernel's side, attacked for real: system calls, Landlock, cgroups, the watchdog."""

import contextlib
import json
import os
import platform
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from resolvent.adapters.jobs import cgroup, landlock, seccomp, watch

MACHINE = platform.machine()
JOBS = Path(seccomp.__file__).parent
COLUMN = seccomp.MACHINES.get(MACHINE, (0, 0))[1]
MIB = 1 << 20

needs_filter = pytest.mark.skipif(MACHINE not in seccomp.MACHINES, reason=f"no system call filter for {MACHINE}")
needs_landlock = pytest.mark.skipif(landlock.abi() == 0, reason="this kernel has no Landlock")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="an error of the filter and one of the kernel look alike")

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


def run(argv: list[str], sockets: str = "any", **options: Any) -> "subprocess.CompletedProcess[str]":
    """A command under the filter; `off` is the same way without it."""
    command = [sys.executable, "-I", "-S", "-c", FILTERED, str(JOBS), sockets, shutil.which(argv[0]) or "", *argv[1:]]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=100, start_new_session=True, check=False, **options
    )


def answers(calls: dict[str, tuple[int, ...]], sockets: str = "any") -> dict[str, int]:
    """The errno of each call, 0 where it succeeded."""
    ended = run([sys.executable, "-I", "-c", CALLS, json.dumps(calls)], sockets)
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


# --- system calls


@needs_filter
def test_every_denied_call_is_refused_when_it_is_really_made() -> None:
    denied = seccomp.DENIED | seccomp.SHARED
    calls = {name: (number, *EVERYTHING_WRONG) for name, call in denied.items() if (number := call[COLUMN]) is not None}
    assert answers(calls, "none") == dict.fromkeys(calls, seccomp.EPERM)
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
    ("sockets", "expected"),
    [
        ("any", {"unix": 0, "udp": 0, "tcp": 0, "tcp6": 0, "route": 0, "pair": 0, "dgram pair": 0}),
        ("tcp", {"unix": 97, "udp": 93, "tcp": 0, "tcp6": 0, "route": 0, "pair": 0, "dgram pair": 93}),
        ("none", {"unix": 97, "udp": 97, "tcp": 97, "tcp6": 97, "route": 0, "pair": 0, "dgram pair": 93}),
    ],
)
def test_sockets_that_work_are_those_of_the_network_the_box_has(sockets: str, expected: dict[str, int]) -> None:
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
    said = {name: 0 if error == 14 else error for name, error in answers(calls, sockets).items()}
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
    assert set(answers(never, sockets).values()) <= {93, 97}


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
    assert [name for name, error in answers(calls, "none").items() if error == seccomp.EPERM] == [
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
@pytest.mark.parametrize("sockets", seccomp.SOCKETS)
def test_the_filter_of_each_machine_refuses_what_it_lists_and_nothing_else(machine: str, sockets: str) -> None:
    architecture, column = seccomp.MACHINES[machine]
    program = seccomp.program(machine, sockets)
    listed = seccomp.DENIED if sockets == "any" else seccomp.DENIED | seccomp.SHARED
    denied = {number for call in listed.values() if (number := call[column]) is not None}
    by_arguments = {
        call[column]
        for call in (seccomp.CLONE, seccomp.CLONE3, seccomp.IOCTL, seccomp.PERSONALITY, seccomp.FALLOCATE,
                     seccomp.PRLIMIT, seccomp.SETPRIORITY, seccomp.SOCKET, seccomp.SOCKETPAIR)
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
    fast = verdict(program, architecture, seccomp.SENDTO[column], (3, 0, 0, 0x20000000))
    assert fast == (refused if sockets == "tcp" else seccomp.ALLOW)


@pytest.mark.parametrize(("header", "column"), [("x86_64-linux-gnu/asm/unistd_64.h", 0), ("asm-generic/unistd.h", 1)])
def test_the_numbers_are_those_of_the_kernel(header: str, column: int) -> None:
    path = Path("/usr/include") / header
    if not path.exists():
        pytest.skip(f"no {path}")
    known = {name: int(number) for name, number in re.findall(r"#define __NR_(\w+)\s+(\d+)", path.read_text())}
    by_arguments = {name.lower(): vars(seccomp)[name] for name in ("CLONE", "CLONE3", "IOCTL", "PERSONALITY",
                    "FALLOCATE", "SETPRIORITY", "SOCKET", "SOCKETPAIR", "SENDTO", "SENDMSG", "SENDMMSG")}  # fmt: skip
    ours = seccomp.DENIED | seccomp.SHARED | by_arguments | {"prlimit64": seccomp.PRLIMIT}
    checked = {name: call[column] for name, call in ours.items() if name in known}
    assert checked == {name: known[name] for name in checked}
    # Younger than the header, or not there on this machine.
    assert {name for name, call in ours.items() if call[column] is not None} - set(checked) <= {"open_tree_attr"}


def test_a_machine_without_a_table_gets_no_filter_instead_of_a_wrong_one() -> None:
    with pytest.raises(ValueError, match="riscv64"):
        seccomp.program("riscv64")
    with pytest.raises(ValueError, match="sockets"):
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
@pytest.mark.parametrize("sockets", ["any", "none"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_real_programs_work_under_the_filter(name: str, sockets: str, tmp_path: Path) -> None:
    if not shutil.which(name):
        pytest.skip(f"no {name}")
    ended = run(["sh", "-ec", PROGRAMS[name]], sockets, cwd=tmp_path, env={**os.environ, "HOME": str(tmp_path)})
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


# --- Landlock

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
    "the port": lambda: connect(socket.AF_INET, ("127.0.0.1", order["port"])),
}
if order["walls"]:
    ports = (order["port"],) if order["walls"] == "tcp" else ()
    landlock.restrict(order["reads"], [tree, "/nowhere"], ports=ports)
    seccomp.install(seccomp.program(posix.uname().machine, order["walls"]))
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
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    for address in (abstract, named):
        listeners.append(socket.socket(socket.AF_UNIX))
        listeners[-1].bind(address)
        listeners[-1].listen()
    reads = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/ld.so.cache", sys.prefix, sys.base_prefix, str(JOBS)]
    yield {
        "jobs": str(JOBS), "secret": str(outside / "secret"), "program": str(outside / "program"), "tree": str(tree),
        "abstract": abstract, "named": named, "pid": os.getpid(), "reads": reads,
        "port": listeners[0].getsockname()[1], "other": listeners[1].getsockname()[1],
    }  # fmt: skip
    for listener in listeners:
        listener.close()
    os.unlink(named)
    Path("/dev/shm", tree.name).unlink(missing_ok=True)


def attack(doors: dict[str, Any], walls: str) -> tuple[list[str], list[str]]:
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
    assert attack(doors, "none") == ([], WISHES)


@needs_filter
@pytest.mark.skipif(landlock.abi() < 4, reason="this kernel cannot limit TCP to a port")
def test_with_a_network_only_the_given_port_can_be_reached(doors: dict[str, Any]) -> None:
    assert attack(doors, "tcp") == ([], [*WISHES, "the port"])


@needs_root
def test_every_attack_succeeds_where_there_are_no_walls(doors: dict[str, Any]) -> None:
    succeeded, _ = attack(doors, "")
    tried = re.findall(r'^    "([a-z ]+)": lambda', ATTACKS.partition("wishes")[0], re.MULTILINE)
    # A fast open needs the far side to ask for it.
    assert set(tried) - set(succeeded) <= {"fast open"}


@needs_landlock
def test_what_stays_open_is_said() -> None:
    said = landlock.unenforced((3128,))
    assert any("attributes" in sentence for sentence in said)
    assert any("port 3128" in sentence for sentence in said)
    assert any("signals" in sentence for sentence in said) == (landlock.abi() < 6)


# --- cgroups

HOG = "held = []\nwhile True: held.append(b'x' * (4 << 20))"
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


def waiting(code: str) -> "subprocess.Popen[str]":
    argv = [sys.executable, "-I", "-S", "-c", f"input()\n{code}"]
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True, start_new_session=True)


def begin(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.close()


def test_a_memory_hog_is_killed_at_the_limit_and_the_alarm_rings(group: cgroup.Membership) -> None:
    if "memory" not in group.bounds:
        pytest.skip("no memory controller may be used here")
    assert not group.oom_killed()
    with bounded(group, HOG) as hog:
        assert hog.wait(timeout=60) == -signal.SIGKILL
    assert group.oom_killed()
    assert group.alarm < 0 or os.eventfd_read(group.alarm) > 0


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


# --- the watchdog

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
HOG_MANY = "import os, time\nheld = b''\nfor _ in range(8): os.fork()\nheld = b'x' * (4 << 20)\ntime.sleep(60)"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """Where a program fills the disk; gone afterwards, however deep it is."""
    inside = tmp_path / "place"
    inside.mkdir()
    yield inside
    subprocess.run(["sh", "-c", 'chmod -R u+rwx "$1" && rm -rf "$1"', "sh", str(inside)], check=True)


def judged(code: str, place: Path, *, seconds: float = 60.0, **limits: int | None) -> tuple[str, float]:
    """What the watchdog says of a program, asked in its own rhythm, and the part of a core that looking took."""
    shell = subprocess.Popen(
        ["sh", "-c", '"$@" & wait', "sh", sys.executable, "-I", "-S", "-c", code], cwd=place, start_new_session=True
    )
    watched = watch.Watch([str(place)], disk_bytes=limits.get("disk"), memory_bytes=limits.get("memory"), pid=shell.pid)
    begun, took, said = time.monotonic(), time.process_time(), ""
    try:
        while not said and shell.poll() is None and time.monotonic() - begun < seconds:
            due = watched.due
            assert due is not None
            time.sleep(due)
            said = watched.look()
        return said, (time.process_time() - took) / (time.monotonic() - begun)
    finally:
        with contextlib.suppress(ProcessLookupError):  # it ended by itself
            os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()


FILLERS = {
    "one file": FILL,
    "removed files": FILL_WITHOUT_NAME,
    "mapped files": FILL_MAPPED,
    "small files": FILL_SMALL,
    "deep": FILL_DEEP,
    "unreadable directory": FILL_DARK,
    "unreadable process": FILL_BEHIND_A_CURTAIN,
}
HOGS = {"private": HOG, "unmapped": HOG_WITHOUT_MAP, "shared": HOG_SHARED, "many processes": HOG_MANY}


@pytest.mark.parametrize("code", FILLERS.values(), ids=FILLERS)
def test_whoever_fills_the_disk_is_found_however_it_hides(code: str, place: Path) -> None:
    said, _ = judged(code, place, disk=64 * MIB)
    assert said == "disk"


def test_one_large_file_overshoots_by_little(place: Path) -> None:
    judged(FILL, place, disk=64 * MIB)
    assert (place / "large").stat().st_size < 512 * MIB


@pytest.mark.parametrize("code", HOGS.values(), ids=HOGS)
def test_whoever_takes_the_memory_is_found_however_it_hides(code: str, place: Path) -> None:
    said, _ = judged(code, place, memory=256 * MIB)
    assert said == "memory"


def test_memory_that_forks_share_counts_once(place: Path) -> None:
    share = (
        "import os, time\nheld = b'x' * (64 << 20)\nfor _ in range(10):\n    if os.fork() == 0: break\ntime.sleep(1)"
    )
    said, _ = judged(share, place, memory=256 * MIB)
    assert said == ""


def test_what_was_there_before_the_job_is_not_its_doing(place: Path) -> None:
    (place / "there").write_bytes(bytes(32 * MIB))
    time.sleep(3 * watch.TICK_S)  # a file of the last tick is the job's
    said, _ = judged("import time; time.sleep(1.5)", place, disk=16 * MIB)
    assert said == ""
    said, _ = judged(
        "with open('there', 'ab') as file: file.write(b'x')\nimport time; time.sleep(9)", place, disk=16 * MIB
    )
    assert said == "disk"


def test_a_link_to_something_large_is_a_link(place: Path) -> None:
    link = (
        "import os, time\nos.mkdir('../outside')\nopen('../outside/large', 'wb').write(b'x' * (32 << 20))\n"
        "os.symlink('../outside', 'link')\nos.symlink('../outside/large', 'file')\ntime.sleep(1.5)"
    )
    said, _ = judged(link, place, disk=16 * MIB)
    assert said == ""


def test_a_file_with_many_names_counts_once(place: Path) -> None:
    names = (
        "import os, time\nopen('0', 'wb').write(b'x' * (8 << 20))\n"
        "for number in range(1, 20): os.link('0', str(number))\ntime.sleep(1.5)"
    )
    said, _ = judged(names, place, disk=16 * MIB)
    assert said == ""


def test_looking_at_a_large_tree_takes_no_core(place: Path) -> None:
    (place / "file").touch()
    for directory in range(40):
        (place / str(directory)).mkdir()
        for name in range(500):
            os.link(place / "file", place / str(directory) / str(name))
    said, share = judged("import time; time.sleep(4)", place, disk=1 << 30, memory=1 << 30)
    assert said == ""
    assert share < 0.15


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


def test_the_modules_of_the_supervisor_import_only_what_is_built_in() -> None:
    names = ("seccomp", "landlock", "cgroup", "watch")
    ask = f"import sys; sys.path.insert(0, {str(JOBS)!r}); before = set(sys.modules)\nimport {', '.join(names)}\n"
    ask += "print(*sorted(set(sys.modules) - before))"
    said = subprocess.run([sys.executable, "-I", "-S", "-c", ask], capture_output=True, text=True, check=True).stdout
    assert set(said.split()) <= {*names, "_ctypes", "posix", "time"}
