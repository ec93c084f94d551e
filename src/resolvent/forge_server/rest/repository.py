"""The repository, who works in it, its branches and what protects them."""

from starlette.responses import Response
from starlette.routing import BaseRoute

from resolvent.forge_server.door import Refusal, not_found
from resolvent.forge_server.holdings import Account
from resolvent.forge_server.rest.asking import Answer, Asking, found, gone, in_repo
from resolvent.forge_server.rest.fields import invalid
from resolvent.forge_server.shapes.accounts import collaborator, permission_level, simple_user
from resolvent.forge_server.shapes.git import commit
from resolvent.forge_server.shapes.repository import (
    RULESET_ID,
    full_branch,
    full_repository,
    is_protected,
    protection,
    required_rule,
    ruleset,
    short_branch,
    status_check_policy,
)

_PROTECTION = "/branches/{branch:path}/protection"


def routes() -> list[BaseRoute]:
    return [
        in_repo("GET", "", show),
        in_repo("PATCH", "", change),
        in_repo("GET", "/collaborators", collaborators),
        in_repo("GET", "/collaborators/{login}", is_collaborator),
        in_repo("GET", "/collaborators/{login}/permission", permission),
        in_repo("GET", "/assignees", assignees),
        in_repo("GET", "/assignees/{login}", is_assignee),
        in_repo("GET", "/branches", branches),
        in_repo("GET", f"{_PROTECTION}/required_status_checks/contexts", contexts),
        in_repo("GET", f"{_PROTECTION}/required_status_checks", status_checks),
        in_repo("GET", _PROTECTION, protected),
        in_repo("GET", "/branches/{branch:path}", branch),
        in_repo("GET", "/rules/branches/{branch:path}", rules),
        in_repo("GET", "/rulesets", rulesets),
        in_repo("GET", "/rulesets/{id:int}", one_ruleset),
    ]


async def show(asking: Asking) -> Response:
    return Answer(full_repository(asking.sight))


async def change(asking: Asking) -> Response:
    """The default branch and whether it is archived; the switches are taken and stay as they are."""
    fields = await asking.fields("Repository")
    branch, archived = fields.text("default_branch"), fields.flag("archived")
    for name in ("has_issues", "has_projects", "has_wiki", "allow_squash_merge", "delete_branch_on_merge"):
        fields.flag(name)
    asking.needs("admin", "Must have admin rights to Repository.")
    if asking.sight.holdings.archived and archived is not False:
        raise Refusal(403, "Repository was archived so is read-only.")
    if branch is not None and asking.sight.branch_commit(branch) is None:
        message = f"The branch {branch} was not found. Please push that ref first or create it via the Git Data API."
        raise invalid("Repository", "default_branch", message)
    if branch is not None:
        await asking.hub.rename_default(branch)
    if archived is not None:
        await asking.hub.archive(archived)
    return Answer(full_repository(await asking.again()))


def _workers(asking: Asking) -> list[Account]:
    known = sorted(asking.sight.holdings.accounts.values(), key=lambda one: one.id)
    return [one for one in known if one.permission != "none" and one.kind != "Organization"]


def _named(asking: Asking) -> Account | None:
    """The account that the path names, however it is capitalised."""
    login = asking.place("login").casefold()
    known = asking.sight.holdings.accounts.values()
    return next((one for one in known if one.login.casefold() == login), None)


async def collaborators(asking: Asking) -> Response:
    asking.needs("write", "Must have push access to view repository collaborators.")
    return asking.listed(_workers(asking), lambda one: collaborator(asking.sight, one))


async def is_collaborator(asking: Asking) -> Response:
    asking.needs("write", "Must have push access to view repository collaborators.")
    named = _named(asking)
    if named is None or named.permission == "none":
        raise not_found()
    return gone()


async def permission(asking: Asking) -> Response:
    """Who has no account is 404; who has one and no role may still read, because the repository is public."""
    asking.needs("write", "Must have push access to view collaborator permission.")
    return Answer(permission_level(asking.sight, found(_named(asking))))


async def assignees(asking: Asking) -> Response:
    return asking.listed(_workers(asking), lambda one: simple_user(asking.sight, one.login))


async def is_assignee(asking: Asking) -> Response:
    if _named(asking) not in _workers(asking):
        raise not_found()
    return gone()


async def branches(asking: Asking) -> Response:
    heads = sorted((ref, at) for ref, at in asking.sight.holdings.refs.items() if ref.startswith("refs/heads/"))
    named = [(ref.removeprefix("refs/heads/"), at) for ref, at in heads]
    if (only := asking.query("protected")) in ("true", "false"):
        named = [one for one in named if is_protected(asking.sight, one[0]) == (only == "true")]
    return asking.listed(named, lambda one: short_branch(asking.sight, one[0], one[1]))


def _branch(asking: Asking) -> str:
    name = asking.place("branch")
    if asking.sight.branch_commit(name) is None:
        raise Refusal(404, "Branch not found")
    return name


async def branch(asking: Asking) -> Response:
    name = _branch(asking)
    made = found(await asking.hub.commit(asking.sight.branch_commit(name) or ""))
    return Answer(full_branch(asking.sight, name, commit(asking.sight, made)))


def _protected(asking: Asking) -> str:
    name = _branch(asking)
    # GitHub shows protection to admins only; to others it is not there.
    if asking.by.permission != "admin":
        raise not_found()
    if not is_protected(asking.sight, name):
        raise Refusal(404, "Branch not protected")
    return name


async def protected(asking: Asking) -> Response:
    return Answer(protection(asking.sight, _protected(asking)))


async def status_checks(asking: Asking) -> Response:
    return Answer(status_check_policy(asking.sight, _protected(asking)))


async def contexts(asking: Asking) -> Response:
    _protected(asking)
    return Answer(list(asking.sight.holdings.required))


async def rules(asking: Asking) -> Response:
    """The rules of a branch, which anybody may read; a branch that does not exist has none."""
    held = is_protected(asking.sight, asking.place("branch"))
    return asking.listed([asking.sight] if held else [], required_rule)


async def rulesets(asking: Asking) -> Response:
    return asking.listed([asking.sight] if asking.sight.holdings.required else [], ruleset)


async def one_ruleset(asking: Asking) -> Response:
    if asking.number("id") != RULESET_ID or not asking.sight.holdings.required:
        raise not_found()
    return Answer(ruleset(asking.sight) | {"rules": [required_rule(asking.sight)]})
