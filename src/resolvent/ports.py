"""What the engine needs of the world, in the words of the domain. Adapters implement these."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from resolvent.domain.change import Change, Evidence, File
from resolvent.domain.decision import Choice, Decision, Question
from resolvent.domain.events import Event, Recorded
from resolvent.domain.finding import Finding
from resolvent.domain.job import Abilities, Branch, Job, JobExit, Kept, Reply, Session, Task, Usage
from resolvent.domain.patch import Hunk
from resolvent.domain.record import Due, EffectRow, Frozen, JobRow, RunRow, RunState, StepRow
from resolvent.domain.subject import Comment, Issue, PullRequest, RequiredCheck
from resolvent.domain.transcript import Moment


class Clock(Protocol):
    """Time as the engine sees it."""

    def now(self) -> float:
        """Seconds since the epoch."""

    @property
    def frozen_at(self) -> float | None:
        """The one instant of a frozen clock, else None."""


class Listener(Protocol):
    """Turns what a program prints into moments, line by line; the same lines always give the same moments."""

    def hear(self, line: bytes) -> tuple[Moment, ...]:
        """What one line tells; nothing for one that cannot be read."""


class Agent(Protocol):
    """A program that answers or leaves edits. It is described here and run by a supervisor."""

    name: str
    # Who made the model: a reviewer of the author's family sees less.
    family: str
    # Whose quota it uses: when one agent is told to wait, all of the same account do.
    account: str
    abilities: Abilities

    def ready(self) -> None:
        """AgentMissing or KeyRefused, with what to type, when its program cannot be started or has no key."""

    def asked_version(self) -> tuple[str, ...]:
        """The command that prints its version; empty when there is none."""

    def job(self, task: Task, *, id: str) -> Job:
        """The process to start for this turn in a branch; AgentMissing when its program is not there."""

    def listener(self) -> Listener:
        """For one job's output, from its first line."""

    def session(self, task: Task, output: Path) -> Session | None:
        """The session of a turn that was interrupted, to go on with; None when there is none."""

    def reply(self, task: Task, exit: JobExit, output: Path) -> Reply:
        """Read what the ended process left; an error that says who must act when it did not end well.

        AgentBusy when it was told to wait, KeyRefused, BudgetSpent, AgentTimedOut, else AgentFailed.
        """


class Jobs(Protocol):
    """Supervised processes that outlive us."""

    async def ensure(self, job: Job) -> JobExit:
        """Start the job, or attach to it, or collect it if it ended; JobLost if it died with its supervisor.

        BranchBusy when it could not begin where it was let in: it may be let in again, and asked for again.
        """

    async def cancel(self, job: str) -> None:
        """End the job with every descendant; return when none is left. Unknown or ended: nothing to do."""

    def output(self, job: str) -> Path:
        """The file that holds its output; standard error too, unless the job keeps its streams apart."""

    def lines(self, job: str) -> AsyncIterator[bytes]:
        """Every line of its output from the first, as it comes; ends when the job did. A huge one comes in pieces."""

    def running(self, job: str) -> bool:
        """A supervisor holds the job right now."""


class Repository(Protocol):
    """Our own bare git repository: the only place where git runs. Nothing of an agent's configuration reaches it."""

    path: Path
    # Where what the forge has is fetched to; `path` borrows from it.
    upstream: Path

    async def change(self, revision: str) -> Change:
        """The commit a revision names; NotFound if there is none."""

    async def diff(self, old: Change, new: Change) -> str:
        """The patch between two commits, without any external driver; one of many MiB is cut, as its last line says."""

    async def changed_paths(self, old: Change, new: Change) -> tuple[str, ...]:
        """The paths that differ, sorted."""

    async def merge_base(self, one: Change, other: Change) -> Change:
        """The newest commit both come from."""

    async def conflicts(self, change: Change, onto: Change) -> tuple[str, ...]:
        """The paths that do not merge cleanly; empty when all do."""

    async def hunks(self, old: Change, new: Change) -> tuple[Hunk, ...]:
        """The parts of the difference between two commits, by path and line; nothing committed has a say in it."""

    async def composed(self, old: Change, new: Change, keep: Sequence[Hunk], *, onto: Change | None = None) -> Change:
        """A commit whose tree is `old` with only these parts of `new`, on `onto` or else on `old`.

        The same parts give the same commit. Where a file and a directory would have one name, what is kept wins.
        """

    async def contents(self, change: Change, paths: Sequence[str]) -> dict[str, bytes | None]:
        """What a commit holds at each path; None for nothing, for no regular file, and for one larger than 1 MiB."""

    async def blamed(self, change: Change, path: str, line: int) -> str | None:
        """The commit that wrote that line of `change`; None when `contents` has no such line."""

    async def ancestors(self, change: Change, *, limit: int) -> tuple[Change, ...]:
        """Its first parent, that one's first parent and so on, at most so many."""


class Workspace(Protocol):
    """Branches: copy-on-write forks of files that agents and checks may change, one job at a time."""

    async def root(self, change: Change, *, id: str) -> Branch:
        """A branch that holds exactly the commit's tree. Asking again for the same id returns the same branch."""

    async def fork(self, parent: Branch, *, id: str) -> Branch:
        """A child with everything the parent's last job left; rebuilt from its commit if the parent is gone."""

    async def enter(self, branch: Branch, job: Job, *, private: str, unsafe: bool = False) -> Job:
        """The job as it runs inside the branch, which it occupies until it ended; BranchBusy while another job does.

        Asking again for the same job is fine. NoSandbox where there are no walls, unless `unsafe` says so.
        """

    @property
    def boxed(self) -> bool:
        """Its jobs run in boxes that have gateways; where not, an agent is given its key itself."""

    def inside(self, private: str) -> str:
        """Where a job in a branch finds its private directory."""

    async def lay(self, branch: Branch, files: Sequence[File], *, base: Change) -> None:
        """Put a reproducer's files over a branch; ExportRefused for a path that the base tracks."""

    async def export(self, branch: Branch, *, message: str, at: float) -> Change | None:
        """Import what the branch holds as one commit on its own commit; None when nothing differs."""

    def ignored(self, branch: Branch) -> tuple[str, ...]:
        """What its last export left out because the commit's own rules ignore it."""

    async def snapshot(self, branch: Branch) -> None:
        """Seal what the branch holds now: no later job changes it under its children, no power loss takes it."""

    async def read(self, branch: Branch, path: str) -> bytes:
        """A file of the branch as data; NotFound when there is none, or when it is no regular file."""

    async def kept(self) -> tuple[Kept, ...]:
        """All branches there are, oldest first."""

    async def drop(self, branch: str) -> None:
        """Remove a branch that nobody needs, with whatever is in it. Unknown: nothing to do."""

    async def delete(self, branch: str) -> str | None:
        """Remove a branch; work in it that nobody published is kept first under the ref that is returned."""

    async def close(self) -> None:
        """Let go of whatever is open."""


class Forge(Protocol):
    """Issues, comments, pull requests, checks and merges. Writing twice is prevented by looking for a marker first."""

    async def login(self) -> str:
        """Who we are there."""

    async def trusted(self) -> tuple[str, ...]:
        """The logins whose markers count: ours and the configured ones."""

    async def fetch(self, into: Path, ref: str) -> str:
        """Bring a branch or commit into our repository at `into`; returns the commit. NotFound if unknown."""

    async def default_branch(self) -> str: ...

    async def issue(self, reference: str) -> Issue:
        """By number, `#number` or URL; NotFound if unknown."""

    async def search_issues(self, words: str, *, limit: int = 10) -> tuple[Issue, ...]:
        """Open issues whose title or body holds every word, or the exact text when quoted; oldest first."""

    async def open_issue(self, *, title: str, body: str, labels: Sequence[str] = ()) -> Issue: ...

    async def pull_request(self, reference: str) -> PullRequest:
        """By number, `#number` or URL; NotFound if unknown."""

    async def pull_requests(self, *, head: str) -> tuple[PullRequest, ...]:
        """Every pull request of that head branch, newest first."""

    async def open_pull_request(self, *, head: str, base: str, title: str, body: str) -> PullRequest: ...

    async def comments(self, target: str) -> tuple[Comment, ...]:
        """All comments on `issue-N` or `pr-N`, oldest first."""

    async def comment(self, target: str, body: str) -> Comment: ...

    async def edit_comment(self, comment: Comment, body: str) -> Comment:
        """Let it say this instead, in its place; NotFound when it is gone."""

    async def comment_at(self, url: str) -> Comment:
        """The comment at that link; NotFound if unknown."""

    async def head_of(self, branch: str) -> str | None:
        """The commit a branch is at now; None when it does not exist."""

    async def push(self, change: Change, *, source: Path, head: str, expect: str | None) -> None:
        """Move `head` to the commit, only from `expect` (None: it must not exist yet); HeadMoved otherwise."""

    async def required_checks(self, commit: str) -> tuple[RequiredCheck, ...]:
        """What CI says of that commit under each required name; names without a result are pending."""

    async def rerun(self, check: RequiredCheck) -> None:
        """Ask CI to run one check again."""

    async def await_checks(self, commit: str, *, timeout_s: float) -> tuple[RequiredCheck, ...]:
        """Wait until no required check of the commit is pending, or the time is over; then as required_checks."""

    async def merge(self, pull: PullRequest, *, expect: Change) -> PullRequest:
        """Merge exactly that head; HeadMoved if it is another. The answer is read back, with its merge commit."""


class Journal(Protocol):
    """Our own facts, in SQLite or Postgres. Rows of a verb are keyed by its id: writing again changes nothing."""

    async def add_run(self, run: RunRow, *, subjects: Sequence[str]) -> None:
        """Record a new run and claim its subjects in one transaction; SubjectTaken names the run that holds one."""

    async def published(self, commit: str) -> bool:
        """One of our runs moved a head to this commit."""

    async def claim(self, run: str, subject: str) -> None:
        """Claim one more subject for a run; its own again is fine; SubjectTaken otherwise."""

    async def run(self, id: str) -> RunRow:
        """By id or unique prefix; NotFound otherwise."""

    async def runs(self, *, states: Sequence[RunState] = (), limit: int = 100) -> tuple[RunRow, ...]:
        """Newest first; all states when none is named."""

    async def due(self) -> tuple[Due, ...]:
        """What a worker has to do something about, oldest first: queued, running, to be cancelled, or answered."""

    async def set_state(self, run: str, state: RunState, *, reason: str = "") -> None: ...

    async def end_run(self, run: str, *, outcome: str, reason: str, result: dict[str, Any]) -> None:
        """Record the outcome and release the subjects in one transaction; the first ending stays."""

    async def reopen(self, run: str, *, subjects: Sequence[str]) -> None:
        """An ended or waiting run is queued again with one more play; ended ones claim their subjects anew."""

    async def refreeze(self, run: str, inputs: Frozen) -> None:
        """Replace the frozen inputs of a run that is not being played."""

    async def ask_to_cancel(self, run: str) -> None: ...

    async def delete_run(self, run: str) -> None:
        """Retention: remove an ended run whole."""

    async def attempt(self, run: str, key: str) -> int:
        """The attempt a verb is at; 1 until raised."""

    async def raise_attempt(self, run: str, key: str, *, beyond: int) -> int:
        """Raise the attempt to `beyond` + 1 unless it is higher already; returns what it is."""

    async def save_step(self, step: StepRow) -> None: ...

    async def steps(self, run: str) -> tuple[StepRow, ...]:
        """In the order they first started."""

    async def copy_results(self, run: str, results: dict[str, dict[str, Any]]) -> None:
        """Give a forked run the results it inherits, by verb key."""

    async def copied_result(self, run: str, key: str) -> dict[str, Any] | None: ...

    async def save_branch(self, run: str, branch: Branch) -> None: ...

    async def branches(self, run: str) -> tuple[Branch, ...]: ...

    async def save_job(self, job: JobRow) -> None: ...

    async def jobs(self, run: str) -> tuple[JobRow, ...]: ...

    async def jobs_over(self, *, since: float, until: float) -> tuple[JobRow, ...]:
        """The agents' jobs of all runs that were over from then on and before then, in that order."""

    async def spent(self, *, since: float) -> Usage:
        """What the jobs of all runs spent that were over since then."""

    async def save_evidence(self, run: str, evidence: Evidence) -> None: ...

    async def evidence(self, run: str) -> tuple[Evidence, ...]: ...

    async def save_finding(self, run: str, finding: Finding) -> None: ...

    async def findings(self, run: str) -> tuple[Finding, ...]: ...

    async def save_effect(self, effect: EffectRow) -> None:
        """A done effect never becomes intended again."""

    async def effects(self, run: str) -> tuple[EffectRow, ...]: ...

    async def ask(self, run: str, question: Question, *, at: float) -> Decision:
        """Record the question, or return what is recorded under its key, with its answer if there is one."""

    async def decisions(self, run: str) -> tuple[Decision, ...]: ...

    async def decide(self, run: str, key: str, choice: Choice) -> Decision:
        """Answer an open question and queue a run that waits; UsageError when it is answered or this not offered."""

    async def withdraw(self, run: str, answer: str) -> None:
        """Forget every question with that answer or with none; it is asked anew if the run comes to it again."""

    async def tell(self, run: str, event: Event, *, at: float, key: str = "") -> None:
        """Append an event; with a key, at most once per run and key. Wakes whoever waits in `changed`."""

    async def events(self, run: str = "", *, after: int = 0, limit: int = 1000) -> tuple[Recorded, ...]:
        """In order; of all runs when none is named."""

    async def changed(self, *, since: int | None = None, timeout_s: float | None = None) -> int:
        """Return how often the store was written, once that is not `since`, or when the time is over.

        Without `since`: what this returned last here. When several wait on one journal, each passes what it got last.
        """

    async def close(self) -> None: ...
