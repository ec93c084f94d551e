"""What a hostile agent asks of the kernel from inside of its box; run by `act.py`, and told in its words."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import pty
import signal
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING or __package__:
    from resolvent.testing.escape.inside.act import called, open_and_close, outcome, told
else:
    from act import called, open_and_close, outcome, told

NEWNS, NEWUSER = 0x20000, 0x10000000
SHORT_S = 2.0
REMOUNT, BIND, DETACH = 32, 0x1000, 2
TERMINAL_ORDERS = {"TIOCSTI": 0x5412, "TIOCLINUX": 0x541C, "TIOCSETD": 0x5423}
X32, X32_GETPID = 0x40000000, 39
# mov eax, 20; int 0x80; ret: getpid as a 32-bit program asks for it.
OLD_GETPID = b"\xb8\x14\x00\x00\x00\xcd\x80\xc3"
AF_NETLINK, AF_PACKET, AF_VSOCK, AF_ALG = 16, 17, 40, 38
NETLINK = {"audit": 9, "netfilter": 12, "uevents": 15, "generic": 16, "crypto": 21, "diagnosis": 4, "xfrm": 6}


def system_calls(numbers: dict[str, int]) -> dict[str, str]:
    """Make each call with arguments that mean nothing: one that reaches the kernel finds fault with them."""
    nothing = ctypes.c_long(-1)
    return {name: called("syscall", ctypes.c_long(number), *(nothing,) * 6) for name, number in numbers.items()}


def namespaces(clone: int, clone3: int) -> dict[str, str]:
    """Be root of a new user namespace, by every way there is."""
    found = {"unshare user": called("unshare", NEWUSER), "unshare mounts": called("unshare", NEWNS)}
    found["clone"] = _forked(clone, ctypes.c_long(NEWUSER | signal.SIGCHLD), *(ctypes.c_long(0),) * 4)
    # The flags lie in memory: struct clone_args of 88 bytes, the exit signal at 32.
    wish = NEWUSER.to_bytes(8, "little") + bytes(24) + int(signal.SIGCHLD).to_bytes(8, "little") + bytes(48)
    found["clone3"] = _forked(clone3, wish, ctypes.c_long(len(wish)))
    for path in ("/proc/self/ns/mnt", "/proc/1/ns/mnt", "/proc/1/ns/user", "/proc/1/ns/net"):
        try:
            space = os.open(path, os.O_RDONLY)
        except OSError as error:
            found[f"setns {path}"] = told(error)
        else:
            found[f"setns {path}"] = called("setns", space, 0)
    found["setuid 0"] = outcome(os.setuid, 0)
    return found


def _forked(number: int, *arguments: object) -> str:
    child = ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(number), *arguments)
    if child == 0:
        os._exit(0)
    if child < 0:
        return errno.errorcode.get(ctypes.get_errno(), "failed")
    os.waitpid(child, 0)
    return "done"


def mounts() -> dict[str, str]:
    """Mount, move and remove what the box is made of."""
    return {
        "tmpfs": called("mount", b"tmpfs", b"/tmp", b"tmpfs", 0, None),
        "proc": called("mount", b"proc", b"/tmp", b"proc", 0, None),
        "bind": called("mount", b"/usr", b"/tmp", None, BIND, None),
        "remount /usr for writing": called("mount", None, b"/usr", None, REMOUNT | BIND, None),
        "remount / for writing": called("mount", None, b"/", None, REMOUNT | BIND, None),
        "unmount /usr": called("umount2", b"/usr", DETACH),
        "unmount /tmp": called("umount2", b"/tmp", DETACH),
        "chroot": outcome(os.chroot, "/tmp"),
    }


def terminal() -> dict[str, str]:
    """Type into a terminal: the host's if it can be found, and one of our own to see whether the kernel lets us."""
    found = {}
    for path in ("/dev/tty", "/dev/console", "/dev/tty0", "/dev/tty1", "/dev/pts/0", "/dev/vcs"):
        found[f"open {path}"] = outcome(open_and_close, path, os.O_RDWR | os.O_NOCTTY)
    try:
        _, ours = pty.openpty()
    except OSError:
        ours = 0
    for name, order in TERMINAL_ORDERS.items():
        found[name] = outcome(fcntl.ioctl, ours, order, b"x")
        # The kernel reads 32 bits of the request: what stands above them must not hide it from a filter.
        high = ctypes.c_ulong(order | 1 << 32)
        number = ctypes.c_long(16 if os.uname().machine == "x86_64" else 29)
        found[f"{name} in 64 bits"] = called("syscall", number, ctypes.c_long(ours), high, b"x\0\0\0")
    return found


def foreign_calls() -> dict[str, str]:
    """Calls of another architecture, whose numbers mean something else to a filter: by `int 0x80`, and in x32."""
    if os.uname().machine != "x86_64":
        return {}
    return {"int 0x80": _in_a_child(_by_interrupt), "x32": _in_a_child(_by_x32)}


def _by_interrupt() -> int:
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(OLD_GETPID)
    return int(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))())


def _by_x32() -> int:
    return int(ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(X32 + X32_GETPID)))


def _in_a_child(act: Callable[[], int]) -> str:
    child = os.fork()
    if child == 0:
        os._exit(0 if act() > 0 else 1)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return "failed" if os.WEXITSTATUS(status) else "done"


def odd_sockets() -> dict[str, str]:
    """Talk to parts of the kernel that no build needs, and ask its routing for an interface of our own."""
    found = {f"netlink {name}": outcome(_plug, AF_NETLINK, number) for name, number in NETLINK.items()}
    found["netlink: a new interface"] = outcome(_make_interface)
    found["raw packets"] = outcome(_plug, socket.AF_INET, 1)
    found["packet socket"] = outcome(_plug, AF_PACKET, 0)
    found["virtual machine socket"] = outcome(_plug, AF_VSOCK, 0)
    found["kernel cryptography"] = outcome(_plug, AF_ALG, 0)
    return found


def _plug(family: int, protocol: int) -> None:
    socket.socket(family, socket.SOCK_SEQPACKET if family == AF_ALG else socket.SOCK_RAW, protocol).close()


def _make_interface() -> None:
    # RTM_NEWLINK, to be created and acknowledged: whoever may do that is asked for more than this.
    order = (32).to_bytes(4, "little") + (16).to_bytes(2, "little") + (0x605).to_bytes(2, "little") + bytes(8 + 16)
    with socket.socket(AF_NETLINK, socket.SOCK_RAW, 0) as kernel:
        kernel.settimeout(SHORT_S)
        kernel.send(order)
        answer = kernel.recv(4096)
    number = -int.from_bytes(answer[16:20], "little", signed=True)
    if number:
        raise OSError(number, "netlink")
