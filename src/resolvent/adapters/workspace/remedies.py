"""Why a machine cannot build a box, and the exact command with which a person mends that."""

import os
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from resolvent.domain.model import Value

FIRST_OVERLAY, FIRST_LANDLOCK = (5, 11), (5, 13)
SETUID = 7
CONTAINER = (
    "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
    "--security-opt systempaths=unconfined …"
)
UNMASK = "docker run --security-opt systempaths=unconfined … (podman: --security-opt unmask=ALL)"
VOLUME = "docker run -v resolvent:/state -e RESOLVENT_HOME=/state …"
AS_A_PERSON = "run resolvent as a normal user, in a container with: --user 1000:1000"
ELSEWHERE = "export RESOLVENT_HOME=… on ext4, xfs, btrfs or tmpfs, mounted without noexec"
TURN_ON_LANDLOCK = "put landlock into lsm= on the kernel's command line, beside: cat /sys/kernel/security/lsm"
ASK_THE_KERNEL = "unshare --user --map-current-user --mount true"


class Trouble(Value):
    """Why not, and what to type."""

    why: str
    fix: str


class Failure(Value):
    """What went wrong with a box: it could not be built, a job failed in it, or it was no box at all."""

    kind: Literal["building", "working", "leaking"]
    said: str


@dataclass(frozen=True)
class Machine:
    """What a kernel says of itself that explains why it refuses."""

    kernel: tuple[int, int]
    # What stands in /proc/sys, None where there is no such switch.
    user_namespaces: int | None
    cloning: int | None
    apparmor: int | None
    filtered: bool
    capabilities: int
    root: bool

    @classmethod
    def look(cls, proc: Path = Path("/proc")) -> "Machine":
        """This one, as it is now."""
        status = dict(re.findall(r"^(\w+):\s*(\S+)", text_of(proc / "self/status"), re.M))
        numbers = re.match(r"(\d+)\.(\d+)", text_of(proc / "sys/kernel/osrelease"))
        return cls(
            kernel=(int(numbers[1]), int(numbers[2])) if numbers else (0, 0),
            user_namespaces=_number(proc / "sys/user/max_user_namespaces"),
            cloning=_number(proc / "sys/kernel/unprivileged_userns_clone"),
            apparmor=_number(proc / "sys/kernel/apparmor_restrict_unprivileged_userns"),
            filtered=status.get("Seccomp") == "2",
            capabilities=int(status.get("CapEff", "0"), 16),
            root=os.geteuid() == 0,
        )


def explain(failure: Failure, *, rung: str, store: Path, machine: Machine) -> Trouble:
    """The cause of a failed trial, as far as the machine lets us see it."""
    if failure.kind == "leaking":
        return Trouble(why=f"the walls leak: a job could {failure.said}", fix="resolvent prove sandbox")
    if failure.kind == "working":
        return _of_work(failure.said, store)
    if rung == "landlock":
        return _of_landlock(failure.said, machine)
    if re.search(r"\bproc on |/newroot/proc\b", failure.said):
        return Trouble(why="parts of /proc are masked, as in a container: boxes cannot have their own", fix=UNMASK)
    if rung in ("overlay", "memory") and re.search(r"'(?:syscall|mount overlay)", failure.said):
        return _of_overlay(failure.said, store, machine)
    return _of_namespaces(failure.said, machine)


def _of_work(said: str, store: Path) -> Trouble:
    if said.startswith("execute"):
        return Trouble(why=f"no file can be executed there, it is mounted noexec: {store}", fix=ELSEWHERE)
    return Trouble(why=f"a job could not {said}", fix=ELSEWHERE)


def _of_namespaces(said: str, machine: Machine) -> Trouble:
    if machine.user_namespaces == 0:
        return _switched_off("user.max_user_namespaces", off=0, on=15000)
    if machine.cloning == 0 and not machine.root:
        return _switched_off("kernel.unprivileged_userns_clone", off=0, on=1)
    if machine.root and not machine.capabilities >> SETUID & 1:
        return Trouble(why="you are root and may not become anybody else, as in a container", fix=AS_A_PERSON)
    if machine.apparmor == 1:
        why = "AppArmor keeps user namespaces from programs without a profile, as on Ubuntu since 24.04"
        return Trouble(why=why, fix=profile(os.path.realpath(sys.executable)))
    if machine.filtered:
        plainly = re.search(r"unshare|namespace|uid_map|clone", said)
        what = "a seccomp filter forbids user namespaces" if plainly else f"a seccomp filter may forbid this: {said}"
        return Trouble(why=f"{what}, as in a container", fix=CONTAINER)
    return Trouble(why=f"user namespaces do not work: {said}", fix=ASK_THE_KERNEL)


def _switched_off(name: str, *, off: int, on: int) -> Trouble:
    persist = f"echo {name}={on} | sudo tee /etc/sysctl.d/90-resolvent.conf && sudo sysctl --system"
    return Trouble(why=f"user namespaces are turned off: {name} is {off}", fix=persist)


def profile(program: str) -> str:
    """The command that lets a program make user namespaces under AppArmor."""
    text = r'abi <abi/4.0>,\ninclude <tunables/global>\nprofile resolvent "%s" flags=(unconfined) {\n  userns,\n}\n'
    place = "/etc/apparmor.d/resolvent"
    return f"printf '{text}' {shlex.quote(program)} | sudo tee {place} && sudo apparmor_parser -r {place}"


def _of_overlay(said: str, store: Path, machine: Machine) -> Trouble:
    if machine.kernel < FIRST_OVERLAY:
        return _too_old(machine, "overlays without root", FIRST_OVERLAY)
    kind = filesystem(store)
    if kind == "overlay":
        return Trouble(why=f"no branch can lie on overlayfs, as in a container: {store}", fix=VOLUME)
    return Trouble(why=f"no branch can lie on {kind or 'this filesystem'}: {said} at {store}", fix=ELSEWHERE)


def _of_landlock(said: str, machine: Machine) -> Trouble:
    if "andlock" not in said and machine.root:
        return Trouble(why="root's jobs run as another user, who cannot enter root's directories", fix=AS_A_PERSON)
    if machine.kernel < FIRST_LANDLOCK:
        return _too_old(machine, "Landlock", FIRST_LANDLOCK)
    if machine.filtered:
        return Trouble(why="a seccomp filter forbids Landlock, or this kernel has none", fix=CONTAINER)
    return Trouble(why=f"Landlock does not work: {said}", fix=TURN_ON_LANDLOCK)


def _too_old(machine: Machine, what: str, first: tuple[int, int]) -> Trouble:
    had, needed = (".".join(map(str, version)) for version in (machine.kernel, first))
    return Trouble(why=f"Linux {had} has no {what}: {needed} or newer is needed", fix="uname -r")


def filesystem(path: Path) -> str:
    """The kind of filesystem a path lies on, by its mount; empty when that cannot be told."""
    wanted, found = os.path.realpath(path), ("", "")
    for line in text_of(Path("/proc/self/mountinfo")).splitlines():
        fields, _, rest = line.partition(" - ")
        place = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), fields.split()[4])
        inside = wanted == place or wanted.startswith(place.rstrip("/") + "/")
        # A later mount at the same place covers the earlier one.
        if inside and len(place) >= len(found[0]):
            found = (place, rest.split()[0])
    return found[1]


def text_of(path: Path) -> str:
    """What a file of the kernel says; nothing where there is no such file."""
    try:
        return path.read_text("utf-8", "surrogateescape")
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    text = text_of(path).strip()
    return int(text) if text.isdecimal() else None
