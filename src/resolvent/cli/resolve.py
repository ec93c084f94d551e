"""resolvent resolve: start a run and follow it."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from resolvent.cli.options import Base, Detach, Directory, Follow, IssueFile, Json, Manner, Sets, Target, Unsafe
from resolvent.cli.root import app


@app.command()
def resolve(
    target: Target = None,
    pr: Annotated[str | None, typer.Option("--pr", metavar="N", help="Continue a pull request instead.")] = None,
    file: IssueFile = None,
    unsafe: Unsafe = False,
    detach: Detach = False,
    json: Json = False,
    follow: Follow = False,
    base: Base = "",
    design_comment: Annotated[
        str, typer.Option(metavar="URL", help="A comment that holds the design to follow.", show_default=False)
    ] = "",
    design: Annotated[bool, typer.Option("--design", help="Agree on a design first, then implement that.")] = False,
    settings: Sets = None,
    merge: Annotated[
        Literal["never", "ask", "auto"] | None, typer.Option(help="May the proven change be merged?")
    ] = None,
    directory: Directory = None,
) -> None:
    """Take an issue or a pull request to a proven pull request.

    Starts a run and follows it until it ends or a person has to decide: exit 0 when it is proven, argued, merged or
    declined, 3 when a person has to look, 1 when it failed. Ctrl-C leaves the run alone; Ctrl-C twice stops its agents.
    """
    from resolvent.cli.place import run
    from resolvent.domain.entry import entry_point

    task = " ".join(target) if target else None
    entry = entry_point(task, pull=pr, file=str(file) if file else None)
    overrides = (*(settings or ()), *([f"policy.merge={merge}"] if merge else ()))
    overrides += ("sandbox.rung=plain",) if unsafe else ()
    asked = {"entry": entry, "base": base, "design_comment": design_comment, "design_first": design, "unsafe": unsafe}
    raise typer.Exit(run(submit(directory, asked, Manner(detach, json, follow), overrides)))


async def submit(directory: Path | None, asked: dict[str, object], manner: Manner, overrides: tuple[str, ...]) -> int:
    """Start a run of what is asked, and follow it in that manner; returns the exit code."""
    from resolvent.cli.following import start_or_follow
    from resolvent.cli.place import opened
    from resolvent.cli.terminal import clean, stderr
    from resolvent.submissions import Submission

    async with opened(directory, overrides) as app:
        row, warnings = await app.submit(Submission(**asked))  # type: ignore[arg-type]
        for warning in warnings:
            stderr().say(f"warning: {clean(warning)}")
        return await start_or_follow(app, row, manner, overrides=overrides)
