"""The door itself: what there is, who I am, how often I may ask."""

from starlette.responses import Response
from starlette.routing import BaseRoute

from resolvent.forge_server.door import Refusal, not_found
from resolvent.forge_server.door_rates import LIMITS
from resolvent.forge_server.rest.asking import Answer, Asking, found, route
from resolvent.forge_server.shapes.accounts import private_user, public_user
from resolvent.forge_server.shapes.repository import repository

_ROOT = {
    "current_user_url": "/user",
    "current_user_authorizations_html_url": "/settings/connections/applications{/client_id}",
    "authorizations_url": "/authorizations",
    "code_search_url": "/search/code?q={query}{&page,per_page,sort,order}",
    "commit_search_url": "/search/commits?q={query}{&page,per_page,sort,order}",
    "emails_url": "/user/emails",
    "emojis_url": "/emojis",
    "events_url": "/events",
    "feeds_url": "/feeds",
    "followers_url": "/user/followers",
    "following_url": "/user/following{/target}",
    "gists_url": "/gists{/gist_id}",
    "issue_search_url": "/search/issues?q={query}{&page,per_page,sort,order}",
    "issues_url": "/issues",
    "keys_url": "/user/keys",
    "label_search_url": "/search/labels?q={query}&repository_id={repository_id}{&page,per_page}",
    "notifications_url": "/notifications",
    "organization_url": "/orgs/{org}",
    "organization_repositories_url": "/orgs/{org}/repos{?type,page,per_page,sort}",
    "organization_teams_url": "/orgs/{org}/teams",
    "public_gists_url": "/gists/public",
    "rate_limit_url": "/rate_limit",
    "repository_url": "/repos/{owner}/{repo}",
    "repository_search_url": "/search/repositories?q={query}{&page,per_page,sort,order}",
    "current_user_repositories_url": "/user/repos{?type,page,per_page,sort}",
    "starred_url": "/user/starred{/owner}{/repo}",
    "starred_gists_url": "/gists/starred",
    "user_url": "/users/{user}",
    "user_organizations_url": "/user/orgs",
    "user_repositories_url": "/users/{user}/repos{?type,page,per_page,sort}",
    "user_search_url": "/search/users?q={query}{&page,per_page,sort,order}",
}
# The Enterprise that it passes for: `gh` asks for the version before it uses what is new.
VERSION = "3.21.0"


def routes() -> list[BaseRoute]:
    return [
        route("GET", "/", root),
        route("GET", "/meta", meta),
        route("GET", "/versions", versions),
        route("GET", "/rate_limit", rate_limit),
        route("GET", "/user", user),
        route("GET", "/user/repos", repositories),
        route("GET", "/users/{login}", account),
        route("GET", "/users/{login}/repos", repositories_of),
        route("GET", "/orgs/{login}/repos", repositories_of),
        route("GET", "/repositories/{id:int}", repository_by_id),
    ]


async def root(asking: Asking) -> Response:
    return Answer({name: asking.sight.api + path for name, path in _ROOT.items()})


async def meta(_: Asking) -> Response:
    return Answer({"verifiable_password_authentication": False, "installed_version": VERSION})


async def versions(_: Asking) -> Response:
    return Answer(["2022-11-28", "2026-03-10"])


async def rate_limit(asking: Asking) -> Response:
    rates = asking.request.state.backstage.rates
    names = ("limit", "remaining", "reset", "used")
    limits = {resource: rates.of(asking.by.login, resource) for resource in LIMITS}
    resources = {resource: {name: getattr(rate, name) for name in names} for resource, rate in limits.items()}
    return Answer({"resources": resources} | asking.sight.older(rate=resources["core"]))


async def user(asking: Asking) -> Response:
    """Oneself; an App is nobody's account."""
    if asking.by.kind == "Bot":
        raise Refusal(403, "Resource not accessible by integration")
    return Answer(private_user(asking.sight, asking.by.login))


async def account(asking: Asking) -> Response:
    login = asking.place("login")
    known = {name.casefold(): name for name in asking.sight.holdings.accounts}
    return Answer(public_user(asking.sight, found(known.get(login.casefold()))))


async def repositories(asking: Asking) -> Response:
    return asking.listed([asking.sight], repository)


async def repositories_of(asking: Asking) -> Response:
    login = asking.place("login").casefold()
    if login not in {name.casefold() for name in (*asking.sight.holdings.accounts, asking.sight.holdings.owner)}:
        raise not_found()
    return asking.listed([asking.sight] if login == asking.sight.holdings.owner.casefold() else [], repository)


async def repository_by_id(asking: Asking) -> Response:
    if asking.number("id") != asking.sight.repo_id:
        raise not_found()
    return Answer(repository(asking.sight))
