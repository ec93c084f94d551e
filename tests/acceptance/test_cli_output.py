"""What reaches a screen: no foreign control sequence, aligned columns, the last words of an agent."""

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resolvent import glance
from resolvent.adapters.journal.schema import SCHEMAS
from resolvent.cli.progress import Progress
from resolvent.cli.terminal import Terminal, cells, clean, fit, one_line
from resolvent.cli.views import last_lines
from resolvent.cli.words import count, money, seconds
from resolvent.domain import events
from resolvent.domain.events import Recorded

PLAIN = Terminal(io.StringIO(), live=False, colour=False, width=10_000)
NARROW = Terminal(io.StringIO(), live=True, colour=True, width=60)
CONTROL = [chr(code) for code in (*range(0x20), 0x7F, *range(0x80, 0xA0)) if chr(code) not in "\t\n"]


@pytest.mark.parametrize(
    "text",
    [
        "\x1b[31mred\x1b[0m",
        "\x1b]0;owned\x07red",
        "\x1b]8;;http://evil\x1b\\red\x1b]8;;\x1b\\",
        "\x1bPq#0;2\x1b\\red",
        "\x9b31mred",
        "r\x00e\x08d",
        "\x1b(Bred\x1b=",
        "\u202ered\u202c",
    ],
)
def test_control_sequences_are_taken_out_whole(text: str) -> None:
    assert clean(text) == "red"


@pytest.mark.spec("K4")
@given(st.text(alphabet=st.characters() | st.sampled_from([*CONTROL, "\x1b", "[", "]", "m", ";", "\\"])))
def test_nothing_a_terminal_would_obey_is_left(text: str) -> None:
    assert not set(clean(text)) & set(CONTROL)
    assert not set(one_line(text)) & {*CONTROL, "\n", "\t"}


@given(st.text(max_size=60), st.integers(min_value=0, max_value=40))
def test_a_text_is_cut_to_the_room_there_is(text: str, room: int) -> None:
    assert cells(fit(text, room)) <= room
    assert fit(text, 500) == text


def test_wide_characters_keep_columns_aligned() -> None:
    lines = PLAIN.table([["日本", "x"], ["abc", "y"], ["é", "z"]], align="<<", indent=0)
    assert [cells(line.partition(mark)[0]) for line, mark in zip(lines, "xyz", strict=True)] == [6, 6, 6]


def test_one_column_gives_way_when_a_table_is_too_wide() -> None:
    lines = NARROW.table([["name", "x" * 200, "12"], ["other", "short", "3"]], align="<=>")
    assert all(cells(clean(line)) <= 60 for line in lines)
    assert "…" in lines[0] and lines[0].endswith("12") and lines[1].endswith(" 3")


def test_colours_are_only_where_they_are_wanted() -> None:
    assert PLAIN.paint("x", "bold red") == "x"
    assert NARROW.paint("x", "bold red") == "\x1b[1;31mx\x1b[0m"


@pytest.mark.parametrize(
    ("value", "text"), [(0.04, "0.0s"), (9.94, "9.9s"), (42, "42s"), (187, "3m07s"), (3600, "1h00m"), (7500, "2h05m")]
)
def test_time_is_told_as_people_do(value: float, text: str) -> None:
    assert seconds(value) == text


def test_amounts_are_told_as_people_do() -> None:
    assert [count(number) for number in (0, 999, 5200, 1_300_000)] == ["0", "999", "5.2k", "1.3M"]
    assert [money(usd) for usd in (0, 0.1234, 0.0012)] == ["$0.00", "$0.12", "$0.0012"]


def told(event: events.Event, at: float = 0.0) -> Recorded:
    return Recorded(seq=1, run="r1", at=at, event=event)


def test_book_keeping_is_silent_unless_it_fails() -> None:
    progress = Progress(PLAIN)
    for state, lines in (("done", 0), ("failed", 1)):
        progress.take(told(events.StepStarted(step="s", verb="comment", title="comment on pr-2")))
        done = events.StepFinished(step="s", verb="comment", title="comment on pr-2", state=state, seconds=0.1)
        assert len(progress.take(told(done))) == lines
        assert progress.running == {}


@pytest.mark.parametrize(
    ("summary", "mark"), [("PASSED, exit 0", "✓"), ("SHOWN, exit 1", "✗"), ("BROKEN, exit 127", "✗")]
)
def test_a_check_that_did_not_pass_is_marked(summary: str, mark: str) -> None:
    done = events.StepFinished(step="s", verb="check", title="test on abc", state="done", seconds=1, summary=summary)
    (line,) = Progress(PLAIN).take(told(done))
    assert line.split()[0] == mark and summary in line and line.endswith("1.0s")


def test_a_step_that_outlived_a_process_counts_from_its_first_start() -> None:
    progress = Progress(PLAIN)
    progress.take(told(events.StepStarted(step="s", verb="ask", title="review"), at=100))
    done = events.StepFinished(step="s", verb="ask", title="review", state="done", seconds=0.1, summary="NO_P0_P1")
    (line,) = progress.take(told(done, at=142))
    assert line.endswith(" 42s")


def test_hostile_titles_and_summaries_stay_on_one_clean_line() -> None:
    done = events.StepFinished(
        step="s", verb="ask", title="a\x1b[2J\nb", state="failed", seconds=1, summary="x\x1b]0;y\x07\nsecond"
    )
    (line,) = Progress(NARROW).take(told(done))
    assert "\n" not in line and "\x1b[2J" not in line and "\x1b]" not in line and "second" not in line


def test_the_last_words_are_those_of_the_file_written_last(tmp_path: Path) -> None:
    output, errors = tmp_path / "output", tmp_path / "errors"
    assert last_lines((output, errors), 3) == []
    output.write_text("old\n", encoding="utf-8")
    errors.write_bytes(b"x" * 20_000 + b"\none\n\n10%\r50%\r\x1b[32m90%\x1b[0m\n\xff\tthree")
    assert last_lines((output, errors), 3) == ["one", "90%", "\ufffd   three"]


def test_a_glance_reads_the_schema_the_journal_writes() -> None:
    assert len(SCHEMAS) == glance.SCHEMA


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ('[store]\n#url = ""\n', True),
        ("# store.url = 'x'\n[policy]\n", True),
        ('[store]\nurl = "postgresql://db/x"\n', False),
        ('store.url = "$DATABASE_URL"\n', False),
        ('  store = { url = "x" }\n', False),
    ],
)
def test_a_glance_steps_back_when_another_store_may_be_named(tmp_path: Path, text: str, plain: bool) -> None:
    (tmp_path / "resolvent.toml").write_text(text, encoding="utf-8")
    found = glance.runs(tmp_path, environ={"RESOLVENT_HOME": str(tmp_path / "state")}, limit=5)
    assert found == ([] if plain else None)


def test_a_glance_at_something_that_is_no_store_is_left_to_the_application(tmp_path: Path) -> None:
    environ = {"RESOLVENT_HOME": str(tmp_path)}
    (tmp_path / "resolvent.db").write_bytes(b"this is not a database, and long enough to be sure of that" * 20)
    assert glance.runs(tmp_path, environ=environ, limit=5) is None
    (tmp_path / "resolvent.db").write_bytes(b"")
    assert glance.runs(tmp_path, environ=environ, limit=5) is None
