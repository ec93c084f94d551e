"""resolvent demo: the whole loop on a sample project, with nothing to configure."""

import shutil
import sys
import tempfile
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from resolvent.cli.options import Follow, Json
from resolvent.cli.root import app as root


@root.command()
def demo(
    sabotage: Annotated[
        str, typer.Option(metavar="noop|liar", help="Let the agents cheat: the run ends escalated.", show_default=False)
    ] = "",
    directory: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to put the sample project.", show_default=False)
    ] = None,
    json: Json = False,
    follow: Follow = False,
) -> None:
    """Take a real bug in a sample project to a proven pull request.

    Scripted agents play a true story: a first fix that plants a regression, a reviewer who finds it and also raises an
    old bug and a false alarm. Every claim is executed. No account, no key, no service; nothing else is touched.
    """
    from resolvent.cli.place import run

    raise typer.Exit(run(_demo(directory, sabotage, json, follow)))


async def _demo(directory: Path | None, sabotage: str, json: bool, events: bool) -> int:
    from resolvent.cli.following import follow
    from resolvent.cli.place import opened
    from resolvent.cli.terminal import stdout
    from resolvent.domain.entry import Entry
    from resolvent.submissions import Submission
    from resolvent.testing.demo import make_sample, sample_issue

    place = directory.absolute() if directory else Path(tempfile.mkdtemp(prefix="resolvent-demo-"))
    project = await make_sample(place, sabotage=sabotage)
    async with opened(project) as app:
        forge = await app.home.local_forge()
        await forge.sync(project)
        issue = await forge.create_issue(*sample_issue(), author="customer")
        entry = Entry(kind="issue", reference=str(issue.number))
        row, _ = await app.submit(Submission(entry=entry))
        if not json:
            stdout().say(
                f"a sample project with a bug, and issue #{issue.number} about it: {project}",
                f"stop it at any moment, even with kill -9, and go on with: {program()} watch -C {quote(str(project))}",
                "",
            )
        code = await follow(app, row, json=json, events=events)
        if not json:
            looks = "show, or: evidence, diff, logs, issue ls, pr show 2"
            stdout().say("", f"look around: cd {quote(str(project))} && {program()} {looks}")
        return code


def program() -> str:
    """What to type for this program: its name where that is enough."""
    found = shutil.which("resolvent")
    return "resolvent" if found else quote(str(Path(sys.argv[0]).absolute()))
