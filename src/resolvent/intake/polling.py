"""The forge is asked for news: what changed since the newest instant seen, and a little of it once more."""

from collections.abc import Iterable, Sequence

from resolvent.domain.arrival import Arrival, Rules, digest, wish_in
from resolvent.domain.subject import Comment, Issue
from resolvent.engine.stopping import release
from resolvent.errors import ConfigError
from resolvent.intake.desk import Desk, new_run
from resolvent.intake.watching import watch

# A forge may show a change a little after one that came later. What is listed again is known by what it is.
OVERLAP_S = 120.0
# Where the first look begins: our clock and the forge's need not agree.
FIRST_S = 3600.0
# The text of a comment is read here and not kept.
KEPT = ("id", "author", "url", "target", "created_at", "updated_at")


async def poll(desk: Desk, *, all_runs: bool) -> None:
    """Record what is new, and look after the runs whose issues changed; asked again after a crash it does no more."""
    # What could not be given back when its run ended may be now; nobody else would try before another run ends.
    await release(await desk.journal(), await desk.forge(), boundary=lambda when, _: desk.boundary(f"{when} release"))
    broken: ConfigError | None = None
    try:
        await desk.configuration.now()
    except ConfigError as error:
        # Runs are looked after all the same, by the rules there were.
        broken = error
    rules = desk.configuration.rules
    began = await desk.arrivals.cursor("began")
    if began is None:
        began = desk.home.clock.now() - FIRST_S
        await desk.arrivals.advance("began", began)
    issues, comments = await _issues(desk, rules, began), await _comments(desk, began)
    for issue in issues:
        if not rules.labels(issue.labels):
            await desk.arrivals.unlabel(issue.key, at=issue.updated_at)
        elif issue.state == "closed":
            # Nobody can be asked later who opened it again, so that is no asking.
            await desk.arrivals.labelled_before(issue.key, at=issue.updated_at)
    await desk.arrivals.record([*_seen(issues, rules, began), *heard(comments, rules)])
    desk.boundary("recorded")
    await watch(desk, None if all_runs else frozenset(issue.key for issue in issues))
    await _advance(desk, "issues", began, issues)
    await _advance(desk, "comments", began, comments)
    if broken:
        raise broken


async def _issues(desk: Desk, rules: Rules, began: float) -> tuple[Issue, ...]:
    """All that changed; the first time also those that have the label since long, open or not."""
    forge, since = await desk.forge(), await desk.arrivals.cursor("issues")
    if since is not None:
        return await forge.issues(state="all", since=since)
    labelled = await forge.issues(state="all", labels=(rules.label,)) if rules.label else ()
    changed = await forge.issues(state="all", since=began)
    return tuple({issue.key: issue for issue in (*labelled, *changed)}.values())


async def _comments(desk: Desk, began: float) -> tuple[Comment, ...]:
    since = await desk.arrivals.cursor("comments")
    return await (await desk.forge()).comments_since(began if since is None else since)


async def _advance(desk: Desk, name: str, began: float, listed: Sequence[Issue] | Sequence[Comment]) -> None:
    newest = max((one.updated_at for one in listed), default=0.0)
    # While nothing is newer the question stays the same, and so may the answer: 304.
    await desk.arrivals.advance(name, max(began, newest - OVERLAP_S))


def _seen(issues: Iterable[Issue], rules: Rules, began: float) -> Iterable[Arrival]:
    for issue in issues:
        if issue.state == "open" and rules.labels(issue.labels):
            said = digest(issue.title, issue.body)
            yield Arrival(kind="labelled", subject=issue.key, at=issue.updated_at, said=said, run=new_run())
        wish = wish_in(issue.body, rules.mention) if issue.created_at >= began else None
        if wish:
            asked = {"by": issue.author, "at": issue.created_at, "wish": wish, "run": new_run()}
            yield Arrival.model_validate({"kind": "mentioned", "subject": issue.key, **asked})


def heard(comments: Iterable[Comment], rules: Rules, *, bot: bool = False) -> Iterable[Arrival]:
    """What comments ask for, whoever showed them to us."""
    for comment in comments:
        wish = wish_in(comment.body, rules.mention)
        if wish and comment.target:
            yield Arrival(
                kind="mentioned",
                subject=comment.target,
                by=comment.author,
                bot=bot,
                at=comment.created_at,
                wish=wish,
                comment=Comment(body="", **comment.model_dump(include=set(KEPT))),
                run=new_run(),
            )
