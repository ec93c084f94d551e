"""When a turn is stopped, what tokens cost, and how patient we are: tables without a process."""

import json
from pathlib import Path

import pytest

from resolvent.domain.job import Usage
from resolvent.domain.prices import Price, price_of, priced
from resolvent.domain.transcript import MOMENT, Moment, Retried, Said, Spent, ToolAnswered, ToolCalled, shortened
from resolvent.engine.breakers import Breakers
from resolvent.engine.judging import REPEATS, Judge, Stop, judged
from resolvent.engine.world import Backoff


def call(number: int, *, input: str = "ls", output: str = "same") -> list[Moment]:
    return [ToolCalled(call=str(number), tool="Bash", input=input), ToolAnswered(call=str(number), output=output)]


def repeated(times: int, **words: str) -> list[Moment]:
    return [moment for number in range(times) for moment in call(number, **words)]


@pytest.mark.parametrize(
    ("moments", "why"),
    [
        (repeated(REPEATS), "stuck"),
        (repeated(REPEATS - 1), None),
        ([*repeated(REPEATS - 1), Said(text="I look again"), *repeated(REPEATS - 1)], None),
        ([moment for n in range(50) for moment in call(n, input=f"ls {n}")], None),
        ([moment for n in range(50) for moment in call(n, output=f"{n}")], None),
        ([ToolAnswered(call="unknown", output="x")] * 50, None),
        ([Retried(status=401, reason="authentication_failed")], "key"),
        ([Retried(status=403, reason="forbidden")], "key"),
        ([Retried(status=429, reason="rate_limit", delay_s=3.0)], "busy"),
        ([Retried(status=529, reason="overloaded", delay_s=1.0)] * 9, None),
        ([Retried(status=529, reason="overloaded", delay_s=600.0)], "busy"),
        ([Retried(status=0, reason="connection reset")], None),
        ([Spent(usage=Usage(usd=0.9))], None),
        ([Spent(usage=Usage(usd=1.1))], "budget"),
    ],
)
def test_a_turn_is_stopped_for_what_a_person_would_stop_it_for(moments: list[Moment], why: str | None) -> None:
    stop = Judge(budget_usd=1.0).take(moments)
    assert (stop.why if stop else None) == why


def test_the_first_reason_stays_and_the_last_word_on_money_counts() -> None:
    judge = Judge()
    judge.take([Spent(usage=Usage(usd=1.0)), Retried(status=401, reason="no"), *repeated(REPEATS)])
    judge.take([Spent(usage=Usage(usd=2.0))])
    assert isinstance(judge.stop, Stop) and judge.stop.why == "key" and judge.spent.usd == 2.0


class Lines:
    """A program whose lines are moments already."""

    def hear(self, line: bytes) -> tuple[Moment, ...]:
        return (MOMENT.validate_python(json.loads(line)),) if line.strip() else ()


def test_the_same_output_is_judged_the_same_however_often_it_is_read(tmp_path: Path) -> None:
    output = tmp_path / "output"
    assert judged(output, Lines()).stop is None
    output.write_text("".join(moment.model_dump_json() + "\n" for moment in repeated(REPEATS)))
    first, second = judged(output, Lines()).stop, judged(output, Lines()).stop
    assert first == second and first is not None and first.why == "stuck"


async def test_an_account_is_held_until_the_latest_time_that_was_stated() -> None:
    breakers = Breakers()
    assert breakers.held("team") is None
    breakers.hold("team", 4e9)
    breakers.hold("team", 3e9)
    breakers.hold("other", 1.0)
    assert breakers.held("team") == 4e9 and breakers.held("other") is None
    await breakers.closed("other")


@pytest.mark.parametrize("seconds", [0.0, 1.0, 10.0, 1800.0, 86400.0])
def test_patience_lasts_as_long_as_it_was_set_and_no_pause_is_longer_than_five_minutes(seconds: float) -> None:
    delays = Backoff.lasting(seconds).delays()
    assert seconds <= sum(delays) <= seconds + 300 and max(delays, default=0) <= 300


OWN = {"gpt-5": Price(input=1.0, cached=0.0, output=2.0)}


@pytest.mark.parametrize(
    ("model", "output"),
    [("gpt-5", 2.0), ("gpt-5.5", 2.0), ("gpt-5-mini", 2.0), ("claude-opus-5-5", 25.0), ("gpt-50", None), ("", None)],
)
def test_the_price_of_a_model_is_a_persons_own_before_the_public_one(model: str, output: float | None) -> None:
    found = price_of(model, OWN)
    assert (found.output if found else None) == output


def test_tokens_are_priced_once_and_cached_ones_are_cheaper() -> None:
    usage = Usage(input_tokens=1_000_000, cached_tokens=400_000, output_tokens=100_000)
    price = Price(input=10.0, cached=1.0, output=50.0)
    assert priced(usage, price).usd == pytest.approx(6.0 + 0.4 + 5.0)
    assert priced(usage.model_copy(update={"usd": 1.0}), price).usd == 1.0
    assert priced(usage, None).usd == 0.0


def test_what_came_on_top_is_never_less_than_nothing() -> None:
    session, before = Usage(usd=3.0, input_tokens=10), Usage(usd=1.0, input_tokens=30)
    assert session.beyond(before) == Usage(usd=2.0, input_tokens=0)
    assert session.beyond(before) + before == Usage(usd=3.0, input_tokens=30)


def test_a_long_text_says_how_much_of_it_is_missing() -> None:
    assert shortened("x" * 10, 10) == "x" * 10
    assert "[… 90 characters …]" in shortened("a" * 50 + "b" * 50, 10)
