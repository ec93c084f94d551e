"""A repository with agents that obey, the real branch server over it, and clients as they are found in the wild."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RESOLVENT = (sys.executable, "-m", "resolvent")
COMMITTER = ("-c", "user.name=Tester", "-c", "user.email=tester@example.invalid")
# An agent that takes its prompt for a program.
OBEDIENT = '{ use = "command", command = ["sh"] }'
CONFIGURATION = f"""
[agents]
writer = "codex"
reader = "codex"
codex = {OBEDIENT}
claude = {OBEDIENT}
review_code = {OBEDIENT}
"review_agent_v1.1" = {OBEDIENT}
broken = {{ use = "command", command = ["sh", "-c", "echo half done; echo cannot go on >&2; exit 3"] }}
missing = {{ use = "command", command = ["no-such-program"] }}
"""
PLAIN = ("--unsafe", "--set", "sandbox.rung=plain")
# What the clients of the original service send.
HEADERS = {
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
    "Mcp-Session-Id": "01900000-any-id-will-do",
}
DONE = ("succeed", "finished", "manifesting", "ready_for_manifest")


def eventually(condition: Callable[[], Any], *, within_s: float = 60.0) -> Any:
    """What the condition returns once that is true."""
    deadline = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)
    return found


@dataclass
class Place:
    """A repository, a state directory, an empty home."""

    directory: Path
    manner: tuple[str, ...] = ()
    servers: list["Server"] = field(default_factory=list)
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def project(self) -> Path:
        return self.directory / "project"

    @property
    def state(self) -> Path:
        return self.directory / "state"

    @property
    def environ(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.directory / "home"),
            "RESOLVENT_HOME": str(self.state),
        } | self.extra

    def set_up(self) -> "Place":
        self.project.mkdir()
        (self.directory / "home").mkdir()
        (self.project / "resolvent.toml").write_text(CONFIGURATION, encoding="utf-8")
        (self.project / "value.txt").write_text("bad\n", encoding="utf-8")
        (self.project / ".gitignore").write_text("built/\n", encoding="utf-8")
        self.git("init", "-q", "-b", "main")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "first")
        return self

    def git(self, *words: str) -> str:
        return subprocess.run(
            ["git", *COMMITTER, *words], cwd=self.project, check=True, capture_output=True, text=True, env=self.environ
        ).stdout.strip()

    def serve(self, *words: str) -> "Server":
        """The real process, once it listens."""
        server = Server(self, ("--http", "127.0.0.1:0", *words) if "--http" not in words else words)
        self.servers.append(server)
        return server

    def private(self, branch: str, prompt: int = 1) -> Path:
        """What the agent of a branch knows as the directory above its $HOME."""
        return self.state / "private" / f"{branch}.{prompt}"

    def open_gate(self, branch: str, prompt: int = 1) -> None:
        """Let an agent go on that waits at its gate; see `GATE`."""
        gate = self.private(branch, prompt) / "tmp" / "gate"
        eventually(gate.is_fifo)
        gate.write_text("go\n", encoding="utf-8")

    def at_gate(self, branch: str, prompt: int = 1) -> None:
        """Wait until the agent waits."""
        eventually((self.private(branch, prompt) / "tmp" / "gate").is_fifo)


# In a prompt: the agent stops here until the test lets it go on.
GATE = 'mkfifo "$TMPDIR/gate"; read -r go < "$TMPDIR/gate"'


class ToolFailed(Exception):
    """The call came back as an error; its text is the server's."""


class Server:
    """One process of the branch server over HTTP, and a client that knows nothing but HTTP and JSON."""

    def __init__(self, place: Place, words: tuple[str, ...]) -> None:
        self.process = subprocess.Popen(
            [*RESOLVENT, "mcp", *place.manner, *words],
            cwd=place.project,
            env=place.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout and self.process.stderr
        line = self.process.stdout.readline().strip()
        assert line.startswith("http://"), self.process.stderr.read()
        self.url = line
        self._id = 0

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1].partition("/")[0])

    def kill(self) -> None:
        """As power loss does it to a process."""
        self.process.kill()
        self.process.wait()

    def post(
        self, body: Any, *, path: str = "/mcp/sse", headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], str]:
        """The status, the headers and the text that come back."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        url = f"http://127.0.0.1:{self.port}{path}"
        request = urllib.request.Request(url, data=content, headers=headers or HEADERS)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.status, _lower(response.headers), response.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, _lower(refused.headers), refused.read().decode()

    def rpc(self, method: str, params: dict[str, Any], **more: Any) -> dict[str, Any]:
        """One request without any handshake, as the existing clients send it."""
        self._id += 1
        meta = {"ai.tidb.pantheon-ai/agent": "a skill"}
        message = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params, "_meta": meta}
        status, headers, text = self.post(message, **more)
        assert status == 200, text
        if headers["content-type"].startswith("text/event-stream"):
            lines = [line[5:].strip() for line in text.splitlines() if line.startswith("data:")]
            text = next(line for line in lines if line not in ("", "[DONE]", "DONE"))
        answer: dict[str, Any] = json.loads(text)
        return answer

    def call(self, tool: str, **arguments: Any) -> Any:
        """The payload of a tool's answer; ToolFailed when that is an error, as the existing clients see it."""
        answer = self.rpc("tools/call", {"name": tool, "arguments": arguments})
        if "error" in answer:
            raise ToolFailed(str(answer["error"]))
        payload = answer["result"].get("structuredContent", answer["result"])
        if answer["result"].get("isError") or "error" in payload:
            raise ToolFailed(str(payload["error"]))
        return payload

    def explore(self, *prompts: str, **more: Any) -> str:
        """The id of one new branch."""
        asked = {"project_name": "a-project", "parent_branch_id": "", "num_branches": 1, "agent": "codex", **more}
        answer = self.call("parallel_explore", shared_prompt_sequence=list(prompts), **asked)
        (branch,) = answer["branches"]
        return str(branch.get("branch_id") or branch["id"])

    def poll(self, branch: str) -> dict[str, Any]:
        """Ask until the branch is done, as the skills do it, only more often."""

        def asked() -> Any:
            found = self.call("get_branch", branch_id=branch)
            return found if str(found["status"]).strip().lower() in (*DONE, "failed") else None

        found: dict[str, Any] = eventually(asked)
        return found

    def end(self, branch: str) -> dict[str, Any]:
        """Ask until nothing will happen in the branch any more."""

        def asked() -> Any:
            found = self.call("get_branch", branch_id=branch)
            return found if found["ended"] else None

        found: dict[str, Any] = eventually(asked)
        return found

    def output(self, branch: str) -> str:
        return str(self.call("branch_output", branch_id=branch, full_output=True)["output"])

    def read(self, branch: str, path: str) -> str:
        return str(self.call("branch_read_file", branch_id=branch, file_path=path)["content"])


def _lower(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
