"""`resolvent forge serve`: what it prints is all that real git and gh need, and Ctrl-C ends it."""

import json
import os
import shlex
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

RESOLVENT = (sys.executable, "-m", "resolvent")
GH = shutil.which("gh", path=f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}")
WHO = ("-c", "user.name=Tester", "-c", "user.email=tester@example.invalid")


class Shell:
    """A person's terminal: a repository, a state directory, an empty home."""

    def __init__(self, directory: Path) -> None:
        self.project = directory / "project"
        self.project.mkdir()
        (directory / "home").mkdir()
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        state = str(directory / "state")
        self.environ = {"PATH": path, "HOME": str(directory / "home"), "RESOLVENT_HOME": state, "LC_ALL": "C.UTF-8"}

    def type(self, line: str, cwd: Path | None = None) -> str:
        """What a line typed in a shell prints; it must succeed."""
        done = self.run("bash", "-ec", line, cwd=cwd)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def run(self, *command: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        """How a program ends."""
        return subprocess.run(
            command,
            cwd=cwd or self.project,
            env=self.environ | env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def started(self, *words: str) -> subprocess.Popen[str]:
        """The server, before it said anything."""
        command = [*RESOLVENT, "forge", "serve", "--port", "0", *words]
        return subprocess.Popen(
            command, cwd=self.project, env=self.environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )


def until(process: subprocess.Popen[str], word: str) -> list[str]:
    """What it prints, up to the line with that word."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if word in line:
            return lines
    assert process.stderr is not None
    raise AssertionError(process.stderr.read())


def ended(process: subprocess.Popen[str], number: int = signal.SIGINT) -> int:
    process.send_signal(number)
    _, err = process.communicate(timeout=20)
    assert "Traceback" not in err, err
    return process.returncode


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    made = Shell(tmp_path)
    (made.project / "value.txt").write_text("bad\n")
    made.type(f"git init -q -b main && git add -A && git {' '.join(WHO)} commit -qm first")
    return made


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    """Those a test started; whatever happens they end with it."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        if process.poll() is None:
            process.kill()
            process.communicate()


def test_the_lines_it_prints_are_all_that_gh_and_git_need(
    shell: Shell, tmp_path: Path, processes: list[subprocess.Popen[str]]
) -> None:
    shell.type(f"{' '.join(RESOLVENT)} issue new 'The value is bad'")
    processes.append(process := shell.started("--repo", "acme/widget"))
    told = until(process, "Ctrl-C ends it")
    assert told[0].startswith("acme/widget is served at https://localhost:")
    exports = "\n".join(line.strip() for line in told if line.startswith("  export "))
    clone = next(line.strip() for line in told if line.startswith("  git clone https://github.com/"))
    direct = next(line.strip() for line in told if line.startswith("  git clone -c "))
    curl = next(line.strip() for line in told if " | curl " in line)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert GH is not None
    assert "The value is bad" in shell.type(f"{exports}\n{clone}", elsewhere)
    work = elsewhere / "widget"
    assert (work / "value.txt").read_text() == "bad\n"
    change = f"echo good > value.txt && git {' '.join(WHO)} commit -qam 'Make it good' && git push -q origin HEAD:topic"
    made = shell.type(
        f"{exports}\n{change} && gh pr create --head topic --title 'Make it good' --body 'Fixes #1'", work
    )
    assert made.strip() == "https://github.com/acme/widget/pull/2"
    shown = json.loads(shell.type(f"{' '.join(RESOLVENT)} pr show 2 --json"))
    assert (shown["title"], shown["author"], shown["head"]) == ("Make it good", "acme", "topic")
    (elsewhere / "direct").mkdir()
    shell.type(f"{direct} && cd widget && git fetch -q", elsewhere / "direct")
    if shutil.which("curl"):
        assert json.loads(shell.type(f"{curl} --silent"))["full_name"] == "acme/widget"
    assert ended(process) == 0


def document(process: subprocess.Popen[str]) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(until(process, "token_files")[0])
    return told


def test_tokens_are_shown_once_and_kept_for_their_owner_only(
    shell: Shell, processes: list[subprocess.Popen[str]]
) -> None:
    processes.append(first := shell.started("--repo", "acme/widget"))
    shown = "\n".join(until(first, "Ctrl-C ends it"))
    assert ended(first, signal.SIGTERM) == 0
    processes.append(second := shell.started("--repo", "acme/widget"))
    again = "\n".join(until(second, "Ctrl-C ends it"))
    assert ended(second) == 0
    processes.append(third := shell.started("--repo", "acme/widget", "--json"))
    told = document(third)
    assert ended(third) == 0
    assert set(told["token_files"]) == {"acme", "resolvent"}
    for path in map(Path, told["token_files"].values()):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        token = path.read_text().strip()
        assert token in shown
        assert token not in again
        assert token not in json.dumps(told)


def test_a_forge_of_its_own_is_kept_in_a_directory(shell: Shell, processes: list[subprocess.Popen[str]]) -> None:
    other = shell.project.parent / "my forge"
    processes.append(process := shell.started("--directory", str(other), "--json"))
    told = document(process)
    assert told["repo"].endswith("/my-forge")
    done = shell.run("git", "ls-remote", f"https://github.com/{told['repo']}", **told["environment"])
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert ended(process) == 0
    assert stat.S_IMODE(other.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--repo", "nonsense"), "is no repository"),
        (("--repo", "a/b/c"), "is no repository"),
        (("--repo", "_a/b"), "is no repository"),
        (("--port", "70000"), "is no port"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(shell: Shell, words: tuple[str, ...], said: str) -> None:
    done = shell.run(*RESOLVENT, "forge", "serve", *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


REAL = "ghp_of_the_real_github"
# What people have in theirs: each of these led out of here, or the real token in.
CONFIGURED = """\
[url "git@github.com:"]
\tpushInsteadOf = https://github.com/
[url "ssh://git@github.com/"]
\tinsteadOf = https://github.com/
[credential]
\thelper = store
[credential "https://github.com"]
\thelper = store
[http]
\tproxy = http://127.0.0.1:9
[http "https://github.com/"]
\tproxy = http://127.0.0.1:9
\textraHeader = Authorization: Basic bm9ib2R5
[core]
\tsshCommand = false
[user]
\tname = Tester
\temail = tester@example.invalid
"""
CHANGE = "git commit -q --allow-empty -m more"


@pytest.fixture
def configured(shell: Shell) -> Path:
    """The file in which git's own helper keeps the real token, in the home of somebody who configured a lot."""
    home = Path(shell.environ["HOME"])
    (home / ".gitconfig").write_text(CONFIGURED)
    kept = home / ".git-credentials"
    kept.write_text(f"https://person:{REAL}@github.com\n")
    shell.environ |= {"https_proxy": "http://127.0.0.1:9", "no_proxy": "github.com", "GIT_TERMINAL_PROMPT": "0"}
    return kept


def test_no_configuration_of_a_person_leads_elsewhere(
    shell: Shell, configured: Path, processes: list[subprocess.Popen[str]]
) -> None:
    processes.append(process := shell.started("--repo", "acme/widget"))
    told = until(process, "Ctrl-C ends it")
    exports = "\n".join(line.strip() for line in told if line.startswith("  export "))
    clone = next(line.strip() for line in told if line.startswith("  git clone https://github.com/"))
    shell.type(f"{exports}\n{clone} && {CHANGE} && git push -q origin HEAD:topic", configured.parent)
    work = configured.parent / "widget"
    assert "refs/heads/topic" in shell.type(f"{exports}\ngit ls-remote origin", work)
    # Written otherwise it is rewritten after all, and then it is not let out.
    other = shell.run("bash", "-c", f"{exports}\ngit push https://github.com/Acme/Widget HEAD:other", cwd=work)
    assert other.returncode != 0
    assert "transport 'ssh' not allowed" in other.stderr
    assert ended(process) == 0


@pytest.mark.parametrize("section", ["http", 'http "https://github.com/"', 'http "https://github.com/acme/"'])
def test_no_proxy_of_a_person_leads_to_the_real_github(
    shell: Shell, section: str, processes: list[subprocess.Popen[str]]
) -> None:
    config = f"[{section}]\n\tproxy = http://127.0.0.1:9\n\textraHeader = Authorization: Basic bm9ib2R5\n"
    (Path(shell.environ["HOME"]) / ".gitconfig").write_text(config)
    processes.append(process := shell.started("--repo", "acme/widget", "--json"))
    shell.environ |= document(process)["environment"] | {"GIT_TERMINAL_PROMPT": "0"}
    assert "refs/heads/main" in shell.type("git ls-remote https://github.com/acme/widget")
    # Others are not here, and it is we who say so.
    other = shell.run("git", "ls-remote", "https://github.com/Other/thing")
    assert "remote: Repository not found." in other.stderr
    assert ended(process) == 0


def test_a_persons_own_credentials_are_neither_told_nor_changed(
    shell: Shell, configured: Path, processes: list[subprocess.Popen[str]]
) -> None:
    before = configured.read_bytes()
    processes.append(process := shell.started("--repo", "acme/widget", "--json"))
    told = document(process)
    # As a program starts git: nothing but what it is told, and a token of its own that is for elsewhere.
    shell.environ |= told["environment"] | {"GH_TOKEN": REAL}
    page = "https://github.com/acme/widget"
    shell.type(f"git clone -q {page} && cd widget && {CHANGE} && git push -q origin HEAD:topic", configured.parent)
    assert configured.read_bytes() == before
    Path(told["token_files"]["acme"]).write_text("ghp_nobody\n")
    refused = shell.run("git", "push", "origin", "HEAD:more", cwd=configured.parent / "widget")
    assert refused.returncode != 0
    assert "Invalid username or token" in refused.stderr
    assert configured.read_bytes() == before
    assert ended(process) == 0


def test_git_is_whoever_the_token_for_gh_is(shell: Shell, processes: list[subprocess.Popen[str]]) -> None:
    processes.append(process := shell.started("--repo", "acme/widget", "--json"))
    told = document(process)
    asked = "printf 'protocol=https\\nhost=github.com\\n' | git credential fill | sed -n s/^password=//p"
    for login, path in told["token_files"].items():
        shell.environ |= told["environment"] | {"GH_TOKEN": Path(path).read_text().strip()}
        assert shell.type(asked).strip() == shell.environ["GH_TOKEN"], login
    assert ended(process) == 0


def test_where_issues_are_at_github_it_says_how_to_serve_a_new_forge(
    shell: Shell, processes: list[subprocess.Popen[str]]
) -> None:
    forge = '[forge]\nkind = "github"\nrepo = "acme_corp/widgets"\ntoken = "$NOT_SET"\n'
    (shell.project / "resolvent.toml").write_text(forge)
    done = shell.run(*RESOLVENT, "forge", "serve")
    assert done.returncode == 2
    assert "acme_corp/widgets" in done.stderr
    hint = next(line for line in done.stderr.splitlines() if "resolvent forge serve" in line)
    words = shlex.split(hint.partition("resolvent forge serve")[2])
    assert words[0] == "--directory"
    assert words[2:] == ["--repo", "acme_corp/widgets"]
    processes.append(process := shell.started(*words, "--json"))
    assert document(process)["repo"] == "acme_corp/widgets"
    assert ended(process) == 0
