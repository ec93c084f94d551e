"""What doctor says of the sandbox: the rung, what it gives and loses, why no stronger one holds, and the exact fix."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from resolvent.cli.diagnosis import Probe, fault, found
from resolvent.errors import NoSandbox, ResolventError
from resolvent.wiring import PLAIN_PATH, Home

if TYPE_CHECKING:
    from resolvent.adapters.workspace.rungs import Rung, Trial

_WALLS = "behind namespaces, bubblewrap and seccomp"
# A terminal cuts what is longer than about a hundred columns.
GIVES = {
    "overlay": f"overlay: copy-on-write branches, {_WALLS}",
    "memory": f"memory: copy-on-write branches in memory, {_WALLS}",
    "copy": f"copy: a copy for each branch, {_WALLS}",
    "landlock": "landlock: a copy for each branch, behind Landlock and seccomp, without namespaces",
    "plain": "plain: a copy for each branch, no walls: every run needs --unsafe",
}
_RENAME = "rename(2) of a directory that the commit holds fails: mv copies it instead"
_COPIES = "a branch takes as much time and room as the repository is big"
LOSES: dict[str, tuple[str, ...]] = {
    "overlay": (_RENAME,),
    "memory": (_RENAME, "a reboot takes every branch that was not published"),
    "copy": (_COPIES,),
    "landlock": (_COPIES, "no network at all, whatever sandbox.network says", "no /tmp and no /proc of their own"),
    "plain": (_COPIES, "agents and checks can read, change and send whatever you can"),
}
BOOTED = "/run/systemd/system"
UNWALLED = 'set sandbox.rung = "auto" in resolvent.toml; or add --unsafe to every run'


async def sandbox(home: Home) -> list[Probe]:
    """The ladder, tried anew."""
    from resolvent.adapters.workspace.rungs import find

    path = home.environ.get("PATH", PLAIN_PATH)
    try:
        rung = await find(home.state, wanted=home.settings.sandbox.rung, path=path, fresh=True)
    except NoSandbox as error:
        tried: tuple[Trial, ...] = tuple(error.details.get("tried", ()))  # type: ignore[arg-type]
        if len(tried) < 2:
            return [fault("sandbox", error)]
        what = "none: without walls agents and checks can do whatever you can"
        mend = "mend one of these, or add --unsafe to a run"
        return [found("sandbox", what, state="fault", fix=mend), *_missed(tried)]
    except ResolventError as error:
        return [fault("sandbox", error)]
    lines = [_standing(rung), *_missed(rung.tried)]
    lines += [found("sandbox lost", what, state="note") for what in _lost(rung, quota=home.settings.sandbox.quota)]
    return [*lines, *_jobs(rung, environ=home.environ)] if rung.kind else lines


def _standing(rung: "Rung") -> Probe:
    """Where the machine stands; without walls it is a fault, also when they were turned off."""
    if rung.kind is None:
        return found("sandbox", GIVES[rung.name], state="fault", fix=UNWALLED)
    return found("sandbox", GIVES[rung.name], state="ok" if rung.name == "overlay" else "note")


def _missed(tried: "tuple[Trial, ...]") -> list[Probe]:
    """The stronger rungs, why they do not hold, and what to type."""
    from resolvent.adapters.workspace.rungs import reasons

    lines = []
    for names, trial in reasons(tried):
        name, what = ("sandbox lost", trial.why) if trial.works else ("sandbox lacks", f"{names}: {trial.why}")
        lines.append(found(name, what, state="note", fix=trial.fix))
    return lines


def _lost(rung: "Rung", *, quota: int | None) -> list[str]:
    lost = list(LOSES[rung.name])
    if quota is not None and not rung.overlay:
        lost.append("sandbox.quota is not kept: copies are removed by their age alone")
    if rung.name == "memory":
        about = os.statvfs(rung.sandbox)
        lost.append(
            f"all branches share {about.f_bavail * about.f_frsize / 2**30:.1f} GB of {Path(rung.sandbox).parent}"
        )
    if rung.name == "landlock":
        from resolvent.adapters.jobs import landlock

        lost += landlock.unenforced()
    return lost


def _jobs(rung: "Rung", *, environ: Mapping[str, str]) -> list[Probe]:
    """Whom jobs run as, what raises the walls, and who counts what they take."""
    who = "you" if rung.user is None else f"user {rung.user}, who is nobody else: you are root"
    lines = [found("sandbox user", who)]
    if rung.bwrap:
        notes = ["from its wheel"] if rung.bwrap.origin == "wheel" else []
        notes += ["setuid, which has no effect here"] if rung.bwrap.setuid else []
        lines.append(found("sandbox bwrap", ", ".join([rung.bwrap.version, rung.bwrap.path, *notes])))
    return [*lines, _bounds(environ)]


def _bounds(environ: Mapping[str, str]) -> Probe:
    """Asks the kernel for the very cgroup that a job would get."""
    from resolvent.adapters.jobs import cgroup

    made = cgroup.enter("doctor", memory=1 << 30, processes=64, cpus=1.0)
    bounds = made.bounds if made else frozenset()
    if made:
        made.remove()
    if "memory" in bounds:
        return found("sandbox bounds", f"{', '.join(sorted(bounds))}: by the kernel, in cgroups; disk: watched")
    what = "memory and disk: watched, a quick job takes more before it is ended; processes: by rlimit"
    return found("sandbox bounds", what, state="note", fix=delegation(environ))


def delegation(environ: Mapping[str, str], *, booted: str = BOOTED) -> str:
    """How to be given a cgroup; empty where no systemd is there to give one."""
    if not os.path.isdir(booted) or not shutil.which("systemd-run", path=environ.get("PATH", PLAIN_PATH)):
        return ""
    if os.geteuid() == 0:
        return "systemd-run --scope --property=Delegate=yes resolvent serve"
    # Without a session of the user's own there is nobody to ask.
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    there = runtime and os.path.exists(f"{runtime}/systemd/private")
    return "systemd-run --user --scope --property=Delegate=yes resolvent serve" if there else ""
