"""What agents spent, as people and programs are told it."""

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta

import pytest

from .conftest import HONEST
from .process import Place

SPENT = {"usd": 0.25, "input_tokens": 1000, "cached_tokens": 600, "output_tokens": 50}
TOKENS = {"input_tokens": 7000, "output_tokens": 90}


def spending(place: Place, *, first: Mapping[str, float], rest: Mapping[str, float], limits: str = "") -> None:
    """An honest agent that tells what it spent: on the analysis, and on everything else."""
    told = f"if [ $RESOLVENT_STEP = analyze ]; then echo '{json.dumps(first)}'; else echo '{json.dumps(rest)}'; fi"
    place.agent(f'({told}) > "$RESOLVENT_USAGE"\n{HONEST}')
    if limits:
        local = place.project / "resolvent.local.toml"
        local.write_text(f"{local.read_text()}[limits]\n{limits}\n", encoding="utf-8")


def today() -> date:
    return datetime.now(UTC).date()


@pytest.mark.spec("K10")
def test_a_run_is_counted_by_job_step_agent_and_day_against_its_limits(place: Place) -> None:
    spending(place, first=SPENT, rest=SPENT, limits="cost_usd = 10\ncost_day_usd = 0.8")
    assert place("resolve", "1").code == 0
    counted = place("cost", "--json").json
    assert [step["step"] for step in counted["steps"]] == ["analyze", "implement", "review"]
    assert [job["usage"]["usd"] for step in counted["steps"] for job in step["each"]] == [0.25] * 3
    assert counted["total"] == {"usd": 0.75, "input_tokens": 3000, "cached_tokens": 1800, "output_tokens": 150}
    assert counted["total"] == place.outcome()["cost"] and counted["unpriced"] == {}
    assert [(one["agent"], one["jobs"], one["usage"]["usd"]) for one in counted["agents"]] == [("shell", 3, 0.75)]
    run, day = counted["limits"]
    assert (run["scope"], run["spent_usd"], run["limit_usd"]) == ("run", 0.75, 10.0)
    assert (day["scope"], day["spent_usd"], day["limit_usd"]) == (f"day {today()}", 0.75, 0.8)
    said = place("cost").out
    assert "$0.75 of $10.00, 8%" in said and "$0.75 of $0.80, 94%" in said and "1.8k" in said


def test_days_add_up_their_runs_and_leave_out_others(place: Place) -> None:
    spending(place, first=SPENT, rest=SPENT)
    assert place("resolve", "1").code == 0
    run = place.outcome()["run"]
    counted = place("cost", "--day", "today", "--json").json
    assert [(day["day"], day["jobs"], day["usage"]["usd"]) for day in counted["days"]] == [(str(today()), 3, 0.75)]
    assert [(one["run"], one["subject"]) for one in counted["days"][0]["runs"]] == [(run, "issue-1")]
    assert place("cost", "--days", "30", "--json").json["total"] == counted["total"]
    said = place("cost", "--days", "2").out
    assert str(today()) in said and run in said and "no limit" in said and "set limits.cost_day_usd" in said
    before = str(today() - timedelta(days=1))
    assert place("cost", "--day", before, "--json").json["days"] == []
    assert "no agent was over in that time" in place("cost", "--day", before).out


def test_tokens_without_a_price_are_said_to_be_so_and_a_price_of_nothing_is_one(place: Place) -> None:
    spending(place, first=SPENT, rest=TOKENS)
    local = place.project / "resolvent.local.toml"
    local.write_text(local.read_text().replace('use = "command"', 'use = "command", model = "local-7b"'))
    assert place("resolve", "1").code == 0
    counted = place("cost", "--json").json
    assert [step["priced"] for step in counted["steps"]] == [True, False, False]
    assert counted["unpriced"] == {"shell": "local-7b"}
    said = place("cost").out
    assert "the price of the model local-7b of shell is not known" in said and "$0.25 + ?" in said
    assert '\nnext: set prices."local-7b"' in said
    local.write_text(f'{local.read_text()}[prices."local-7b"]\ninput = 0\ncached = 0\noutput = 0\n')
    assert place("fork", "--from", "review").code == 0
    assert place("cost", "--json").json["unpriced"] == {"shell": "local-7b"}, "a run keeps the price it began with"
    again = place("issue", "new", "Again", "--json").json
    assert place("resolve", str(again["number"])).code == 0
    assert place("cost", "--json").json["unpriced"] == {}


@pytest.mark.parametrize("day", ["2026-13-01", "monday", "", "0"])
def test_what_is_no_day_is_not_found(finished: Place, day: str) -> None:
    said = finished("cost", f"--day={day}")
    if not day:
        assert said.code == 0, "no day at all is the newest run"
        return
    assert said.code == 4 and "is no day" in said.err and "next: resolvent cost --day" in said.err
