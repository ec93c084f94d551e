"""A small agent that speaks ACP over its standard input and output, well or in one of many bad ways.

It starts in no time because it is written by hand; `library` is one written with the official library instead.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

HOW, WORDS = sys.argv[1], sys.argv[2:]
SESSION = "--first"
USAGE = {"totalTokens": 130, "inputTokens": 100, "outputTokens": 30, "cachedReadTokens": 40}


class Refused(Exception):
    """An answer that is an error: code, message, and more."""


def send(message: object) -> None:
    raw(json.dumps(message).encode())


def raw(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def heard() -> dict[str, Any]:
    line = sys.stdin.buffer.readline()
    if not line:
        sys.exit(0)
    found: dict[str, Any] = json.loads(line)
    return found


def tell(what: str, /, **update: object) -> None:
    params = {"sessionId": SESSION, "update": {"sessionUpdate": what, **update}}
    send({"jsonrpc": "2.0", "method": "session/update", "params": params})


def words(text: str, kind: str = "agent_message_chunk") -> None:
    tell(kind, content={"type": "text", "text": text})


def written(text: str) -> list[dict[str, object]]:
    return [{"type": "content", "content": {"type": "text", "text": text}}]


def memory(session: str = SESSION) -> Path:
    """What was said in a session: another process can go on with it."""
    return Path(os.environ["HOME"]) / f"session{session}"


# What it answers to each method


def initialize(asked: dict[str, Any]) -> dict[str, Any]:
    can: dict[str, Any] = {"loadSession": HOW not in ("forgets", "resumes")}
    if HOW == "resumes":
        can["sessionCapabilities"] = {"resume": {}}
    version = {"newer": 7, "wrong": "one"}.get(HOW, asked["protocolVersion"])
    named = {"name": WORDS[0] if HOW == "named" else "tiny", "version": "1"}
    return {"protocolVersion": version, "agentCapabilities": can, "agentInfo": named}


def authenticate(asked: dict[str, Any]) -> dict[str, Any]:
    if asked["methodId"] != "by-key":
        raise Refused(-32602, "Invalid params", f"no method {asked['methodId']}")
    memory("login").touch()
    return {}


def begin(_: dict[str, Any]) -> dict[str, Any]:
    if HOW == "login" and not memory("login").exists():
        raise Refused(-32000, "Authentication required")
    memory().write_text("")
    return {"sessionId": SESSION}


def go_on(asked: dict[str, Any]) -> dict[str, Any]:
    if HOW == "loses" or not memory(asked["sessionId"]).exists():
        raise Refused(-32002, "Resource not found", {"uri": asked["sessionId"]})
    if HOW != "resumes":
        for said in memory().read_text().splitlines():
            words(f"you said {said}\n")
    return {}


def prompt(asked: dict[str, Any]) -> dict[str, Any]:
    said = asked["prompt"][0]["text"]
    with memory().open("a") as file:
        file.write(said + "\n")
    reason = globals().get(f"play_{HOW}", play_works)(said)
    return {"stopReason": reason or "end_turn", "usage": USAGE}


METHODS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "initialize": initialize,
    "authenticate": authenticate,
    "session/new": begin,
    "session/load": go_on,
    "session/resume": go_on,
    "session/prompt": prompt,
}


def serve() -> NoReturn:
    while True:
        asked = heard()
        if asked.get("method") not in METHODS:
            continue
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": asked["id"]}
        try:
            answer["result"] = METHODS[asked["method"]](asked["params"])
        except Refused as refused:
            code, message, *more = refused.args
            answer["error"] = {"code": code, "message": message, **({"data": more[0]} if more else {})}
        if HOW == "odd":
            # An error that is no error object.
            answer = {"jsonrpc": "2.0", "id": asked["id"], "error": ["no reason at all"]}
        send(answer)


# What a turn is


def play_works(said: str) -> None:
    """Thinks, edits a file, runs something, says so in pieces, and tells what the session cost in all."""
    words("let me see", "agent_thought_chunk")
    Path("new.txt").write_text("made\n")
    diff = {"type": "diff", "path": os.path.abspath("new.txt"), "newText": "made\n"}
    tell("tool_call", toolCallId="c1", title="Write new.txt", kind="edit", rawInput={"path": "new.txt"})
    tell("tool_call_update", toolCallId="c1", status="completed", content=[diff])
    # This one says only later what it runs, and its output comes before it is over.
    tell("tool_call", toolCallId="c2", title="Run the tests", kind="execute")
    tell("tool_call_update", toolCallId="c2", rawInput={"command": "make test"})
    tell("tool_call_update", toolCallId="c2", status="in_progress", content=written("1 failed"))
    tell("tool_call_update", toolCallId="c2", status="failed")
    for piece in (f"You said: {said}\nThe ", "verdict: ", "\nVERDICT=", "VALID"):
        words(piece)
    cost = {"amount": 0.25 * len(memory().read_text().splitlines()), "currency": "USD"}
    tell("usage_update", used=10, size=100, cost=cost)


def play_asks(_: str) -> None:
    """Wants to be allowed, in the ways its words name, and says what came of it."""
    options = [{"optionId": f"o-{kind}", "name": kind, "kind": kind} for kind in WORDS]
    asked = {"sessionId": SESSION, "toolCall": {"toolCallId": "c1", "title": "rm -rf build"}, "options": options}
    send({"jsonrpc": "2.0", "id": "p", "method": "session/request_permission", "params": asked})
    outcome = heard()["result"]["outcome"]
    words(f"{outcome['outcome']} {outcome.get('optionId', '')}")


def play_reaches(_: str) -> None:
    """Wants our files and terminals, which we do not offer, and says what came of it."""
    for method in ("fs/read_text_file", "fs/write_text_file", "terminal/create", "_made/up", "session/elicitation"):
        params = {"sessionId": SESSION, "path": "/etc/passwd", "content": "", "command": "id"}
        send({"jsonrpc": "2.0", "id": method, "method": method, "params": params})
        words(f"{method}: {sorted(heard())}\n")


def play_dies(_: str) -> None:
    words("so far\nso g")
    print(WORDS[0], file=sys.stderr, flush=True)
    sys.exit(3)


def play_killed(_: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def play_big(_: str) -> None:
    words("x" * (10 << 20) + "\nVERDICT=VALID")
    tell("tool_call", toolCallId="c1", title="Read", status="completed", content=written("y" * (10 << 20)))


def play_huge(_: str) -> None:
    words("x" * (17 << 20))


def play_refuses(_: str) -> None:
    code, message, *more = WORDS
    raise Refused(int(code), message, *map(json.loads, more))


def play_stops(_: str) -> str:
    return WORDS[0]


def play_loses(said: str) -> None:
    words("VERDICT=INVALID\n" if "could not be read" in said else "I have seen it.")


def play_spends(_: str) -> None:
    """Says that it took more tokens than any number can count."""
    USAGE["inputTokens"] = 10**400
    words("VERDICT=VALID")


def play_named(_: str) -> None:
    for said in WORDS[1:]:
        words(said)


def play_halves(_: str) -> None:
    words("half \ud800 a pair")


def play_strays(said: str) -> None:
    """Prints what is no message where only messages belong, and goes on."""
    for line in (
        b"INFO ready",
        b"\xff\xfe",
        b"[" * 100_000,
        b"[1]",
        b'"x"',
        b"12",
        b"{}",
        b'{"id": [1]}',
        b'{"method": 1}',
    ):
        raw(line)
    for params in (
        {"sessionId": SESSION, "update": {"sessionUpdate": "never_heard_of", "content": 5}},
        {"sessionId": SESSION, "update": {"sessionUpdate": "agent_message_chunk", "content": [5]}},
        {"sessionId": SESSION, "update": {"sessionUpdate": "tool_call_update", "toolCallId": None}},
        {"sessionId": 1, "_meta": {"update": 5}, "update": {}},
        [5],
        None,
    ):
        send({"jsonrpc": "2.0", "method": "session/update", "params": params})
    send({"jsonrpc": "2.0", "id": 4711, "result": "of nothing that was asked"})
    play_works(said)


def play_logs(_: str) -> None:
    """Prints a log beside its messages all the time, as long as it works."""
    for _ in range(3):
        for number in range(600):
            raw(f"INFO {number}".encode())
        words("working\n")


def play_waits(_: str) -> str:
    """Does nothing until it is cancelled."""
    ready()
    while heard().get("method") != "session/cancel":
        pass
    Path("cancelled.txt").write_text("in good order")
    return "cancelled"


def play_stubborn(_: str) -> None:
    """Does not want to end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    ready()
    while True:
        signal.pause()


def ready() -> None:
    with open(os.environ["READY"], "w") as fifo:
        fifo.write(str(os.getpid()))


def with_the_library() -> None:
    """The same as the official library of agents does it."""
    import asyncio

    import acp
    from acp import schema

    class Agent:
        client: Any

        def on_connect(self, conn: Any) -> None:
            self.client = conn

        async def initialize(self, protocol_version: int, **_: object) -> schema.InitializeResponse:
            return schema.InitializeResponse(protocol_version=protocol_version)

        async def new_session(self, **_: object) -> schema.NewSessionResponse:
            return schema.NewSessionResponse(session_id=SESSION)

        async def prompt(self, session_id: str, prompt: list[Any], **_: object) -> schema.PromptResponse:
            option = schema.PermissionOption(option_id="yes", name="Yes", kind="allow_once")
            call = schema.ToolCallUpdate(tool_call_id="c1", title="write")
            asked = self.client.request_permission(session_id=session_id, tool_call=call, options=[option])
            allowed = (await asked).outcome.outcome
            for update in (
                acp.start_edit_tool_call("c1", "Write", os.path.abspath("new.txt"), "made\n"),
                acp.update_tool_call("c1", status="completed"),
                acp.update_agent_message(acp.text_block(f"{allowed}: {prompt[0].text}")),
            ):
                await self.client.session_update(session_id=session_id, update=update)
            return schema.PromptResponse(stop_reason="end_turn")

    asyncio.run(acp.run_agent(Agent()))  # type: ignore[arg-type]


if __name__ == "__main__":
    if HOW == "library":
        with_the_library()
    while HOW == "silent":
        heard()
    while HOW == "nonsense":
        raw(b"this is no protocol")
    while HOW == "endless":
        os.write(1, b"x" * (1 << 16))
    serve()
