"""Which processes there are below one, and what the kernel says of them.

Part of the detached supervisor: it imports only what is built in, and nothing of ours.
"""

import posix


def threads(pid: int) -> list[str]:
    """The numbers of its threads; none when it is gone."""
    try:
        return posix.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


def descendants(pid: int) -> list[int]:
    """Every process below it, itself not; below a subreaper also one that left its session or lost its parent."""
    found, todo = [], [pid]
    while todo:
        found.append(parent := todo.pop())
        for thread in threads(parent):
            try:
                with open(f"/proc/{parent}/task/{thread}/children", "rb") as children:
                    todo.extend(int(child) for child in children.read().split())
            except OSError:
                continue  # it ended while we looked; its children have moved up to where we see them next time
    return found[1:]


def signal_all(pids: list[int], number: int) -> None:
    """Send a signal to each that is still there and ours."""
    for pid in pids:
        try:
            posix.kill(pid, number)
        except OSError:
            continue  # it ended meanwhile, or is another user's


def in_a_box(pid: int) -> bool:
    """It has a number of its own in there, and is not the one whose end ends all the others."""
    numbers = said_of(pid, (b"NSpid",))[0]
    return len(numbers) > 1 and numbers[-1] != b"1"


def threads_of(user: int) -> int:
    """How many threads a user has on this machine, as far as we may see."""
    number, total = str(user).encode(), 0
    for name in posix.listdir("/proc"):
        if name.isdecimal():
            users, count = said_of(int(name), (b"Uid", b"Threads"))
            total += int(count[0]) if count and users[:1] == [number] else 0
    return total


def born(pid: int) -> int:
    """When it began, in ticks since the boot: with it a number means one process only. 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return int(stat.read().rpartition(b")")[2].split()[19])
    except OSError:
        return 0


def boot() -> str:
    """What the kernel calls the time since it started; empty where it does not say."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as id:
            return id.read().strip()
    except OSError:
        return ""


def said_of(pid: int, names: tuple[bytes, ...]) -> list[list[bytes]]:
    """The words of the named lines of its status, in that order; none for one that is not there."""
    found: dict[bytes, list[bytes]] = {name: [] for name in names}
    try:
        with open(f"/proc/{pid}/status", "rb") as status:
            for line in status:
                name, _, said = line.partition(b":")
                if name in found:
                    found[name] = said.split()
    except OSError:
        return [[] for _ in names]
    return list(found.values())
