"""resolvent branch rm and gc: branches that nobody needs any more."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from resolvent.cli.branch_options import Unsafe, app, branching, tell
from resolvent.cli.options import Directory, Json


@app.command("rm")
def rm(
    names: Annotated[list[str], typer.Argument(metavar="BRANCH…", help="Branches, by their full names.")],
    discard: Annotated[bool, typer.Option("--discard", help="Keep nothing of them, also what no commit can.")] = False,
    unsafe: Unsafe = False,
    json: Json = False,
    directory: Directory = None,
) -> None:
    """Remove branches; work in them that nobody published is kept under a rescue ref first."""
    from resolvent.cli.place import run

    run(_rm(directory, names, discard=discard, unsafe=unsafe, json=json))


async def _rm(directory: Path | None, names: list[str], *, discard: bool, unsafe: bool, json: bool) -> None:
    async with branching(directory, unsafe=unsafe) as branches:
        source = str((await branches.home.git_repository()).path)
        for kept in [await branches.find(name, whole=True) for name in dict.fromkeys(names)]:
            id, rescued = kept.branch.id, await branches.remove(kept, discard=discard)
            # Told one by one: what is gone is gone, also when the next one cannot be removed.
            again = f"its work is kept; get it with:\ngit fetch {shlex.quote(source)} {rescued}"
            said = f"removed {id}" + (f"; {again}" if rescued else "")
            tell({"branch": id, "repository": source, "rescued": rescued}, said, json=json)


@app.command("gc")
def gc(unsafe: Unsafe = False, json: Json = False, directory: Directory = None) -> None:
    """Remove what no branch needs, and the branches of ended runs that are older than sandbox.keep."""
    from resolvent.cli.place import run

    cleaned = run(_gc(directory, unsafe=unsafe))
    freed = f"freed {cleaned['freed'] / 1e6:.1f} MB" if cleaned["freed"] else "nothing to free"
    said = f"{freed}; {len(cleaned['removed'])} branches removed, {len(cleaned['rescued'])} of them kept under a ref"
    said += "".join(
        f"\n{id}: git fetch {shlex.quote(cleaned['repository'])} {ref}" for id, ref in cleaned["rescued"].items()
    )
    said += "".join(f"\n{id} stays: {why}" for id, why in cleaned["refused"].items())
    tell(cleaned, said, json=json)


async def _gc(directory: Path | None, *, unsafe: bool) -> dict[str, Any]:
    async with branching(directory, unsafe=unsafe) as branches:
        return {"repository": str((await branches.home.git_repository()).path), **await branches.clean()}
