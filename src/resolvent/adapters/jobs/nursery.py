"""Where supervisors come from, a program of its own: `python -I -S nursery.py`, a socket on its stdin.

An interpreter takes longer to start than a whole box. This one has started, has loaded what supervisors need, and
forks one for every order that comes. It ends with whoever started it; the supervisors go on.
"""

import _signal  # type: ignore[import-not-found]
import _socket
import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from resolvent.adapters.jobs import supervise

DESCRIPTORS = 3  # the order, the supervisor's log, the job's lock
LONGEST = 8192
# The last three say what a job needs: nothing more, a way to the network, and one with TLS of our own.
STARTED, PLAIN, NETWORK, SECURE = b".", b"p", b"n", b"s"
SHOWN = 400  # so many characters of a process's command line are free to say which job it watches


def main() -> None:
    # Isolated as we are, nothing is looked for beside us unless we say so.
    sys.path.insert(0, sys.argv[0].rpartition("/")[0])
    globals()["supervise"] = __import__("supervise")
    seccomp = __import__("seccomp")
    if posix.uname().machine in seccomp.MACHINES:
        for kind in seccomp.KINDS:
            seccomp.program(posix.uname().machine, kind)
    # Nobody here waits for a supervisor that ended.
    _signal.signal(_signal.SIGCHLD, _signal.SIG_IGN)
    asked = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, 0)
    while True:
        words, descriptors = _received(asked)
        if not words:
            posix._exit(0)
        if not words.startswith(PLAIN):
            __import__("proxy")
        if words.startswith(SECURE):
            __import__("ssl")
        if posix.fork() == 0:
            _supervise(asked, words[1:], descriptors)
        for descriptor in descriptors:
            posix.close(descriptor)
        asked.send(STARTED)


def _received(asked: _socket.socket) -> tuple[bytes, list[int]]:
    room = _socket.CMSG_SPACE(4 * DESCRIPTORS)
    words, passed, _, _ = asked.recvmsg(LONGEST, room, _socket.MSG_CMSG_CLOEXEC)
    whole = b"".join(content for _, _, content in passed)
    return words, [int.from_bytes(whole[at : at + 4], sys.byteorder) for at in range(0, len(whole), 4)]


def _supervise(asked: _socket.socket, directory: bytes, descriptors: list[int]) -> None:
    """Be the supervisor of one job; returns never."""
    try:
        asked.close()
        posix.setsid()
        order, log, lock = descriptors
        for source, target in ((order, 0), (log, 1), (log, 2)):
            posix.dup2(source, target)
        posix.close(order)
        posix.close(log)
        _show(directory)
        supervise.main(directory, lock)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        raise
    finally:
        posix._exit(1)


def _show(directory: bytes) -> None:
    """Say on the command line, where `ps` looks, which job this is: it still has the words of the nursery."""
    try:
        with open("/proc/self/stat", "rb") as stat:
            end = int(stat.read().rpartition(b")")[2].split()[46])
        memory = posix.open("/proc/self/mem", posix.O_WRONLY)
        posix.pwrite(memory, directory[-SHOWN:].ljust(SHOWN), end - SHOWN - 1)
        posix.close(memory)
    except OSError:
        return  # a kernel may keep that memory from us; then it goes by the nursery's words


if __name__ == "__main__":
    main()
