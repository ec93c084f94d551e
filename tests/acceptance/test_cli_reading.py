"""What a finished run shows, to people and to programs."""

import asyncio
import json
import os
import pty
import subprocess
import threading

import pytest

from resolvent.app import App
from resolvent.domain.decision import Question
from resolvent.domain.events import Recorded
from resolvent.engine.report import OutcomeDocument

from .process import RESOLVENT, Place


def seen_on_a_terminal(place: Place, *words: str) -> str:
    """What a person sees: the same process, with a terminal for its output."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*RESOLVENT, *words], cwd=place.project, env=place.environ | {"TERM": "xterm"}, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            chunk = os.read(ours, 1 << 16)
        except OSError:
            break
        if not chunk:
            break
        seen += chunk
    os.close(ours)
    process.wait()
    return seen.decode("utf-8", "replace")


def test_show_names_outcome_evidence_pull_request_and_what_next(finished: Place) -> None:
    said = finished("show")
    assert said.code == 0 and said.out.startswith("proven  r") and "\x1b" not in said.out
    for part in ("evidence", "SHOWN", "PASSED", "gate  open", "pull request  #2", "git fetch ", "resolvent pr merge 2"):
        assert part in said.out
    assert finished("show", "last").out == said.out == finished("show", said.out.split()[1][:5]).out


def test_the_fetch_line_can_be_typed(finished: Place) -> None:
    line = next(line for line in finished("show").out.splitlines() if "git fetch" in line)
    fetch = line.strip().partition(" && ")[0]
    finished.git(*fetch.split()[1:])
    document = finished.outcome()
    assert finished.git("rev-parse", "FETCH_HEAD").strip() == document["change"]


@pytest.mark.spec("O1")
def test_show_for_programs_is_the_published_document(finished: Place) -> None:
    document = OutcomeDocument.model_validate(finished.outcome())
    assert document.outcome == "proven" and document.pull_request is not None and document.gate is not None
    assert document.gate.open and document.change is not None


@pytest.mark.spec("O1")
def test_resolve_prints_one_object_after_the_published_schema(place: Place) -> None:
    said = place("resolve", "1", "--json")
    assert OutcomeDocument.model_validate(said.json).outcome == "proven"
    assert said.json == place.outcome()
    assert place("schema", "outcome").json == OutcomeDocument.model_json_schema()


READING = (
    "runs", "show", "diff", "evidence", "cost", "cost --days 2", "watch", "logs", "report", "issue ls", "issue show 1",
    "pr ls", "pr show 2", "branch ls", "agent ls", "claim ls", "doctor", "schema", "schema outcome",
)  # fmt: skip


@pytest.mark.spec("K2")
@pytest.mark.parametrize("words", READING)
def test_every_command_that_reads_prints_json_and_nothing_else(finished: Place, words: str) -> None:
    said = finished(*words.split(), "--json")
    assert said.code == 0 or words == "doctor", said
    assert isinstance(said.json, dict | list)


def test_evidence_lists_every_check_with_its_command(finished: Place) -> None:
    listed = finished("evidence", "--json").json
    assert listed == finished.outcome()["evidence"]
    said = finished("evidence").out
    assert "grep -q good value.txt" in said and said.count("SHOWN ×2") == 1


def test_cost_is_counted_per_step_and_in_all(finished: Place) -> None:
    counted = finished("cost", "--json").json
    assert [step["step"] for step in counted["steps"]] == ["analyze", "implement", "review"]
    assert counted["total"] == finished.outcome()["cost"]
    said = finished("cost").out
    assert "implement" in said and "total" in said and "$0.00" in said


def test_diff_is_a_patch_that_applies(finished: Place) -> None:
    patch = finished("diff")
    assert patch.code == 0 and "-bad\n+good\n" in patch.out
    subprocess.run(["git", "apply", "--check"], cwd=finished.project, input=patch.out, text=True, check=True)


def test_logs_are_printed_by_step(finished: Place) -> None:
    everything = finished("logs").out
    assert (
        "── analyze · shell · exit 0" in everything and "── review" in everything and "VERDICT=NEED_FIX" in everything
    )
    for name in ("review", "ask:review"):
        one = finished("logs", "last", name).out
        assert "NO_P0_P1" in one and "VERDICT" not in one
    said = finished("logs", "last", "nope")
    assert said.code == 4 and "one of: analyze" in said.err


def test_logs_of_an_ended_run_can_be_followed_to_their_end(finished: Place) -> None:
    assert finished("logs", "-f").out == finished("logs").out


@pytest.mark.spec("K5")
def test_watching_an_ended_run_tells_its_story_and_its_outcome(finished: Place) -> None:
    said = finished("watch")
    assert said.code == 0 and "\x1b" not in said.out
    story = [line for line in said.out.splitlines() if line.startswith(" ✓ implement")]
    assert len(story) == 1 and "IMPLEMENTATION_SUCCESS" in story[0]
    assert said.out.endswith(finished("show").out)


def test_followed_events_are_one_object_per_line_and_the_outcome_is_the_last(finished: Place) -> None:
    *events, last = finished("watch", "--follow", "--json").out.splitlines()
    told = [Recorded.model_validate_json(line).event.event for line in events]
    assert told[0] == "run_started" and told[-1] == "run_ended" and "gate_judged" in told
    assert json.loads(last) == finished.outcome()


def test_runs_are_listed_the_same_at_a_glance_and_by_the_application(finished: Place) -> None:
    at_a_glance = finished("runs", "--json").json
    config = finished.project / "resolvent.toml"
    store = finished.directory / "state" / "resolvent.db"
    config.write_text(f'[store]\nurl = "sqlite:///{store}"\n', encoding="utf-8")
    try:
        assert finished("runs", "--json").json == at_a_glance
    finally:
        config.unlink()
    assert [row["outcome"] for row in at_a_glance] == ["proven"]
    assert at_a_glance[0]["run"] in finished("runs").out


def test_on_a_terminal_there_are_colours_unless_one_wants_none(finished: Place) -> None:
    assert "\x1b[1;32mproven\x1b[0m" in seen_on_a_terminal(finished, "show")
    finished.extra["NO_COLOR"] = "1"
    try:
        assert "\x1b" not in seen_on_a_terminal(finished, "show")
    finally:
        finished.extra.clear()


EVIL = r"printf 'seen\033]0;owned\007 \033[2Jand \302\233red\rgone\n'"


@pytest.mark.spec("K4")
def test_what_an_agent_prints_cannot_command_a_terminal(place: Place) -> None:
    place.agent(f"{EVIL}; {EVIL} >&2; echo VERDICT=NO_ACTION_NEEDED; echo 'REASON=because \033[31mred'")
    assert place("resolve", "1").code == 0
    seen = seen_on_a_terminal(place, "logs")
    assert "seen" in seen and "\x1b]" not in seen and "\x1b[2J" not in seen and "\x9b" not in seen
    assert "\x1b[31m" not in seen_on_a_terminal(place, "show")
    raw = subprocess.run(
        [*RESOLVENT, "logs"], cwd=place.project, env=place.environ, capture_output=True, check=False
    ).stdout
    assert b"\x1b]0;owned\x07" in raw, "a file gets the bytes as they are"


def test_a_run_followed_on_a_terminal_leaves_its_story_and_report_there(place: Place) -> None:
    seen = seen_on_a_terminal(place, "resolve", "1")
    for part in ("analyze", "NEED_FIX", "implement", "gate on", "proven", "git fetch"):
        assert part in seen
    # The cursor that was hidden while the screen lived is back.
    assert seen.rfind("\x1b[?25h") > seen.rfind("\x1b[?25l")


@pytest.mark.spec("D4")
@pytest.mark.parametrize("choice", ["merge", "leave"])
def test_a_question_is_shown_with_what_to_type_and_the_answer_goes_on(place: Place, choice: str) -> None:
    said = place("resolve", "1", "--merge", "ask")
    assert said.code == 3 and "a person decides" in said.out
    run = place.outcome()["run"]
    assert f"resolvent decide {run} merge" in said.out and f"resolvent decide {run} leave" in said.out
    wrong = place("decide", run, "perhaps")
    assert wrong.code == 2 and "merge, leave" in wrong.err
    decided = place("decide", choice, "--reason", "because")
    assert decided.code == 0 and "no worker is running" in decided.out and f"resolvent watch {run}" in decided.out
    assert place("decide", choice).code == 2, "it asks nothing any more"
    after = place("watch", "--json")
    assert after.code == 0 and after.json["outcome"] == {"merge": "merged", "leave": "proven"}[choice]


def test_a_fork_starts_anew_from_a_step(place: Place) -> None:
    assert place("resolve", "1").code == 0
    first = place.outcome()
    said = place("fork", "--from", "review", "--json")
    assert said.code == 0 and said.json["outcome"] == "proven" and said.json["run"] != first["run"]
    assert said.json["change"] == first["change"]
    wrong = place("fork", first["run"], "--from", "nope")
    assert wrong.code == 4 and "ask:review" in wrong.err


def test_a_check_that_misses_a_program_is_told_of_its_box(place: Place) -> None:
    local = place.project / "resolvent.local.toml"
    local.write_text(f'{local.read_text()}[checks]\ntest = "no-such-tool --check"\n', encoding="utf-8")
    said = place("resolve", "1")
    assert said.code != 0 and "127" in said.out
    assert "see sandbox.reads (resolvent doctor)" in said.out and "see sandbox.reads" in place("show").out


def test_a_check_that_fails_for_its_own_reasons_is_not_told_of_its_box(place: Place) -> None:
    local = place.project / "resolvent.local.toml"
    local.write_text(f'{local.read_text()}[checks]\ntest = "echo wrong; false"\n', encoding="utf-8")
    said = place("resolve", "1")
    assert said.code != 0 and "sandbox.reads" not in said.out


WAITING = r"""
case "$RESOLVENT_STEP" in
  analyze) cat {shared}/analyze; {analysis} ;;
  implement) echo first words; cat {shared}/words; echo more words; cat {shared}/implement
    echo good > value.txt; echo IMPLEMENTATION_SUCCESS ;;
  review) cat {shared}/review; echo NO_P0_P1 ;;
esac
"""
ANALYSIS = r"""printf '%s\n' VERDICT=NEED_FIX BEGIN_SOLUTION_DESIGN 'root_cause: bad' 'severity: P1' \
  'approach: better' 'reproducer:' '```json' '{"command": "grep -q good value.txt", "expect": {"exit": 1}}' \
  '```' END_SOLUTION_DESIGN"""


def test_logs_are_followed_line_by_line_while_an_agent_works(place: Place) -> None:
    gates = {name: place.shared / name for name in ("analyze", "words", "implement", "review")}
    for gate in gates.values():
        place.fifo(gate)
    place.agent(WAITING.replace("{shared}", str(place.shared)).replace("{analysis}", ANALYSIS))
    working = place.start("resolve", "1", "--json")
    # The first agent waits already: from the second on every step begins while somebody follows.
    first = gates["analyze"].open("w")
    following = place.start("logs", "-f")
    late = threading.Event()

    def give_up() -> None:
        late.set()
        working.kill()
        following.kill()

    watchdog = threading.Timer(60, give_up)
    watchdog.start()
    seen: list[str] = []

    def until(text: str) -> None:
        assert following.stdout is not None
        for line in following.stdout:
            seen.append(line)
            if text in line:
                break
        assert not late.is_set(), f"{text!r} did not come while its agent waited: {seen}"

    try:
        until("── analyze · shell · started")
        first.close()
        until("── implement · shell · started")
        until("first words")
        gates["words"].open("w").close()
        until("more words")
        gates["implement"].open("w").close()
        until("── review · shell · started")
        gates["review"].open("w").close()
        until("NO_P0_P1")
        assert working.wait() == 0 and following.wait() == 0
    finally:
        watchdog.cancel()
        for process in (working, following):
            process.kill()
            process.communicate()


@pytest.mark.parametrize("words", [("go", "on"), ("go on",), ("RUN", "go", "on"), ("RUN", "go on")])
def test_a_choice_of_several_words_is_said_with_or_without_quotes_and_run(place: Place, words: tuple[str, ...]) -> None:
    assert place("resolve", "1", "--merge", "ask").code == 3
    run = place.outcome()["run"]

    async def ask() -> None:
        app = App.at(place.project, environ=place.environ)
        journal = await app.home.journal()
        question = Question(key="more", text="There is nothing left to spend.", choices=("go on", "stop"))
        await journal.ask(run, question, at=0.0)
        await journal.set_state(run, "waiting", reason="more")
        await app.home.close()

    asyncio.run(ask())
    half = place("decide", "go", "off")
    assert half.code == 2 and "go on, stop" in half.err
    assert place("decide", "rdead", "go", "on").code == 4
    said = place("decide", *(run if word == "RUN" else word for word in words))
    assert said.code == 0 and "→ go on" in said.out, said
