"""What doctor says of the sandbox on every rung, word for word, on machines that really lack the stronger ones."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from resolvent.adapters.jobs import landlock
from resolvent.adapters.workspace.files import remove_tree
from resolvent.cli.ladder import delegation

from .process import RESOLVENT

OBSTACLES = Path(__file__).parents[1] / "obstacles.py"
ROOT = os.geteuid() == 0
# The kernel's own words about what its Landlock leaves open differ from one to the next.
OPEN = " ●  sandbox lost    LANDLOCK"
GOLDEN = {
    "overlay": ((), "auto", """
 ✓  sandbox         overlay: copy-on-write branches, behind namespaces, bubblewrap and seccomp
 ●  sandbox lost    rename(2) of a directory that the commit holds fails: mv copies it instead
 ✓  sandbox user    you
 ✓  sandbox bwrap   VERSION, BWRAP
 ●  sandbox bounds  memory and disk: watched, a quick job takes more before it is ended; processes: by rlimit
"""),
    "overlay-without-proc": (("proc_masked",), "auto", """
 ✓  sandbox         overlay: copy-on-write branches, behind namespaces, bubblewrap and seccomp
 ●  sandbox lost    parts of /proc are masked, as in a container: boxes cannot have their own
     next: docker run --security-opt systempaths=unconfined … (podman: --security-opt unmask=ALL)
 ●  sandbox lost    rename(2) of a directory that the commit holds fails: mv copies it instead
 ✓  sandbox user    you
 ✓  sandbox bwrap   VERSION, BWRAP
 ●  sandbox bounds  memory and disk: watched, a quick job takes more before it is ended; processes: by rlimit
"""),
    "overlay-by-the-wheel": (("system_bwrap_gone",), "overlay", """
 ✓  sandbox         overlay: copy-on-write branches, behind namespaces, bubblewrap and seccomp
 ●  sandbox lost    rename(2) of a directory that the commit holds fails: mv copies it instead
 ✓  sandbox user    you
 ✓  sandbox bwrap   VERSION, BWRAP, from its wheel
 ●  sandbox bounds  memory and disk: watched, a quick job takes more before it is ended; processes: by rlimit
"""),
    "memory": (("store_on_overlay",), "auto", """
 ●  sandbox         memory: copy-on-write branches in memory, behind namespaces, bubblewrap and seccomp
 ●  sandbox lacks   overlay: no branch can lie on overlayfs, as in a container: STATE/sandbox
     next: docker run -v resolvent:/state -e RESOLVENT_HOME=/state …
 ●  sandbox lost    rename(2) of a directory that the commit holds fails: mv copies it instead
 ●  sandbox lost    a reboot takes every branch that was not published
 ●  sandbox lost    all branches share SIZE of /dev/shm
 ✓  sandbox user    you
 ✓  sandbox bwrap   VERSION, BWRAP
 ●  sandbox bounds  memory and disk: watched, a quick job takes more before it is ended; processes: by rlimit
"""),
    "copy": (("store_on_overlay", "memory_narrow"), "auto", """
 ●  sandbox         copy: a copy for each branch, behind namespaces, bubblewrap and seccomp
 ●  sandbox lacks   overlay: no branch can lie on overlayfs, as in a container: STATE/sandbox
     next: docker run -v resolvent:/state -e RESOLVENT_HOME=/state …
 ●  sandbox lacks   memory: /dev/shm has 64 MB left: branches need 256 or more
     next: docker run --shm-size=4g …
 ●  sandbox lost    a branch takes as much time and room as the repository is big
 ✓  sandbox user    you
 ✓  sandbox bwrap   VERSION, BWRAP
 ●  sandbox bounds  memory and disk: watched, a quick job takes more before it is ended; processes: by rlimit
"""),
    "landlock": (("namespaces_off",), "auto", f"""
 ●  sandbox         landlock: a copy for each branch, behind Landlock and seccomp, without namespaces
 ●  sandbox lacks   overlay, memory and copy: user namespaces are turned off: user.max_user_namespaces is 0
     next: echo user.max_user_namespaces=15000 | sudo tee /etc/sysctl.d/90-resolvent.conf && sudo sysctl --system
 ●  sandbox lost    a branch takes as much time and room as the repository is big
 ●  sandbox lost    no network at all, whatever sandbox.network says
 ●  sandbox lost    no /tmp and no /proc of their own
{OPEN}
 ✓  sandbox user    you
 ●  sandbox bounds  memory and disk: watched, a quick job takes more before it is ended; processes: by rlimit
"""),
    "none": (("bwrap_gone", "landlock_filtered"), "auto", """
 ✗  sandbox         none: without walls agents and checks can do whatever you can
     next: mend one of these, or add --unsafe to a run
 ●  sandbox lacks   overlay, memory and copy: bubblewrap is not installed
     next: sudo apt-get install --yes bubblewrap
 ●  sandbox lacks   landlock: a seccomp filter forbids Landlock, or this kernel has none
     next: docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined …
"""),  # noqa: E501
    "not-as-asked": (("namespaces_filtered",), "overlay", """
 ✗  sandbox         sandbox.rung = "overlay" does not work here: a seccomp filter forbids user namespaces, as in a container
     next: docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined …
"""),  # noqa: E501
    "plain": (("bwrap_gone", "landlock_filtered"), "plain", """
 ✗  sandbox         plain: a copy for each branch, no walls: every run needs --unsafe
     next: set sandbox.rung = "auto" in resolvent.toml; or add --unsafe to every run
 ●  sandbox lost    a branch takes as much time and room as the repository is big
 ●  sandbox lost    agents and checks can read, change and send whatever you can
"""),
}  # fmt: skip


@dataclass(frozen=True)
class Patient:
    """A repository with a state of its own, looked at by somebody who is not root."""

    top: Path

    def doctor(self, *words: str, obstacles: tuple[str, ...], rung: str, more: str = "") -> tuple[int, str]:
        project = self.top / "project"
        (project / "resolvent.toml").write_text(
            f'[agents]\nwriter = "x"\nreader = "x"\nx = {{ use = "command", command = ["true"] }}\n'
            f'[sandbox]\nrung = "{rung}"\n{more}'
        )
        if ROOT and "person" in obstacles:
            for path in (self.top, *self.top.rglob("*")):
                os.chown(path, 54321, 54321, follow_symlinks=False)
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.top / "home"),
            "RESOLVENT_HOME": str(self.top / "state"),
            "OBSTACLES": str(self.top),
        }
        command = [sys.executable, str(OBSTACLES), *obstacles, "--", *RESOLVENT, "doctor", *words]
        done = subprocess.run(command, cwd=project, env=environ, capture_output=True, text=True, check=False)
        assert done.returncode in (0, 2), done.stderr
        return done.returncode, self._normal(done.stdout)

    def _normal(self, text: str) -> str:
        text = text.replace(str(self.top / "state"), "STATE")
        text = re.sub(r"\d+\.\d+\.\d+, /[^\s,\"]*/bwrap", "VERSION, BWRAP", text)
        text = re.sub(r"\d+\.\d GB", "SIZE", text)
        # Where the distribution's own is not installed, it is always the wheel's.
        text = text if shutil.which("bwrap") else text.replace("BWRAP, from its wheel", "BWRAP")
        for number, sentence in enumerate(landlock.unenforced()):
            text = re.sub(rf"( *●  sandbox lost +)?{re.escape(sentence)}\n?", OPEN + "\n" if number == 0 else "", text)
        return text


def sandbox_lines(text: str) -> str:
    """The lines about the sandbox, each with what to type."""
    kept, ours = [], False
    for line in text.splitlines():
        ours = line[4:].startswith("sandbox") or (ours and line.startswith("     next: "))
        # How wide a column is depends on what else is looked at.
        kept += [re.sub(r"^( .  sandbox(?: [a-z]+)?) +", lambda name: f"{name[1]:<20}", line)] if ours else []
    return "\n".join(["", *kept, ""])


@pytest.fixture
def patient() -> Iterator[Patient]:
    with tempfile.TemporaryDirectory(prefix="doctor-") as top:
        os.chmod(top, 0o755)
        for name in ("project", "state", "home"):
            (Path(top) / name).mkdir()
        subprocess.run(["git", "init", "-q", str(Path(top) / "project")], check=True)
        yield Patient(Path(top))
        digest = hashlib.sha256(os.fsencode(Path(top) / "state")).hexdigest()[:12]
        for place in Path("/dev/shm").glob(f"resolvent-*-{digest}"):
            remove_tree(place)
        # Overlays leave a directory that even its owner cannot enter.
        for left in Path(top).iterdir():
            remove_tree(left) if left.is_dir() else left.unlink()


@pytest.mark.spec("B14", "B15")
@pytest.mark.parametrize("name", GOLDEN)
def test_doctor_says_which_rung_what_it_loses_and_what_to_type(patient: Patient, name: str) -> None:
    obstacles, rung, golden = GOLDEN[name]
    code, said = patient.doctor(obstacles=("person", "cgroups_gone", *obstacles), rung=rung)
    assert sandbox_lines(said) == (golden if shutil.which("bwrap") else golden.replace(", from its wheel", ""))
    assert code == (2 if "✗" in golden else 0), said


def test_the_guide_shows_what_doctor_really_says() -> None:
    guide = (Path(__file__).parents[2] / "docs/guide/sandbox.md").read_text()
    shown = [block for block in re.findall(r"^```\n(.*?)^```$", guide, re.M | re.S) if "●" in block]
    assert len(shown) == 2
    assert shown[0].replace("0.8.0, /usr/bin/bwrap", "VERSION, BWRAP") == GOLDEN["overlay"][2].removeprefix("\n")
    assert GOLDEN["landlock"][2].removeprefix("\n").startswith(shown[1])


@pytest.mark.parametrize(("booted", "session"), [(True, True), (True, False), (False, True)])
def test_a_cgroup_is_only_promised_where_systemd_can_give_one(tmp_path: Path, booted: bool, session: bool) -> None:
    system, tools, runtime = tmp_path / "booted", tmp_path / "tools", tmp_path / "runtime"
    for place, there in ((system, booted), (runtime / "systemd", session), (tools, True)):
        place.mkdir(parents=True) if there else None
    if session:
        (runtime / "systemd/private").touch()
    (tools / "systemd-run").touch(mode=0o755)
    environ = {"PATH": str(tools), "XDG_RUNTIME_DIR": str(runtime)}
    assert bool(delegation(environ, booted=str(system))) == (booted and (session or ROOT))
    assert ("--user" in delegation(environ, booted=str(system))) == (booted and session and not ROOT)
    assert delegation({"PATH": "/nowhere"}, booted=str(system)) == ""


def probes(text: str) -> list[dict[str, Any]]:
    return [probe for probe in json.loads(text)["probes"] if probe["name"].startswith("sandbox")]


MARKS = {"ok": "✓", "note": "●", "fault": "✗"}


@pytest.mark.parametrize("name", ["overlay", "memory", "none", "plain"])
def test_programs_are_told_the_same(patient: Patient, name: str) -> None:
    obstacles, rung, golden = GOLDEN[name]
    _, said = patient.doctor("--json", obstacles=("person", "cgroups_gone", *obstacles), rung=rung)
    lines = [""]
    for probe in probes(said):
        assert list(probe) == ["name", "state", "found", "fix"]
        lines.append(f" {MARKS[probe['state']]}  {probe['name']:<14}  {probe['found']}")
        lines += [f"     next: {probe['fix']}"] if probe["fix"] else []
    assert "\n".join([*lines, ""]) == golden


def test_doctor_says_what_of_the_settings_a_rung_cannot_keep(patient: Patient) -> None:
    asked = {"rung": "landlock", "more": 'quota = "1G"\nnetwork = ["api.example:443"]\n'}
    _, said = patient.doctor(obstacles=("person",), **asked)  # type: ignore[arg-type]
    assert "sandbox.quota is not kept: copies are removed by their age alone" in said
    assert "none: api.example:443 cannot be reached from this rung" in said
    _, said = patient.doctor(obstacles=("person",), **(asked | {"rung": "overlay"}))  # type: ignore[arg-type]
    assert "sandbox.quota" not in said and "api.example:443 and nothing else" in said


@pytest.mark.skipif(not ROOT, reason="needs root: it is about a root caller")
def test_root_is_told_whom_its_jobs_run_as(patient: Patient) -> None:
    code, said = patient.doctor(obstacles=(), rung="auto")
    assert code == 0
    user = re.search(r"✓  sandbox user    user (\d+), who is nobody else: you are root", said)
    assert user and 61184 <= int(user[1]) <= 65519


def test_doctor_looks_again_every_time(patient: Patient) -> None:
    assert "overlay: copy" in patient.doctor(obstacles=("person",), rung="auto")[1]
    remembered = patient.top / "state/sandbox/rung.json"
    remembered.write_text(remembered.read_text().replace('"overlay"', '"landlock"'))
    assert "overlay: copy" in patient.doctor(obstacles=("person",), rung="auto")[1]
