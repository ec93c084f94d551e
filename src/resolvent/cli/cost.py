"""resolvent cost: what agents spent on a run or on some days, and how that stands against the limits."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from resolvent.cli.options import Directory, Json, RunName
from resolvent.cli.root import app
from resolvent.errors import UsageError

if TYPE_CHECKING:
    from resolvent.cli.terminal import Cell, Terminal
    from resolvent.domain.job import Usage
    from resolvent.spending import AgentCost, DaysCost, Limit, RunCost

MOST_DAYS = 3650
WARNED_AT = 0.8


@app.command()
def cost(
    name: RunName = "",
    day: Annotated[
        str, typer.Option("--day", metavar="DATE", help="All runs of that day: today, or as in 2026-11-16.")
    ] = "",
    days: Annotated[int | None, typer.Option("--days", metavar="N", help="All runs of the last N days.")] = None,
    json: Json = False,
    directory: Directory = None,
) -> None:
    """List what agents say they spent: on a run, step by step, or on some days.

    Days are counted by universal time, as limits.cost_day_usd counts them.
    """
    from resolvent.cli.place import run

    if (days is not None and day) or (name and (day or days is not None)):
        raise UsageError("name a run, or --day, or --days: one of them", hint="resolvent cost --help")
    if days is not None and not 0 < days <= MOST_DAYS:
        raise UsageError(f"--days takes a number from 1 to {MOST_DAYS}, not {days}", hint="resolvent cost --days 7")
    if day or days is not None:
        run(_of_days(directory, day, days or 1, json=json))
    else:
        run(_of_run(directory, name, json=json))


async def _of_run(directory: Path | None, name: str, *, json: bool) -> None:
    from resolvent import spending
    from resolvent.cli.place import opened
    from resolvent.cli.terminal import stdout
    from resolvent.cli.words import emit

    async with opened(directory) as application:
        found = await spending.of_run(application, await application.run(name))
    if json:
        emit(found.model_dump(mode="json"))
    else:
        stdout().say(*_run_lines(stdout(), found))


async def _of_days(directory: Path | None, day: str, days: int, *, json: bool) -> None:
    from resolvent import spending
    from resolvent.cli.place import opened
    from resolvent.cli.terminal import stdout
    from resolvent.cli.words import emit

    async with opened(directory) as application:
        last = spending.day_named(application, day or "today")
        found = await spending.of_days(application, last - timedelta(days=days - 1), last)
    if json:
        emit(found.model_dump(mode="json"))
    else:
        stdout().say(*_days_lines(stdout(), found))


def _run_lines(terminal: "Terminal", found: "RunCost") -> Iterator[str]:
    from resolvent.cli.words import seconds

    rows: list[list[Cell]] = [_head("step", "agent", "seconds")]
    for step in found.steps:
        rows.append([step.step, (step.agent, "dim"), seconds(step.seconds), *_spent(step.usage, priced=step.priced)])
        for job in step.each if step.jobs > 1 else ():
            said = f"· turn {job.turn}" if job.turn > 1 else "· try"
            state = "" if job.state == "ended" else job.state
            rows.append(
                [(said, "dim"), (state, "dim"), (seconds(job.seconds), "dim"), *_spent(job.usage, priced=job.priced)]
            )
    whole = seconds(sum(step.seconds for step in found.steps))
    rows.append([("total", "bold"), "", whole, *_spent(found.total, priced=not found.unpriced)])
    yield from terminal.table(rows, align="=<>>>>>")
    if len(found.agents) > 1:
        yield from _agent_lines(terminal, found.agents)
    yield from _limit_lines(terminal, found.limits)
    yield from _unpriced_lines(terminal, found.unpriced)


def _days_lines(terminal: "Terminal", found: "DaysCost") -> Iterator[str]:
    if not found.days:
        yield "no agent was over in that time"
        yield "next: resolvent runs"
        return
    rows: list[list[Cell]] = [_head("day", "", "jobs")]
    for day in found.days:
        rows.append([(str(day.day), "bold"), "", str(day.jobs), *_spent(day.usage)])
        for one in day.runs:
            rows.append([f"· {one.run} {one.title}", (one.subject, "dim"), str(one.jobs), *_spent(one.usage)])
    rows.append([("total", "bold"), "", str(sum(day.jobs for day in found.days)), *_spent(found.total)])
    yield from terminal.table(rows, align="=<>>>>>")
    yield from _agent_lines(terminal, found.agents)
    yield from _limit_lines(terminal, found.limits)
    yield from _unpriced_lines(terminal, found.unpriced)


def _head(*first: str) -> "list[Cell]":
    return [(word, "dim") for word in (*first, "usd", "tokens in", "cached", "out")]


def _spent(usage: "Usage", *, priced: bool = True) -> "list[Cell]":
    from resolvent.cli.words import count, money

    # What is known of it, and that there is more.
    usd = money(usage.usd) if priced else f"{money(usage.usd)} + ?" if usage.usd else "?"
    return [usd, count(usage.input_tokens), count(usage.cached_tokens), count(usage.output_tokens)]


def _agent_lines(terminal: "Terminal", agents: "Sequence[AgentCost]") -> Iterator[str]:
    from resolvent.cli.words import seconds

    rows: list[list[Cell]] = [_head("agent", "jobs", "seconds")]
    for one in agents:
        rows.append([one.agent, str(one.jobs), seconds(one.seconds), *_spent(one.usage, priced=one.priced)])
    yield ""
    yield from terminal.table(rows, align="=>>>>>>")


def _limit_lines(terminal: "Terminal", limits: "Sequence[Limit]") -> Iterator[str]:
    from resolvent.cli.words import money

    rows: list[list[Cell]] = []
    for limit in limits:
        if limit.limit_usd is None:
            rows.append([limit.scope, f"{money(limit.spent_usd)}, no limit", (f"set {limit.setting}", "dim")])
            continue
        part = limit.spent_usd / limit.limit_usd
        style = "red" if part >= 1 else "yellow" if part >= WARNED_AT else "green"
        said = f"{money(limit.spent_usd)} of {money(limit.limit_usd)}, {part:.0%}"
        rows.append([limit.scope, (said, style), (limit.setting, "dim")])
    if rows:
        yield ""
        yield from terminal.table(rows, align="<<<")


def _unpriced_lines(terminal: "Terminal", unpriced: dict[str, str]) -> Iterator[str]:
    from resolvent.cli.terminal import one_line

    for agent, model in unpriced.items():
        named = one_line(model) or "MODEL"
        which = f"the model {named} of {one_line(agent)}" if model else f"the model of {one_line(agent)}"
        yield terminal.paint(f"? the price of {which} is not known, so no limit counts it", "yellow")
        # Dollars for a million tokens, as the template shows them.
        yield f'next: set prices."{named}" = {{ input = …, cached = …, output = … }} in resolvent.toml'
