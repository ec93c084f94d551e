"""The whole of a rehearsal: copy, serve the copy, and let a run play there in a process of its own."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from resolvent.app import App
from resolvent.domain.entry import Entry
from resolvent.domain.subject import PullRequest
from resolvent.errors import NotFound, UsageError
from resolvent.forge_server.hub import Hub
from resolvent.forge_server.serving import Serving, serving
from resolvent.rehearsing.configuring import configure
from resolvent.rehearsing.copying import Copying, Subject, Then, check_out
from resolvent.rehearsing.leading import environment, identity, led
from resolvent.rehearsing.rehearsal import Rehearsal
from resolvent.rehearsing.telling import Would, opened, would
from resolvent.settings import forge_variables
from resolvent.wiring import Home

# Where a run stands that has not ended, and how one ended that can be tried again.
AT_WORK = ("queued", "running", "waiting")
TRIED_AGAIN = ("escalated", "failed", "cancelled")


@dataclass(frozen=True)
class Play:
    """How the run is played: with which variables, and whether anybody reads what it prints."""

    environ: Mapping[str, str]
    quiet: bool = False


@dataclass(frozen=True)
class Rehearsed:
    """What came of it: how the run's process ended, its document, and what would have happened."""

    code: int
    document: dict[str, Any] | None
    would: list[Would]

    @property
    def to_go_on(self) -> bool:
        """Whether there is more to come of it."""
        return self.document is None or self.document["outcome"] in (*AT_WORK, *TRIED_AGAIN)


async def copied(source: Home, entry: Entry, rehearsal: Rehearsal, *, origin: str = "") -> Rehearsal:
    """Copy what the run is about; the real forge is read and nothing else."""
    forge = await source.forge()
    if source.settings.forge.kind == "local":
        # The forge on this machine learns of commits when it is asked about them.
        await forge.sync(source.repository)
    subject = await named(source, entry)
    then = Then()
    hub = await Hub.open(rehearsal.forge, owner=rehearsal.owner, name=rehearsal.name, clock=then)
    try:
        copying = Copying(forge, hub, then, origin=origin)
        await copying.copy(subject)
        await check_out(hub.git.git_dir, rehearsal.project)
    finally:
        await hub.close()
    made = replace(
        rehearsal,
        login=copying.login,
        kind="pull" if isinstance(subject, PullRequest) else "issue",
        number=subject.number or 0,
        withheld=forge_variables(source.settings),
    )
    await asyncio.to_thread(made.save)
    return made


async def named(source: Home, entry: Entry) -> Subject:
    """The open issue or pull request a person named; a bare number may be either."""
    forge = await source.forge()
    try:
        subject: Subject = await (forge.issue if entry.kind == "issue" else forge.pull_request)(entry.reference)
    except NotFound as error:
        if entry.kind != "issue":
            raise
        try:
            subject = await forge.pull_request(entry.reference)
        except NotFound:
            said = f"{source.settings.forge.repo or source.repository} has no issue or pull request {entry.reference}"
            raise NotFound(said, hint=error.hint) from error
    if subject.state != "open":
        raise UsageError(f"{subject.url} is {subject.state}", hint="name one that is open")
    if getattr(subject, "from_fork", False):
        raise UsageError(f"{subject.url} comes from a fork we cannot push to", hint="name another")
    return subject


async def played(rehearsal: Rehearsal, play: Play, *, words: Sequence[str]) -> Rehearsed:
    """Serve its forge, and run `resolvent WORDS` there until that ends."""
    async with opened(rehearsal) as (hub, account), _served(hub, rehearsal.port) as served:
        known = await identity(hub, account)
        rehearsal = replace(rehearsal, port=int(served.url.rpartition(":")[2]))
        await asyncio.to_thread(rehearsal.save)
        await asyncio.to_thread(configure, rehearsal.project, led(rehearsal, served.url, served.ca, known))
        environ = environment(play.environ, rehearsal, token=known.secret)
        code = await _started([*words, "-C", str(rehearsal.project)], environ, quiet=play.quiet)
        document = await _document(rehearsal, environ)
    return Rehearsed(code, document, would(rehearsal))


@asynccontextmanager
async def _served(hub: Hub, port: int) -> AsyncIterator[Serving]:
    """Where it was served before, or elsewhere when somebody else is there by now."""
    async with AsyncExitStack() as stack:
        try:
            served = await stack.enter_async_context(serving(hub, port=port))
        except UsageError:
            served = await stack.enter_async_context(serving(hub))
        yield served


async def onward(rehearsal: Rehearsal, environ: Mapping[str, str], *, by: str, choice: str = "") -> list[str]:
    """What is to be run to go on with it, once the question it asks is answered if an answer is given."""
    app = App.at(rehearsal.project, environ=environment(environ, rehearsal, token="-"))
    try:
        if choice:
            await app.decide("last", choice, by=by)
        runs = await app.runs(limit=1)
    finally:
        await app.home.close()
    if not runs:
        return begun(rehearsal)
    return ["retry"] if runs[0].state == "ended" and runs[0].outcome in TRIED_AGAIN else ["watch"]


def begun(rehearsal: Rehearsal) -> list[str]:
    """What is to be run to begin it."""
    about = [str(rehearsal.number)] if rehearsal.kind == "issue" else ["--pr", str(rehearsal.number)]
    return ["resolve", *about, *(["--unsafe"] if rehearsal.unsafe else [])]


async def _started(words: Sequence[str], environ: Mapping[str, str], *, quiet: bool) -> int:
    """`resolvent` in a process of its own; Ctrl-C is for it, and we stay until it has ended."""
    output = asyncio.subprocess.DEVNULL if quiet else None
    argv = [sys.executable, "-m", "resolvent", *words]
    process = await asyncio.create_subprocess_exec(
        *argv, env=dict(environ), stdin=asyncio.subprocess.DEVNULL, stdout=output
    )
    loop = asyncio.get_running_loop()
    # A terminal sends the first to both of us; the second comes to us alone.
    loop.add_signal_handler(signal.SIGINT, lambda: None)
    loop.add_signal_handler(signal.SIGTERM, process.terminate)
    try:
        return await process.wait()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        if process.returncode is None:
            process.terminate()


async def _document(rehearsal: Rehearsal, environ: Mapping[str, str]) -> dict[str, Any] | None:
    """What the record says of the run, and the page of it; None when none began."""
    from resolvent.receipts.page import page
    from resolvent.receipts.story import told

    app = App.at(rehearsal.project, environ=environ)
    try:
        if not await app.runs(limit=1):
            return None
        row = await app.run("last")
        text = page(await told(app, row))
        await asyncio.to_thread(rehearsal.report.write_text, text, encoding="utf-8", errors="replace")
        return await app.document(row.id)
    finally:
        await app.home.close()
