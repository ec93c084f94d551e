"""The real `resolvent` process on a repository of its own."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RESOLVENT = (sys.executable, "-m", "resolvent")
COMMITTER = ("-c", "user.name=Tester", "-c", "user.email=tester@example.invalid")


@dataclass(frozen=True)
class Said:
    """What a finished process printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class Place:
    """A repository, a state directory, an empty home, and the command line over them."""

    directory: Path
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def project(self) -> Path:
        return self.directory / "project"

    @property
    def environ(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.directory / "home"),
            "RESOLVENT_HOME": str(self.directory / "state"),
            **self.extra,
        }

    def __call__(self, *words: str, timeout: float = 90.0) -> Said:
        done = subprocess.run(
            [*RESOLVENT, *words],
            cwd=self.project,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """A process that goes on while the test does; its output is read by the test."""
        return subprocess.Popen(
            [*RESOLVENT, *words],
            cwd=self.project,
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def git(self, *words: str) -> str:
        return subprocess.run(
            ["git", *COMMITTER, *words], cwd=self.project, check=True, capture_output=True, text=True, env=self.environ
        ).stdout

    def fifo(self, path: Path) -> None:
        os.mkfifo(path)
        path.chmod(0o666)

    @property
    def shared(self) -> Path:
        """A directory that agents in their boxes may write to, whoever they run as."""
        place = self.directory / "shared"
        place.mkdir(exist_ok=True)
        place.chmod(0o777)
        return place

    def agent(self, text: str) -> None:
        """Let this shell script play every role."""
        script = self.directory / "agent.sh"
        script.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        script.chmod(0o755)
        (self.project / "resolvent.local.toml").write_text(
            f'[agents]\nwriter = "shell"\nreader = "shell"\n'
            f'shell = {{ use = "command", command = ["{script}"], writes = ["{self.shared}"] }}\n',
            encoding="utf-8",
        )

    def outcome(self, run: str = "last") -> dict[str, Any]:
        document: dict[str, Any] = self("show", run, "--json").json
        return document


def processes_holding(path: Path) -> list[int]:
    """Every living process whose working directory or command line lies below that path."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            cwd = os.readlink(entry / "cwd")
            command = (entry / "cmdline").read_bytes().decode("utf-8", "replace")
            zombie = (entry / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
        except OSError:
            continue
        if not zombie and (cwd.startswith(str(path)) or f"{path}/" in command):
            found.append(int(entry.name))
    return found


def interrupt(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGINT)
