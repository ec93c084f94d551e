"""Walls: what a job in a branch may see, reach and take. Whatever is not named here is not there inside."""

import hashlib
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from resolvent.adapters.jobs.launch import PROXY
from resolvent.adapters.jobs.wording import OBJECTS, PRIVATE, TREES, WORKSPACE
from resolvent.adapters.workspace.lasting import flush
from resolvent.adapters.workspace.scratch import Scratch, settle
from resolvent.domain.job import Box, Files, Gateway, Job, Limits
from resolvent.errors import ConfigError, NoSandbox

__all__ = ["OBJECTS", "PRIVATE", "WORKSPACE", "Walls", "furnish"]

PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
# Shown in every box as they are, besides what `reads` names.
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt")
# Of /etc only what programs need to find libraries, certificates and the time: nothing there is secret.
_FILES = (
    "ld.so.cache", "ld.so.conf", "localtime", "timezone", "os-release", "debian_version", "services", "protocols",
    "mime.types", "mailcap", "inputrc", "bash.bashrc", "profile", "locale.alias",
    "ssl/openssl.cnf",
)  # fmt: skip
_MOST_LINKS = 40
_PLAIN = {
    "hosts": "127.0.0.1 localhost box\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "hostname": "box\n",
}


@dataclass(frozen=True)
class Walls:
    """One rung's walls, the same around every job of a store."""

    kind: Literal["namespaces", "landlock"]
    bwrap: str = ""
    # Whom a root caller's jobs run as; None: the caller.
    user: int | None = None
    reads: tuple[str, ...] = ()
    network: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    etc: str = ""
    proc: bool = True
    # What jobs of any agent may write on the host: no link in there is followed for them.
    written: tuple[str, ...] = ()

    def around(self, job: Job, *, files: Files, private: str, objects: str) -> Job:
        """The job in a box that shows these files; its environment and limits fitted to it."""
        own, every = _spellings(job.writes), _spellings((*self.written, *job.writes))
        reads = _existing((*self.reads, *job.reads), own=own, written=every)
        writes = _existing(job.writes, own=own, written=every)
        # Without a network of its own a box gets none, and so nobody to let it out.
        network = tuple(dict.fromkeys((*self.network, *job.network))) if self.kind == "namespaces" else ()
        box = Box(
            walls=self.kind,
            files=files,
            private=private,
            reads=reads,
            writes=writes,
            objects=objects,
            network=network,
            gateways=self._gateways(job),
            user=self.user,
            bwrap=self.bwrap,
            etc=self.etc,
            proc=self.proc,
        )
        self.give(Path(private))
        if self.etc:
            _make_room(Path(self.etc), (*reads, *writes))
        wanted = job.environment.get("PATH", "")
        environment = job.environment | {"PATH": _path(wanted, (*reads, *writes))}
        argv = (_program(job.argv[0], inside=environment["PATH"], outside=wanted), *job.argv[1:])
        if self.kind == "landlock":
            # The system's settings are there but cannot be read, at which git gives up.
            environment["GIT_CONFIG_NOSYSTEM"] = "1"
        if network:
            from resolvent.adapters.jobs.proxy import environment as proxied

            environment |= proxied(PROXY[1], allowed=network)
        cwd = job.cwd or (files.tree if self.kind == "landlock" else WORKSPACE)
        fitted = {"argv": argv, "cwd": cwd, "environment": environment, "limits": self._limited(job.limits)}
        return job.model_copy(update={"box": box, **fitted})

    def _gateways(self, job: Job) -> tuple[Gateway, ...]:
        """Those of the job, once they are known to lead somewhere; NoSandbox where there is no network to put them."""
        if job.gateways and self.kind == "landlock":
            raise NoSandbox(
                "the rung landlock has no way to a model that keeps its key outside",
                hint="resolvent doctor says what the rungs with a network of their own need here",
            )
        if job.gateways:
            from resolvent.adapters.jobs import proxy_gateway
        for gateway in job.gateways:
            try:
                proxy_gateway.upstream(gateway.upstream)
                proxy_gateway.headers(gateway.headers)
            except ValueError as error:
                raise ConfigError(f"no gateway to {gateway.upstream}: {error}", hint="resolvent doctor") from error
        return job.gateways

    def inside(self, private: str) -> str:
        """Where the job finds its private directory."""
        return private if self.kind == "landlock" else PRIVATE

    def give(self, place: Path) -> None:
        """Let the jobs' user own a directory of ours with all that is in it; once, for then a job may work in it."""
        if self.user is None or os.lstat(place).st_uid == self.user:
            return
        # The top comes last: as long as it is ours nobody else has been in there. By descriptors all the same: who
        # asks a second time may still be at it when a job is already there and puts links in our way.
        for _, _, names, here in os.fwalk(place, topdown=False):
            for name in names:
                os.chown(name, self.user, self.user, dir_fd=here, follow_symlinks=False)
            os.fchown(here, self.user, self.user)

    def _limited(self, limits: Limits) -> Limits:
        """The store's bounds where the job names none of its own."""
        ours = {
            "memory_bytes": self.limits.memory_bytes,
            "disk_bytes": self.limits.disk_bytes,
            "cpus": self.limits.cpus,
        }
        chosen = {name: value for name, value in ours.items() if getattr(limits, name) is None}
        return limits.model_copy(update=chosen | {"processes": min(limits.processes, self.limits.processes)})


def _spellings(paths: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(spelt(path) for path in paths for spelt in (os.path.abspath, os.path.realpath)))


def _existing(paths: tuple[str, ...], *, own: tuple[str, ...], written: tuple[str, ...]) -> tuple[str, ...]:
    """Without doubles and what lies in another or in the system anyway; a link stands for what it leads to as well.

    What lies below its `own` writable places is shown with them. NoSandbox when the way to anything else leads through
    a place that jobs have `written`: what they put there may lead to whatever we can read.
    """
    every: list[str] = []
    for path in map(os.path.abspath, paths):
        if path not in own and _below(path, own):
            continue
        real = _led_to(path, changed=tuple(place for place in written if place != path))
        if real is not None:
            every += (path, real)
        elif not _below(path, SYSTEM):
            raise NoSandbox(f"{path} leads through a place that jobs may write", hint=f"readlink -f {path}")
    kept: list[str] = []
    for place in sorted(dict.fromkeys(every)):
        if os.path.exists(place) and place != "/" and not _below(place, (*SYSTEM, *kept)):
            kept.append(place)
    return tuple(kept)


def _led_to(path: str, *, changed: tuple[str, ...]) -> str | None:
    """Where a path leads; None when a link on the way lies where jobs may have put it, or when there are too many."""
    here, todo, links = "", path.split("/")[::-1], 0
    while todo:
        part = todo.pop()
        if part in ("", "."):
            continue
        if part == "..":
            here = here.rpartition("/")[0]
            continue
        if _below(here, changed):
            return None
        try:
            target = os.readlink(f"{here}/{part}")
        except OSError:
            here = f"{here}/{part}"
            continue
        links += 1
        if links > _MOST_LINKS:
            return None
        here = "" if target.startswith("/") else here
        todo += target.split("/")[::-1]
    return here or "/"


def _below(path: str, places: tuple[str, ...]) -> bool:
    return any(path == place or path.startswith(place + "/") for place in places)


def _make_room(etc: Path, shown: tuple[str, ...]) -> None:
    """Have something in the /etc of boxes, which nobody can write from inside, that each of these is laid over."""
    for path in map(Path, shown):
        if not path.is_relative_to("/etc"):
            continue
        target = etc / path.relative_to("/etc")
        missing = [place for place in (target, *target.parents) if not place.exists()]
        for place in reversed(missing):
            if place == target and not path.is_dir():
                place.touch()
            else:
                place.mkdir(exist_ok=True)
            place.chmod(0o755)


def _path(wanted: str, reads: tuple[str, ...]) -> str:
    """The search path as far as it can be seen inside; the system's own always."""
    seen = [place for place in wanted.split(":") if place.startswith("/") and _below(place, (*SYSTEM, *reads))]
    return ":".join(dict.fromkeys((*seen, *PATH)))


def _program(name: str, *, inside: str, outside: str) -> str:
    """The program as a box finds it: its own of that name, else the one that was found outside and is shown to it."""
    if "/" in name or shutil.which(name, path=inside):
        return name
    return shutil.which(name, path=outside) or name


def furnish(sandbox: Path, *, user: int) -> str:
    """The directory that boxes show as /etc, made anew when the system's own has changed."""
    sources = [Path("/etc") / name for name in _FILES]
    stamps = [f"{source} {source.stat().st_mtime_ns}" for source in sources if source.exists()]
    digest = hashlib.sha256("\n".join((str(user), *stamps)).encode()).hexdigest()[:16]
    place = sandbox / f"etc-{digest}"
    if not place.is_dir():
        with Scratch(sandbox / "scratch")() as scratch:
            made = scratch / "etc"
            _furnish(made, sources, user=user)
            # Empty files that a power loss left would pass for the system's own ever after.
            flush(made)
            settle(made, place)
    return str(place)


def _furnish(made: Path, sources: list[Path], *, user: int) -> None:
    for name in TREES:
        (made / name).mkdir(parents=True, mode=0o755)
    for source in sources:
        target = made / source.relative_to("/etc")
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        if source.is_file() and source.stat().st_mode & 0o004:
            # What links of the system lead to may lie where no box looks, so the bytes are taken.
            target.write_bytes(source.read_bytes())
    people = f"root:x:0:0:root:/:/bin/sh\nagent:x:{user}:{user}:agent:{PRIVATE}/home:/bin/sh\n"
    groups = f"root:x:0:\nagent:x:{user}:\n"
    for name, text in (_PLAIN | {"passwd": people, "group": groups}).items():
        (made / name).write_text(text)
    # Whatever our own mask is: who looks at it in a box is not who made it.
    for directory, _, names in os.walk(made):
        os.chmod(directory, 0o755)
        for name in names:
            os.chmod(os.path.join(directory, name), 0o644)
