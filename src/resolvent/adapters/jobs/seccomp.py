"""The system calls a box may not make, as a BPF filter: for bwrap's `--seccomp FD` and for a process to put on itself.

Every call of Linux 6.18 is decided here; a call younger than that does not exist inside (ENOSYS), so that a new kernel
opens nothing. Part of the detached supervisor: it imports only what is built in, and nothing of ours.
"""

import _ctypes

# Audit architecture, and which column of CALLS holds its numbers.
MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1), "arm64": (0xC00000B7, 1)}
NEWEST = 469
X32 = 0x40000000

EPERM, ENOSYS, EPROTONOSUPPORT, EOPNOTSUPP, EAFNOSUPPORT = 1, 38, 93, 95, 97

# name: number on x86_64 and on arm64; from 424 on they are the same everywhere.
DENIED: dict[str, tuple[int | None, int | None]] = {
    # what is mounted where
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    # other namespaces, and names in the one we have
    "unshare": (272, 97),
    "setns": (308, 268),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    # other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    # kernel interfaces with a long record of holes
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "modify_ldt": (154, None),
    "memfd_secret": (447, 447),  # memory that no watchdog can count
    # files by handle walk around every path
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    "lookup_dcookie": (212, 18),
    # the machine itself
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "create_module": (174, None),
    "query_module": (178, None),
    "get_kernel_syms": (177, None),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "iopl": (172, None),
    "ioperm": (173, None),
    "vhangup": (153, 58),
    "nfsservctl": (180, 42),
    "uselib": (134, None),
    "ustat": (136, None),
    "sysfs": (139, None),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
}
# Without a namespace of its own a box would share these with every process of its user.
SHARED: dict[str, tuple[int | None, int | None]] = {
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
}
# Calls that depend on their arguments.
CLONE, CLONE3, IOCTL, PERSONALITY = (56, 220), (435, 435), (16, 29), (135, 92)
FALLOCATE, PRLIMIT, SETPRIORITY = (285, 47), (302, 261), (141, 140)
SOCKET, SOCKETPAIR, SENDTO, SENDMSG, SENDMMSG = (41, 198), (53, 199), (44, 206), (46, 211), (307, 269)

NEW_NAMESPACES = 0x7E020000  # CLONE_NEWNS|CGROUP|UTS|IPC|USER|PID|NET; NEWTIME is part of the signal number here
TERMINAL_INJECTION = (0x5412, 0x541C, 0x5423)  # TIOCSTI, TIOCLINUX, TIOCSETD
HARMLESS_PERSONALITIES = (0x0, 0x0008, 0x20000, 0x20008, 0xFFFFFFFF)  # Linux, 32 bit, UNAME26, both, and reading
FREEING_SPACE = (0x03, 0x08)  # punch a hole, collapse a range
MSG_FASTOPEN = 0x20000000
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
SOCK_STREAM, SOCK_SEQPACKET, SOCK_TYPES = 1, 5, 0xF
IP_PROTOCOLS = (0, 6, 17, 1, 58)  # the type's own, TCP, UDP, and the pings
TCP_ONLY = (0, 6)  # MPTCP and SCTP are streams that Landlock does not see
SOCKETS = ("any", "tcp", "none")

LOAD, AND, RETURN = 0x20, 0x54, 0x06
EQUAL, GREATER, AT_LEAST, ANY_BIT = 0x15, 0x25, 0x35, 0x45
KILL, ERRNO, ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
# Made once in the nursery, and there for all boxes of its supervisors.
_MADE: dict[tuple[str, str], bytes] = {}


def program(machine: str, sockets: str = "any") -> bytes:
    """The filter for a machine as `uname -m` names it.

    `sockets`: "any" is for a box with a network namespace of its own. "tcp" and "none" are for one that shares the
    host's, next to Landlock: only TCP, or no network, and of AF_UNIX only pairs, because the user's message bus is a
    pathname socket.
    """
    if machine not in MACHINES:
        raise ValueError(f"no system call filter for {machine}: it is made for x86_64 and aarch64")
    if sockets not in SOCKETS:
        raise ValueError(f"sockets is one of {', '.join(SOCKETS)}, not {sockets!r}")
    if (machine, sockets) not in _MADE:
        _MADE[machine, sockets] = _made(*MACHINES[machine], sockets)
    return _MADE[machine, sockets]


def _made(architecture: int, column: int, sockets: str) -> bytes:
    code = [_op(LOAD, 4), _op(EQUAL, architecture, 1), _op(RETURN, KILL), _op(LOAD, 0)]
    # -1 is how a tracer skips a call, not x32.
    code += [_op(AT_LEAST, X32, 0, 3), _op(EQUAL, 0xFFFFFFFF, 0, 1), _refuse(ENOSYS), _op(RETURN, KILL)]
    code += [_op(GREATER, NEWEST, 0, 1), _refuse(ENOSYS)]
    return b"".join([*code, *_search(sorted(_cases(column, sockets).items()))])


def _cases(column: int, sockets: str) -> dict[int, list[bytes]]:
    """What to do about each call that is not simply allowed."""
    denied = DENIED if sockets == "any" else DENIED | SHARED
    numbers = [number for call in denied.values() if (number := call[column]) is not None]
    cases = {number: [_refuse(EPERM)] for number in numbers}
    # The C library asks for clone3 first and falls back: its flags lie in memory, where no filter can see them.
    cases[CLONE3[column]] = [_refuse(ENOSYS)]
    cases[CLONE[column]] = [_argument(0), _op(ANY_BIT, NEW_NAMESPACES, 0, 1), _refuse(EPERM), _allow()]
    cases[IOCTL[column]] = [_argument(1), *_among(TERMINAL_INJECTION, _refuse(EPERM)), _allow()]
    cases[PERSONALITY[column]] = [_argument(0), *_among(HARMLESS_PERSONALITIES, _allow()), _refuse(EPERM)]
    # Space in no time is faster than any watchdog; where a filesystem cannot do it either, programs write instead.
    cases[FALLOCATE[column]] = [_argument(1), *_among(FREEING_SPACE, _allow()), _refuse(EOPNOTSUPP)]
    cases[SOCKET[column]] = _socket(sockets)
    cases[SOCKETPAIR[column]] = _socketpair(sockets)
    if sockets != "any":
        # Its own limits and priority only: without a pid namespace every process of its user is in reach.
        own = [_argument(0), _op(EQUAL, 0, 1), _refuse(EPERM)]
        cases[PRLIMIT[column]] = [*own, _allow()]
        cases[SETPRIORITY[column]] = [*own, _argument(1), _op(EQUAL, 0, 0, 1), _allow(), _refuse(EPERM)]
    if sockets == "tcp":
        # A fast open connects without Landlock's connect check (landlock-lsm/linux#41).
        for call, flags in ((SENDTO, 3), (SENDMSG, 2), (SENDMMSG, 3)):
            cases[call[column]] = [_argument(flags), _op(ANY_BIT, MSG_FASTOPEN, 0, 1), _refuse(EPERM), _allow()]
    return cases


def _search(cases: list[tuple[int, list[bytes]]]) -> list[bytes]:
    """Find a call's case by halving: the kernel walks this for every call it knows when the filter is loaded."""
    if len(cases) > 3:
        middle = len(cases) // 2
        below = _search(cases[:middle])
        return [_op(AT_LEAST, cases[middle][0], len(below)), *below, *_search(cases[middle:])]
    code: list[bytes] = []
    for number, block in cases:
        code += [_op(EQUAL, number, 0, len(block)), *block]
    return [*code, _allow()]


def install(code: bytes) -> None:
    """Put a filter on the calling thread and on all that comes from it, for good; OSError if the kernel refuses."""
    filters = (_Byte * len(code)).from_buffer_copy(code)
    header = (len(code) // 8).to_bytes(8, "little") + _ctypes.addressof(filters).to_bytes(8, "little")
    prctl = _Native(_ctypes.dlsym(_ctypes.dlopen(None, 0), "prctl"))  # type: ignore[arg-type]
    for arguments in ((38, 1, 0, 0, 0), (22, 2, header, 0, 0)):  # PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP
        if prctl(*arguments) != 0:
            raise OSError(_ctypes.get_errno(), "the kernel refuses the system call filter")


class _Byte(_ctypes._SimpleCData):  # type: ignore[type-arg]
    _type_ = "c"


class _Native(_ctypes.CFuncPtr):
    _flags_ = 1 | 8  # the C calling convention, errno kept


def _op(code: int, value: int, true: int = 0, false: int = 0) -> bytes:
    return (code | true << 16 | false << 24 | value << 32).to_bytes(8, "little")


def _allow() -> bytes:
    return _op(RETURN, ALLOW)


def _refuse(error: int) -> bytes:
    return _op(RETURN, ERRNO | error)


def _argument(index: int) -> bytes:
    """Load the lower half: what the kernel itself reads of an int or a flag word."""
    return _op(LOAD, 16 + 8 * index)


def _among(values: tuple[int, ...], verdict: bytes) -> list[bytes]:
    code: list[bytes] = []
    for value in values:
        code += [_op(EQUAL, value, 0, 1), verdict]
    return code


def _socket(sockets: str) -> list[bytes]:
    """Families first, then what may be spoken in them; the routing netlink stays, it only lists interfaces."""
    routing = [_argument(2), _op(EQUAL, 0, 0, 1), _allow(), _refuse(EPROTONOSUPPORT)]
    code = [_argument(0), _op(EQUAL, AF_NETLINK, 0, len(routing)), *routing]
    if sockets == "any":
        code += [_op(EQUAL, AF_UNIX, 0, 1), _allow()]
    if sockets == "none":
        return [*code, _refuse(EAFNOSUPPORT)]
    code += [_op(EQUAL, AF_INET, 2), _op(EQUAL, AF_INET6, 1), _refuse(EAFNOSUPPORT)]
    if sockets == "tcp":
        code += [_argument(1), _op(AND, SOCK_TYPES), _op(EQUAL, SOCK_STREAM, 1), _refuse(EPROTONOSUPPORT)]
    protocols = TCP_ONLY if sockets == "tcp" else IP_PROTOCOLS
    return [*code, _argument(2), *_among(protocols, _allow()), _refuse(EPROTONOSUPPORT)]


def _socketpair(sockets: str) -> list[bytes]:
    """Pairs are how programs talk to their children; a datagram pair could still send to any pathname socket."""
    code = [_argument(0), _op(EQUAL, AF_UNIX, 1), _refuse(EAFNOSUPPORT)]
    if sockets != "any":
        code += [_argument(1), _op(AND, SOCK_TYPES)]
        code += [*_among((SOCK_STREAM, SOCK_SEQPACKET), _allow()), _refuse(EPROTONOSUPPORT)]
    return [*code, _allow()]
