"""resolvent design: agree on a solution before any code is written."""

import typer

from resolvent.cli.options import Base, Detach, Directory, Follow, IssueFile, Json, Manner, Sets, Target, Unsafe
from resolvent.cli.root import app


@app.command()
def design(
    target: Target = None,
    file: IssueFile = None,
    unsafe: Unsafe = False,
    detach: Detach = False,
    json: Json = False,
    follow: Follow = False,
    base: Base = "",
    settings: Sets = None,
    directory: Directory = None,
) -> None:
    """Draft a design for an issue and have it reviewed, three rounds at most.

    Ends with a comment that holds the whole design, and prints DESIGN_STATUS= (APPROVED, CONSENSUS or
    NO_ACTION_NEEDED) and DESIGN_COMMENT_URL=. No code is written: resolve --design-comment implements it, resolve
    --design does both.
    """
    from resolvent.cli.place import run
    from resolvent.cli.resolve import submit
    from resolvent.domain.entry import entry_point

    entry = entry_point(" ".join(target) if target else None, file=str(file) if file else None)
    overrides = (*(settings or ()), *(("sandbox.rung=plain",) if unsafe else ()))
    asked: dict[str, object] = {"entry": entry, "playbook": "design", "base": base, "unsafe": unsafe}
    raise typer.Exit(run(submit(directory, asked, Manner(detach, json, follow), overrides)))
