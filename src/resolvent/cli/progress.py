"""Events as lines: what a person reads while a run goes on, and what a pipe gets."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from resolvent.cli.report import EXECUTION_STYLES, TRIAGE
from resolvent.cli.terminal import Terminal, cells, fit, one_line
from resolvent.cli.words import clock_time, seconds, short
from resolvent.domain import events
from resolvent.domain.events import Recorded

AboutAgents = events.AgentParked | events.AgentReplaced | events.AgentNoticed | events.BudgetWarned
# What only keeps the books is not worth a line of its own, unless it fails.
QUIET_VERBS = ("comment", "stick", "observe")
TITLE_WIDTH = 30
TIME_WIDTH = 8
LINE_WIDTH = 100


@dataclass
class Step:
    """A step that runs now."""

    verb: str
    title: str
    since: float
    agent: str = ""


@dataclass
class Progress:
    """What has happened so far; `take` returns the lines that one more event is worth."""

    terminal: Terminal
    running: dict[str, Step] = field(default_factory=dict)
    agents: dict[str, str] = field(default_factory=dict)

    def take(self, recorded: Recorded) -> list[str]:
        """Remember the event; the lines to print for it."""
        return list(self._lines(recorded))

    def _lines(self, recorded: Recorded) -> Iterator[str]:
        match recorded.event:
            case events.RunStarted() as started:
                subject = self.terminal.paint(f"{recorded.run}  {started.subject} on {short(started.base)}", "dim")
                yield f"{self.terminal.paint(one_line(started.title), 'bold')}  {subject}"
            case events.RunResumed(play=play):
                yield self.line("●", "resumed", f"play {play}")
            case events.StepStarted() as begun:
                self.running[begun.step] = Step(begun.verb, begun.title, recorded.at, self.agents.get(begun.step, ""))
            case events.JobStarted() as job:
                yield from self._job(job)
            case events.StepFinished() as finished:
                yield from self._finished(finished, recorded.at)
            case events.StepRetried() as again:
                yield self.line("●", "again", f"attempt {again.attempt}: {again.reason}", style="yellow")
            case events.AgentParked() | events.AgentReplaced() | events.AgentNoticed() | events.BudgetWarned():
                yield self._about_agents(recorded.event)
            case _:
                yield from self._decided(recorded)

    def _about_agents(self, event: AboutAgents) -> str:
        match event:
            case events.AgentParked(agent=agent, until=until, reason=reason):
                return self.line("●", f"{agent} waits", f"until {clock_time(until)}: {reason}", style="yellow")
            case events.AgentReplaced(agent=agent, by=by, reason=reason):
                return self.line("●", f"{by} instead of {agent}", reason, style="yellow")
            case events.AgentNoticed(agent=agent, text=text):
                return self.line("●", f"{agent} noticed", text, style="yellow")
            case events.BudgetWarned(scope=scope, spent_usd=spent, limit_usd=limit):
                return self.line("●", "money", f"the {scope} has spent ${spent:.2f} of ${limit:.2f}", style="yellow")

    def _job(self, job: events.JobStarted) -> Iterator[str]:
        self.agents[job.step] = job.agent
        step = self.running.get(job.step)
        if step:
            step.agent = job.agent
            # A screen shows what runs; a pipe would be silent for hours.
            if not self.terminal.live:
                yield self.line("●", step.title, job.agent)

    def _finished(self, finished: events.StepFinished, at: float) -> Iterator[str]:
        begun = self.running.pop(finished.step, None)
        # A step that outlived a process was begun before the one that finished it began to count.
        took = max(finished.seconds, at - begun.since) if begun else finished.seconds
        failed = finished.state == "failed"
        if finished.verb in QUIET_VERBS and not failed:
            return
        execution = finished.summary.partition(",")[0] if finished.verb == "check" else ""
        style = "red" if failed else EXECUTION_STYLES.get(execution, "green")
        summary = " · ".join(filter(None, (finished.summary.partition("\n")[0], self.agents.get(finished.step, ""))))
        mark = "✓" if style == "green" else "✗"
        yield self.line(mark, finished.title, summary, took=took, style=style)

    def _decided(self, recorded: Recorded) -> Iterator[str]:
        match recorded.event:
            case events.FindingTriaged() as finding:
                word, style = TRIAGE.get(finding.scope, ("open", "bold"))
                title = f"{finding.finding} {finding.severity} {word}"
                yield self.line("●", title, f"{finding.title} ({finding.basis})", style=style)
            case events.GateJudged() as gate:
                said = "open" if gate.open else "shut: " + "; ".join(gate.reasons)
                mark, style = ("✓", "green") if gate.open else ("✗", "red")
                yield self.line(mark, f"gate on {short(gate.change)}", said, style=style)
            case events.DesignSettled() as design:
                rounds = f" after {design.rounds} round{'' if design.rounds == 1 else 's'}" if design.rounds else ""
                yield self.line("✓", "design", f"{design.status}{rounds}", style="green")
            case events.DecisionAsked() as asked:
                yield self.line("●", "a person decides", asked.text, style="yellow")
            case events.DecisionMade() as made:
                yield self.line("✓", "decided", f"{made.answer}{f', by {made.by}' if made.by else ''}", style="green")
            case _:
                pass

    def line(self, mark: str, title: str, said: str, *, took: float | None = None, style: str = "cyan") -> str:
        """` ✓ title   what it said   0.3s`, in columns."""
        terminal = self.terminal
        width = min(LINE_WIDTH, terminal.width)
        head = fit(one_line(title), TITLE_WIDTH)
        time = seconds(took) if took is not None else ""
        room = width - 3 - TITLE_WIDTH - 2 - (TIME_WIDTH if time else 0)
        # A pipe gets all of it; only a screen has an edge.
        tail = one_line(said) if not terminal.live else fit(one_line(said), room)
        gap, rest = " " * (TITLE_WIDTH - cells(head)), " " * max(0, room - cells(tail))
        painted = f" {terminal.paint(mark, style)} {head}{gap}  {terminal.paint(tail, 'dim')}{rest}{time:>{TIME_WIDTH}}"
        return painted.rstrip()
