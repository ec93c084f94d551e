"""What doctor says of GitHub: whether it lets us in, the repository, and the limits."""

from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING

from resolvent.cli.diagnosis import Probe, fault, found
from resolvent.cli.github_branches import branch, merging
from resolvent.cli.github_rights import rights
from resolvent.cli.github_standing import Gh, Standing, inner, number, said, standing, text
from resolvent.cli.words import seconds
from resolvent.errors import ResolventError
from resolvent.settings import Settings
from resolvent.wiring import Home

if TYPE_CHECKING:
    from resolvent.adapters.forges.github_place import GitHubPlace, Where

FORGE, TOKEN, LIMITS, CLOCK = "forge", "forge token", "forge limits", "forge clock"
INSTALL = "pip install '.[github]'  # where you cloned Resolvent"
# An App's signature is refused when the clocks are further apart than this.
SKEW_S = 60.0
SOON_S = 7 * 86400.0


async def github_probes(home: Home) -> list[Probe]:
    """Everything about the forge that can be looked at from here."""
    from resolvent.cli.hook_probing import hook_probes

    if find_spec("githubkit") is None:
        return [found(FORGE, "githubkit is not installed", state="fault", fix=INSTALL)]
    listens = bool(home.settings.intake.listen)
    try:
        place = home.github_place()
        seen = await standing(place, home.clock, hooks=listens)
    except ResolventError as error:
        return [fault(FORGE, error)]
    told = list(judged(seen, place, home.settings, now=home.clock.now()))
    # Who is not let in has other worries.
    return [*told, *(await hook_probes(home, seen, Gh(place.where)) if said(seen.repo) else ())]


def judged(seen: Standing, place: "GitHubPlace", settings: Settings, *, now: float) -> Iterator[Probe]:
    """What these answers mean for a run, and how to mend it."""
    gh = Gh(place.where)
    refused = _refused(seen, place, settings, gh)
    if refused:
        yield refused
        yield from _clock(seen, place)
        return
    assert seen.repo is not None
    yield from _repository(seen, place, gh)
    yield from rights(seen, place, settings, gh)
    yield from _expiry(seen, settings, now)
    yield from branch(seen, settings, gh)
    yield from merging(seen, settings, gh)
    yield from _limits(seen, settings, gh, now)
    yield from _clock(seen, place)


def _refused(seen: Standing, place: "GitHubPlace", settings: Settings, gh: Gh) -> Probe | None:
    """Why we are not let in at all."""
    where, variable = place.where, settings.forge.token or settings.forge.private_key
    at = gh.host
    if seen.me.status == 401 and place.token:
        fix = f"export {variable.removeprefix('$')}=$(gh auth token{gh.named}), or make one: {_new_token(where)}"
        return found(TOKEN, f"{at} does not accept the token in {variable}", state="fault", fix=fix)
    if seen.me.status in (401, 404) and not place.token:
        what = (
            f"{at} knows no installation {place.installation} of the App {place.app}, or not by the key in {variable}"
        )
        fix = f"look up both numbers and make a new key: {where.web}/settings/apps"
        return found(TOKEN, what, state="fault", fix=fix)
    if seen.me.status != 200:
        what = f"the token in {variable} does not say whose it is: {seen.me.message}"
        return found(TOKEN, what, state="fault", fix=f"use one of a person or of an App: {_new_token(where)}")
    if seen.repo is None or seen.repo.status != 200:
        return _unseen(seen, place, gh)
    return None


def _unseen(seen: Standing, place: "GitHubPlace", gh: Gh) -> Probe:
    where, repo = place.where, seen.repo
    headers = repo.headers if repo else {}
    sso = headers.get("x-github-sso", "")
    if "url=" in sso:
        what = f"{where.owner} wants the token authorised by single sign-on"
        return found(TOKEN, what, state="fault", fix=f"open {sso.partition('url=')[2].split(';')[0].strip()}")
    if repo and repo.status in (301, 307, 308):
        what = f"{where.repo} has another name now, and nothing is written to where it was"
        fix = f"set forge.repo to what this says: {gh.api} repos/{where.repo} --jq .full_name"
        return found(FORGE, what, state="fault", fix=fix)
    if not place.token:
        page = text(said(seen.me), "html_url") or f"{where.web}/settings/installations/{place.installation}"
        what = f"the App {place.app} is not installed on {where.repo}"
        return found(FORGE, what, state="fault", fix=f"add the repository: {page}")
    if repo and repo.status not in (403, 404):
        return found(FORGE, f"{where.repo}: {repo.message}", state="fault", fix=f"{gh.api} repos/{where.repo}")
    what = f"{where.repo} is not there, or this token does not see it"
    return found(
        FORGE, what, state="fault", fix=f"look with your own: gh repo view {gh.repo}; then add it to the token"
    )


def _new_token(where: "Where") -> str:
    return f"{where.web}/settings/personal-access-tokens/new"


def login_of(seen: Standing, place: "GitHubPlace") -> str:
    """Who we are there, as far as the answers say."""
    return text(said(seen.me), "login") if place.token else f"{text(said(seen.me), 'app_slug') or place.app}[bot]"


def _repository(seen: Standing, place: "GitHubPlace", gh: Gh) -> Iterator[Probe]:
    repo, where = said(seen.repo), place.where
    if repo.get("archived") is True:
        what = f"{where.repo} is archived: nothing can be written there"
        yield found(FORGE, what, state="fault", fix=f"gh repo unarchive {gh.repo}")
    elif repo.get("has_issues") is False:
        what = f"{where.repo} has no issues"
        yield found(FORGE, what, state="fault", fix=f"gh repo edit {gh.repo} --enable-issues")
    else:
        yield found(FORGE, f"github, {where.page} as {login_of(seen, place)}")


def _expiry(seen: Standing, settings: Settings, now: float) -> Iterator[Probe]:
    ends = seen.me.headers.get("github-authentication-token-expiration", "")
    try:
        left = datetime.strptime(ends[:19], "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp() - now
    except ValueError:
        return
    if left < SOON_S:
        fix = f"make a new one in time, and put it in {settings.forge.token}"
        yield found(TOKEN, f"it expires at {ends[:16]} UTC, in {seconds(max(0.0, left))}", state="note", fix=fix)


def _limits(seen: Standing, settings: Settings, gh: Gh, now: float) -> Iterator[Probe]:
    core = inner(inner(said(seen.limits), "resources"), "core")
    left, most = number(core, "remaining"), number(core, "limit")
    # A server of one's own may have no limits at all.
    if not most:
        return
    kept = min(settings.forge.reserve, most // 2)
    what = f"{left:,} of {most:,} API calls of this hour are left, {kept:,} of them for others"
    if left > kept:
        yield found(LIMITS, what)
        return
    again = seconds(max(0.0, number(core, "reset") - now - seen.ahead))
    yield found(LIMITS, f"{what}: reading waits for {again}", state="note", fix=f"{gh.api} rate_limit")


def _clock(seen: Standing, place: "GitHubPlace") -> Iterator[Probe]:
    if abs(seen.ahead) <= SKEW_S:
        return
    side = "behind" if seen.ahead > 0 else "ahead of"
    what = f"the clock of this machine is {seconds(abs(seen.ahead))} {side} that of {Gh(place.where).host}"
    state = "note" if place.token else "fault"
    yield found(CLOCK, what, state=state, fix="sudo timedatectl set-ntp true")  # type: ignore[arg-type]
