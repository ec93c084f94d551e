"""Attacks by greed: what a box takes of time, output, room, processes and memory, and what stops it."""

import os
import secrets
from functools import partial

from resolvent.adapters.jobs import cgroup, wording
from resolvent.testing.escape.arena import Arena, Attack, limited
from resolvent.testing.escape.found import Broken, Found, Report, Untried, escaped, safe
from resolvent.testing.processes import with_words

MIB = 1 << 20
OUTPUT = 2 * MIB
PROCESSES = 48
MEMORY, MOST_MEMORY = 128 * MIB, 1024 * MIB
# So much that a watchdog which looks once a second only has had its turn.
DISK, MOST_DISK = 64 * MIB, 4096 * MIB
# Memory that a box takes without asking: its interpreter, and a last piece that was on its way.
ROUNDING = 16 * MIB
LATE_MEMORY, LATE_DISK = 640 * MIB, 2048 * MIB


async def outlive(arena: Arena) -> Found:
    """Leave a process behind that obeys no polite signal."""
    name = f"daemon-{secrets.token_hex(8)}"
    job, private, branch = await arena.prepare("daemonise", {}, branch=None)
    ready = f"{arena.workspace.inside(str(private))}/tmp/ready"
    asked = job.model_copy(update={"stdin": f'{{"ready": "{ready}", "name": "{name}"}}'})
    report = await arena.start(asked, private, branch)
    if "alive" not in report.said:
        raise Broken("the process never came to be")
    left = [str(pid) for pid in with_words(name.encode())]
    return escaped(f"process {', '.join(left)} lives on") if left else safe("0 left when the job had ended")


async def never_end(arena: Arena) -> Found:
    """Run for ever, deaf to every polite signal."""
    report = await arena.attack("stay", adjust=limited(wall_s=1.0, grace_s=0.2))
    if report.exit.ending != "wall":
        return escaped(f"ended by {report.exit.ending} after {report.exit.seconds:.1f} s")
    return safe(f"killed after {report.exit.seconds:.2f} s")


async def flood_output(arena: Arena) -> Found:
    """Print for ever."""
    report = await arena.attack("flood", {"most": 32 * OUTPUT}, adjust=limited(output_bytes=OUTPUT))
    kept = arena.home.jobs().output(report.job).stat().st_size
    if report.exit.ending != "output" or kept > OUTPUT:
        return escaped(f"{kept} bytes were kept, ended by {report.exit.ending}")
    return safe(f"killed after {report.exit.seconds:.2f} s, {kept >> 20} MiB kept")


async def fill(arena: Arena, *, place: str, room: int) -> Found:
    """Fill a file system that lies in memory."""
    free = os.statvfs("/dev/shm").f_bavail
    said = (await arena.attack("fill", {"place": place, "most": room + 256 * MIB})).said
    gone = (free - os.statvfs("/dev/shm").f_bavail) * os.statvfs("/dev/shm").f_frsize
    if said["bytes"] > room or gone > room + 256 * MIB:
        return escaped(f"{said['bytes'] >> 20} MiB were written to {place}")
    return safe(f"{said['ended']} after {said['bytes'] >> 20} MiB")


async def bomb(arena: Arena) -> Found:
    """Start processes without end."""
    said = (await arena.attack("fork_bomb", {"most": 4 * PROCESSES}, adjust=limited(processes=PROCESSES))).said
    if said["forks"] > PROCESSES:
        return escaped(f"{said['forks']} processes where {PROCESSES} may be")
    return safe(f"{said['ended']} after {said['forks']} of {PROCESSES}")


async def hog_memory(arena: Arena) -> Found:
    """Take memory without end."""
    bound = limited(memory_bytes=MEMORY)
    report = await arena.attack("hog_memory", {"most": MOST_MEMORY}, adjust=bound)
    if report.exit.ending != "memory":
        return escaped(f"took {report.taken >> 20} MiB of {MEMORY >> 20}, ended by {report.exit.ending}")
    if _group_bounds_memory():
        over = report.taken > MEMORY + ROUNDING
        return escaped(_overshoot(report, MEMORY)) if over else safe(f"cgroup: {_overshoot(report, MEMORY)}")
    return _late(report, MEMORY, LATE_MEMORY, "no cgroup, watchdog only")


async def hog_disk(arena: Arena, *, act: str) -> Found:
    """Fill the disk of the host, in files that can be listed or in files that cannot."""
    about = os.statvfs(arena.rung.sandbox)
    most = min(MOST_DISK, about.f_bavail * about.f_frsize // 2)
    if most < 4 * DISK:
        raise Untried(f"only {most >> 19} MiB of disk are left")
    report = await arena.attack(act, {"most": most}, adjust=limited(disk_bytes=DISK))
    if report.exit.ending != "disk":
        return escaped(f"took {report.taken >> 20} MiB of {DISK >> 20}, ended by {report.exit.ending}")
    return _late(report, DISK, LATE_DISK, "no quota, watchdog only")


def _late(report: Report, most: int, late: int, why: str) -> Found:
    """A watchdog may be late by a look, and by what is written meanwhile; later than that it is asleep."""
    said = _overshoot(report, most)
    return escaped(said) if report.taken > most + late else Found("LIMITED", f"{why}: {said}")


def _overshoot(report: Report, most: int) -> str:
    over = max(0, report.taken - most)
    return (
        f"killed at {report.taken >> 20} MiB of {most >> 20} after {report.exit.seconds:.2f} s, {over >> 20} MiB over"
    )


def _group_bounds_memory() -> bool:
    """Whether the kernel itself bounds memory here, found by asking for it."""
    group = cgroup.enter(f"prove-{os.getpid()}", memory=MEMORY, processes=None, cpus=None)
    if group is None:
        return False
    bounds = group.bounds
    group.remove()
    return "memory" in bounds


ATTACKS = (
    Attack("daemonise and outlive the job", "the pid namespace dies with its first process", outlive),
    Attack("never end", "a limit of time, then a kill", never_end),
    Attack("flood the output", "a cap in bytes, then a kill", flood_output),
    Attack("fill /dev/shm", "a sized tmpfs", partial(fill, place="/dev/shm", room=wording.SHM_BYTES), alone=True),
    Attack("fill /tmp", "a sized tmpfs", partial(fill, place="/tmp", room=wording.TMP_BYTES), alone=True),
    Attack("fill /dev", "read-only", partial(fill, place="/dev", room=0)),
    Attack("fill /", "read-only", partial(fill, place="/", room=0)),
    Attack("fork bomb", "cgroup, or a limit of its own user namespace", bomb, alone=True),
    Attack("memory hog", "cgroup, or a watchdog", hog_memory, alone=True),
    Attack("disk fill", "limit per file, and a watchdog", partial(hog_disk, act="hog_disk"), alone=True),
    Attack(
        "disk fill by removed files",
        "the watchdog counts them too",
        partial(hog_disk, act="hog_disk_unnamed"),
        alone=True,
    ),
)
