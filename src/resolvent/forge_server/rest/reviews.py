"""Reviews of pull requests, the remarks on their lines, and who is asked for one."""

from collections.abc import Iterator

from starlette.responses import Response
from starlette.routing import BaseRoute

from resolvent.forge_server.door import Refusal
from resolvent.forge_server.holdings import Item, LineRemark, Opined, Opinion
from resolvent.forge_server.hub import Noted, Opining
from resolvent.forge_server.rest.asking import Answer, Asking, found, in_repo
from resolvent.forge_server.rest.fields import Fields, invalid
from resolvent.forge_server.shapes.accounts import simple_user
from resolvent.forge_server.shapes.pulls import line_remark, review, simple_pull

_PULL = "/pulls/{number:int}"
_REVIEW = f"{_PULL}/reviews/{{id:int}}"
_EVENTS: dict[str, Opinion] = {"APPROVE": "approve", "REQUEST_CHANGES": "request_changes", "COMMENT": "comment"}


def routes() -> list[BaseRoute]:
    return [
        in_repo("GET", f"{_PULL}/reviews", listed),
        in_repo("POST", f"{_PULL}/reviews", create),
        in_repo("GET", _REVIEW, show),
        in_repo("GET", f"{_REVIEW}/comments", remarks_of),
        in_repo("PUT", f"{_REVIEW}/dismissals", dismiss),
        in_repo("GET", f"{_PULL}/comments", line_remarks),
        in_repo("POST", f"{_PULL}/comments", remark_on_line),
        in_repo("GET", "/pulls/comments", all_line_remarks),
        in_repo("GET", "/pulls/comments/{id:int}", one_line_remark),
        in_repo("GET", f"{_PULL}/requested_reviewers", requested),
        in_repo("POST", f"{_PULL}/requested_reviewers", request_review),
        in_repo("DELETE", f"{_PULL}/requested_reviewers", unrequest_review),
    ]


async def listed(asking: Asking) -> Response:
    return asking.listed(asking.pull().reviews, lambda one: review(asking.sight, one))


def _review(asking: Asking) -> Opined:
    wanted = asking.number("id")
    return found(next((one for one in asking.pull().reviews if one.id == wanted), None))


async def show(asking: Asking) -> Response:
    return Answer(review(asking.sight, _review(asking)))


async def remarks_of(asking: Asking) -> Response:
    number = asking.number()
    return asking.listed(_review(asking).remarks, lambda one: line_remark(asking.sight, number, one))


def _on_line(fields: Fields) -> Noted:
    """A remark on a line: its path, its line (`position` is the older word), its text."""
    path, body = fields.filled("path", longest=4096), fields.filled("body")
    line = fields.number("line") or fields.number("position") or fields.number("original_line") or 1
    if line < 1:
        raise invalid("PullRequestReviewComment", "line", "line must be part of the diff")
    return Noted(path=path, line=line, body=body)


async def create(asking: Asking) -> Response:
    """A review with its remarks; one without `event` would wait for more on GitHub, and is said at once here."""
    item = asking.pull()
    fields = await asking.fields("PullRequestReview")
    event = fields.choice("event", tuple(_EVENTS)) or "COMMENT"
    body, commit = fields.text("body") or "", fields.text("commit_id") or ""
    remarks = [_on_line(one) for one in fields.objects("comments")]
    opinion = _EVENTS[event]
    if opinion != "approve" and not body.strip() and not remarks:
        raise Refusal(422, "Unprocessable Entity", errors=["Body can't be blank"])
    if opinion != "comment" and item.author == asking.by.login:
        word = "approve" if opinion == "approve" else "request changes on"
        raise Refusal(422, "Unprocessable Entity", errors=[f"Can not {word} your own pull request"])
    await _known_commit(asking, commit)
    made = await asking.hub.opine(asking.by, item.number, Opining(opinion, body, commit, remarks))
    return Answer(review(await asking.again(), made))


async def _known_commit(asking: Asking, commit: str) -> None:
    if commit and await asking.hub.commit(commit) is None:
        raise invalid("PullRequestReview", "commit_id", "commit_id is not part of the pull request")


async def dismiss(asking: Asking) -> Response:
    wanted = _review(asking)
    (await asking.fields("PullRequestReview")).filled("message")
    asking.needs("write")
    await asking.hub.dismiss(asking.by, asking.number(), wanted.id)
    await asking.again()
    return Answer(review(asking.sight, _review(asking)))


def _remarks(item: Item) -> Iterator[tuple[int, LineRemark]]:
    for one in item.reviews:
        for remark in one.remarks:
            yield item.number, remark


async def line_remarks(asking: Asking) -> Response:
    return asking.listed(list(_remarks(asking.pull())), lambda one: line_remark(asking.sight, *one))


def _everywhere(asking: Asking) -> list[tuple[int, LineRemark]]:
    return [one for item in asking.sight.holdings.items.values() for one in _remarks(item)]


async def all_line_remarks(asking: Asking) -> Response:
    return asking.listed(_everywhere(asking), lambda one: line_remark(asking.sight, *one))


async def one_line_remark(asking: Asking) -> Response:
    wanted = asking.number("id")
    one = found(next((one for one in _everywhere(asking) if one[1].id == wanted), None))
    return Answer(line_remark(asking.sight, *one))


async def remark_on_line(asking: Asking) -> Response:
    """One remark on a line, which is a review of its own."""
    item = asking.pull()
    fields = await asking.fields("PullRequestReviewComment")
    remark, commit = _on_line(fields), fields.filled("commit_id")
    await _known_commit(asking, commit)
    made = await asking.hub.opine(asking.by, item.number, Opining("comment", "", commit, [remark]))
    sight = await asking.again()
    return Answer(line_remark(sight, item.number, made.remarks[-1]), 201)


async def requested(asking: Asking) -> Response:
    users = [simple_user(asking.sight, login) for login in asking.pull().reviewers]
    return Answer({"users": users, "teams": []})


async def _reviewers(asking: Asking, item: Item) -> list[str]:
    """Who is named; each works here and did not write the pull request."""
    fields = await asking.fields("PullRequest")
    logins = fields.texts("reviewers") or []
    if fields.texts("team_reviewers"):
        raise Refusal(422, "Could not resolve to a node with the global id of the team.")
    known = {one.login.casefold(): one for one in asking.sight.holdings.accounts.values() if one.permission != "none"}
    if any(login.casefold() == item.author.casefold() for login in logins):
        raise Refusal(422, "Review cannot be requested from pull request author.")
    if any(login.casefold() not in known for login in logins):
        message = "Reviews may only be requested from collaborators. One or more of the users or teams you specified"
        raise Refusal(422, f"{message} is not a collaborator of the {asking.sight.full_name} repository.")
    return list(dict.fromkeys(known[login.casefold()].login for login in logins))


async def request_review(asking: Asking) -> Response:
    item = asking.pull()
    logins = await _reviewers(asking, item)
    asking.needs("write")
    await asking.hub.ask_for_review(asking.by, item.number, logins)
    return Answer(simple_pull(await asking.again(), asking.pull()), 201)


async def unrequest_review(asking: Asking) -> Response:
    item = asking.pull()
    logins = await _reviewers(asking, item)
    asking.needs("write")
    await asking.hub.unask(asking.by, item.number, logins)
    return Answer(simple_pull(await asking.again(), asking.pull()))
