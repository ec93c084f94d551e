"""What an agent printed, as people see it: hostile lines, huge files, half lines and terminals."""

import io
import json
import sys
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from resolvent.adapters.agents.claude_events import ClaudeListener
from resolvent.cli.printing import Printer
from resolvent.cli.terminal import Terminal
from resolvent.cli.transcripts import Heard, Hearing, LastWords, Teller, usage_line
from resolvent.domain.job import Usage
from resolvent.domain.record import JobRow
from resolvent.domain.transcript import FileChanged, Noticed, Retried, Said, Spent, Thought, ToolAnswered, ToolCalled
from resolvent.reading import Log

PLAIN = Terminal(sys.stdout, live=False, colour=False, width=80)
ENDED = JobRow(id="j1", run="r1", step="s1", name="implement", agent="claude", state="ended", exit=0)


def event(kind: str, **block: object) -> bytes:
    """One line of stream-json with one block."""
    return json.dumps({"type": kind, "message": {"content": [block]}}).encode() + b"\n"


def said(text: str) -> bytes:
    return event("assistant", type="text", text=text)


def moments(path: Path, *, over: bool = True) -> list[Heard]:
    return list(Hearing(path, ClaudeListener()).more(over=over))


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "output"


STORY = (
    said("first")
    + event("assistant", type="tool_use", id="a", name="Write", input={"file_path": "/workspace/x", "content": "é" * 9})
    + event("user", type="tool_result", tool_use_id="a", content="done")
    + b"warning: printed beside the events\n"
    + said("last")
)


@pytest.mark.parametrize("step", [1, 7, 4096])
def test_the_same_is_heard_however_the_lines_come(output: Path, step: int) -> None:
    output.write_bytes(STORY)
    whole = moments(output)
    assert [heard for heard in whole if isinstance(heard, str)] == ["warning: printed beside the events"]
    output.write_bytes(b"")
    hearing, heard = Hearing(output, ClaudeListener()), list[Heard]()
    for at in range(0, len(STORY), step):
        with output.open("ab") as file:
            file.write(STORY[at : at + step])
        heard += hearing.more(over=False)
    assert heard + list(hearing.more(over=True)) == whole


def test_half_a_line_is_waited_for_unless_nobody_writes_any_more(output: Path) -> None:
    output.write_bytes(said("whole") + said("half")[:-1])
    assert moments(output, over=False) == [Said(text="whole")]
    assert moments(output) == [Said(text="whole"), Said(text="half")]


def test_an_output_is_caught_up_with_in_pieces(output: Path) -> None:
    output.write_bytes(b"".join(said(f"{number}") for number in range(100)))
    hearing, heard, looks = Hearing(output, ClaudeListener()), list[Heard](), 0
    while more := list(hearing.more(over=True, most_bytes=1000)):
        heard, looks = heard + more, looks + 1
    assert heard == moments(output) and looks > 5


HOSTILE = {
    "no UTF-8": b"\xff\xfe{\xc3\n",
    "deep": b'{"type":' + b"[" * 100_000 + b"\n",
    "wrong types": b'{"type":["assistant"],"message":7}\n{"type":"assistant","message":{"content":{"type":1}}}\n',
    "huge": b'{"type":"assistant","x":"' + b"x" * (33 << 20) + b'"}\n',
    "no end": b"x" * (3 << 20),
    "surrogates": rb'{"type":"assistant","message":{"content":[{"type":"text","text":"\ud800"}]}}' + b"\n",
    "terminal": said("a\x1b]0;owned\x07b\x1b[2J\u202ec") + event("assistant", type="tool_use", id="1", name="\x1b[2J"),
    "empty": b"\n\n{}\n",
    "unknown answer": event("user", type="tool_result", tool_use_id="z", content=[{"type": "text", "text": "\x9b2J"}]),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_no_line_breaks_the_view_or_commands_the_terminal(output: Path, name: str) -> None:
    output.write_bytes(HOSTILE[name] + b"\n" + said("still here"))
    teller = Teller(PLAIN)
    lines = [line for heard in moments(output) for line in teller.lines(heard)]
    assert lines[-1] == "still here"
    shown = "\n".join(lines)
    assert not any(mark in shown for mark in "\x1b\x9b\x07\u202e") and shown.encode("utf-8", "strict")


def test_each_kind_of_moment_has_its_own_line() -> None:
    teller = Teller(PLAIN)
    told: list[Heard] = [
        Thought(text="hm"),
        ToolCalled(call="1", tool="Bash", input="ls\n  -la"),
        ToolAnswered(call="1", output="\n".join(map(str, range(20)))),
        ToolCalled(call="2", tool="Edit", input='{"file_path": "/workspace/a", "old": "", "new": "b"}'),
        ToolCalled(call="3", tool="Read", input='{"file_path": "/x"}'),
        ToolAnswered(call="2", output="no", failed=True),
        FileChanged(path="/workspace/a/b", change="add"),
        Retried(attempt=2, status=529, reason="overloaded", delay_s=1.5),
        Noticed(text="a server did not start"),
        Spent(usage=Usage(usd=0.5, input_tokens=1200, cached_tokens=1000, output_tokens=3)),
        Said(text='{"verdict": "DONE", "reason": ""}'),
        Said(text="two\nlines"),
    ]
    assert [line for moment in told for line in teller.lines(moment)] == [
        "  hm",
        "→ Bash  ls -la",
        *(f"  │ {number}" for number in range(8)),
        "  │ … 12 more lines",
        "→ Edit  file_path=/workspace/a new=b",
        "→ Read  /x",
        "  Edit gave:",
        "  │ no",
        "✎ a/b (new)",
        "↻ asks its model again in 1.5s (attempt 2): 529 overloaded",
        "● a server did not start",
        "→ answers  verdict=DONE",
        "two",
        "lines",
    ]
    assert usage_line(teller.spent) == "$0.50 · 1.2k tokens in (1.0k cached), 3 out"
    assert usage_line(Usage(input_tokens=5)) == "price not known · 5 tokens in, 0 out" and usage_line(Usage()) == ""


def test_an_answer_of_any_depth_is_shown() -> None:
    teller = Teller(PLAIN)
    for depth in range(900, 1010):
        (line,) = teller.lines(Said(text=f'{{"a": 1, "b": {"[" * depth}{"]" * depth}}}'))
        assert line


def test_wide_letters_without_end_are_cut_quickly(output: Path) -> None:
    wide = Terminal(sys.stdout, live=False, colour=False, width=10_000)
    given = ToolCalled(call="1", tool="Bash", input="漢" * 60_000)
    begun = time.monotonic()
    (line,) = Teller(wide).lines(given)
    assert len(line) < 400 and line.endswith("…") and time.monotonic() - begun < 1


def test_last_words_are_the_last_lines_and_what_was_spent_by_then(output: Path) -> None:
    spent = b'{"type":"result","total_cost_usd":0.25,"usage":{"input_tokens":10,"output_tokens":2}}\n'
    output.write_bytes(b"".join(said(f"{number}\n\n{number}") for number in range(9)) + spent)
    words = LastWords(output, ClaudeListener(), PLAIN, most=3)
    words.listen(most_bytes=1 << 20)
    assert words.lines == ["7", "8", "8"] and words.spent.usd == 0.25
    output.write_bytes(output.read_bytes() + said("new"))
    words.listen(most_bytes=1 << 20)
    assert words.lines == ["8", "8", "new"]


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.TextIOWrapper]:
    made = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    monkeypatch.setattr(sys, "stdout", made)
    yield made


def test_a_huge_output_is_shown_by_its_end_in_little_memory(output: Path, stream: io.TextIOWrapper) -> None:
    line = event("user", type="tool_result", tool_use_id="a", content="x" * 4000)
    with output.open("wb") as file:
        for _ in range(64 << 20 >> 12):
            file.write(line)
        file.write(said("the end"))
    printer = Printer(Terminal(stream, live=False, colour=False, width=80), listen=lambda _: ClaudeListener(), most=50)
    tracemalloc.start()
    printer.more(Log(ENDED, (output, output.with_name("errors"))))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    shown = stream.buffer.getvalue().decode().splitlines()  # type: ignore[attr-defined]
    assert peak < 16 << 20, f"{peak >> 20} MB"
    assert shown[0].startswith("── implement · claude") and shown[-1] == "the end" and len(shown) < 120
    assert shown[1] == f"… {(64 << 20 >> 12) + 1 - 50} moments before these: resolvent logs r1 j1 --raw"


def test_what_was_printed_is_printed_once_and_errors_with_it(output: Path, stream: io.TextIOWrapper) -> None:
    started = ENDED.model_copy(update={"state": "started"})
    errors = output.with_name("errors")
    terminal = Terminal(stream, live=False, colour=False, width=80)
    printer = Printer(terminal, listen=lambda _: ClaudeListener())
    output.write_bytes(said("one"))
    printer.more(Log(started, (output, errors)))
    output.write_bytes(said("one") + said("two")[:-1])
    errors.write_bytes(b"trouble\x1b[2J\n")
    for job in (started, ENDED, ENDED):
        printer.more(Log(job, (output, errors)))
    shown = stream.buffer.getvalue().decode().splitlines()  # type: ignore[attr-defined]
    assert shown == ["── implement · claude · started ──", "one", "  trouble", "two"]
