"""Attacks on what lies around a box: processes, servers, the network, and the kernel that is asked for more."""

import ctypes
import os
import secrets
from pathlib import Path

from resolvent.adapters.jobs import seccomp
from resolvent.testing.escape.arena import Arena, Attack
from resolvent.testing.escape.found import Found, Untried, escaped, refused, safe
from resolvent.testing.escape.listeners import listening

IPC_CREATE, IPC_REMOVE = 0o1000, 0


async def attack_process(arena: Arena) -> Found:
    """Kill, trace and read a process of the host that belongs to the same user."""
    with arena.victim() as victim:
        given = {"pid": victim.pid, "backwards": f"victim-{arena.secret}"[::-1]}
        said = (await arena.attack("attack_process", given)).said
        alive = victim.poll() is None
    return refused(said) if alive else escaped("killed a process of the host")


async def be_the_first_process(arena: Arena) -> Found:
    """Take over the process that keeps the box, which belongs to the same user."""
    if arena.rung.kind != "namespaces" or not arena.rung.proc:
        raise Untried("it cannot be seen")
    said = (await arena.attack("standing")).said
    first, own = said["1"], said["self"]
    gain = [f"{name} {first[name]}" for name in first if first[name] != own[name]]
    walls = {"CapEff": "0" * 16, "CapPrm": "0" * 16, "NoNewPrivs": "1", "Seccomp": "2"}
    missing = [f"{name} {own[name]}" for name, wanted in walls.items() if own[name] != wanted]
    return (
        escaped(f"gains {gain}, lacks {missing}")
        if gain or missing
        else safe("it may do nothing that its children may not")
    )


async def read_shared_memory(arena: Arena) -> Found:
    """Read a segment of System V memory that everybody on the host may read."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.shmat.restype = ctypes.c_void_p
    key = secrets.randbits(30) + 1
    segment = libc.shmget(key, 64, IPC_CREATE | 0o666)
    if segment < 0:
        raise OSError(ctypes.get_errno(), "shmget")
    try:
        ctypes.memmove(libc.shmat(segment, None, 0), arena.secret.encode(), len(arena.secret))
        said = (await arena.attack("shared_memory", {"key": key})).said
    finally:
        libc.shmctl(segment, IPC_REMOVE, None)
    return escaped("read the host's segment") if arena.secret in said else safe(str(said))


async def reach_host(arena: Arena) -> Found:
    """Reach servers of the host: on its loopback, at an abstract name, at a path."""
    async with listening() as ears:
        targets = [
            ["AF_INET", "SOCK_STREAM", "127.0.0.1", ears.port],
            ["AF_INET6", "SOCK_STREAM", "::ffff:127.0.0.1", ears.port],
            ["AF_INET", "SOCK_DGRAM", "127.0.0.1", ears.datagrams],
            ["AF_UNIX", "SOCK_STREAM", ears.abstract],
            ["AF_UNIX", "SOCK_STREAM", ears.path],
            ["AF_UNIX", "SOCK_STREAM", f"/proc/1/root{ears.path}"],
            ["AF_UNIX", "SOCK_STREAM", "/run/dbus/system_bus_socket"],
            ["AF_UNIX", "SOCK_STREAM", "/var/run/docker.sock"],
        ]
        said = (await arena.attack("connect", {"targets": targets})).said
        if ears.heard:
            return escaped(f"the host heard: {', '.join(ears.heard)}")
    answers = dict.fromkeys(came for came in said.values() if came != "done")
    reached = [name for name, came in said.items() if came == "done" and "SOCK_DGRAM" not in name]
    return escaped(f"reached {', '.join(reached)}") if reached else safe(", ".join(answers))


async def reach_internet(arena: Arena) -> Found:
    """Reach anything beyond the host, a cloud's credentials among it."""
    targets = [
        ["AF_INET", "SOCK_STREAM", "1.1.1.1", 443],
        ["AF_INET", "SOCK_DGRAM", "8.8.8.8", 53],
        ["AF_INET6", "SOCK_STREAM", "2606:4700:4700::1111", 443],
        ["AF_INET", "SOCK_STREAM", "169.254.169.254", 80],
    ]
    said = (await arena.attack("connect", {"targets": targets})).said
    links = (await arena.attack("interfaces")).said
    # Under Landlock the interfaces are the host's; what may be opened towards them is what counts.
    strange = [] if arena.rung.name == "landlock" else [name for name in links if name not in ("lo", "EPERM")]
    return escaped(f"interfaces {', '.join(strange)}") if strange else refused(said)


async def feed_core_handler(arena: Arena) -> Found:
    """Crash, so that the host's handler of core dumps reads what we wrote, as root."""
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    (soft, hard) = (await arena.attack("core_limit")).said
    if (soft, hard) == (1, 1) or not pattern.startswith("|"):
        return safe(f"limit {hard}, core_pattern {pattern[:40]}")
    return Found("LIMITED", f"limit {hard} does not stop a handler: {pattern[:60]} is started on the host")


async def odd_sockets(arena: Arena) -> Found:
    """Open netlink, raw and packet sockets, and make an interface."""
    return refused((await arena.attack("odd_sockets")).said)


async def nest_namespaces(arena: Arena) -> Found:
    """Become root of a user namespace in the box, where most holes of kernels begin."""
    column = _column()
    given = {"clone": seccomp.CLONE[column], "clone3": seccomp.CLONE3[column]}
    return refused((await arena.attack("namespaces", given)).said)


async def mount(arena: Arena) -> Found:
    """Mount, move and remove what the box is made of."""
    return refused((await arena.attack("mounts")).said)


async def denied_calls(arena: Arena) -> Found:
    """Make every system call of the list that a box may not make."""
    column = _column()
    numbers = {name: call[column] for name, call in seccomp.DENIED.items() if call[column] is not None}
    found = refused((await arena.attack("system_calls", {"numbers": numbers})).said, fine=("EPERM", "ENOSYS"))
    return found._replace(said=f"{len(numbers)} calls: {found.said}")


async def type_into_terminal(arena: Arena) -> Found:
    """Type commands into a terminal, as if a person had."""
    said = (await arena.attack("terminal")).said
    opened = [name for name, came in said.items() if name.startswith("open ") and came == "done"]
    return refused({name: came for name, came in said.items() if name not in opened or name == "open /dev/tty"})


async def foreign_calls(arena: Arena) -> Found:
    """Make system calls of another architecture, which a filter could take for others."""
    said = (await arena.attack("foreign_calls")).said
    return refused(said, fine=("SIGSYS", "SIGSEGV")) if said else safe("this machine has no other")


def _column() -> int:
    return seccomp.MACHINES[os.uname().machine][1]


NAMES = "own user, mount, pid, net, ipc and uts namespaces"
ATTACKS = (
    Attack("kill, trace or read a process of the host", NAMES, attack_process),
    Attack("take over the box's first process", "no capabilities and the same filter there", be_the_first_process),
    Attack("read shared memory of the host", NAMES, read_shared_memory),
    Attack("reach the host's loopback and sockets", NAMES, reach_host),
    Attack("reach the internet", "no network unless one is allowed", reach_internet),
    Attack("open netlink, raw and packet sockets", "seccomp, no capabilities", odd_sockets),
    Attack("crash into the host's core handler", "a core limit of 1", feed_core_handler),
    Attack("make a nested user namespace", "seccomp, --disable-userns", nest_namespaces),
    Attack("mount and unmount", "seccomp, no capabilities", mount),
    Attack("make every denied system call", "seccomp", denied_calls),
    Attack("type into a terminal (TIOCSTI)", "seccomp, a session of its own", type_into_terminal),
    Attack("call the kernel as another architecture", "seccomp kills it", foreign_calls),
)
