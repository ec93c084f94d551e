"""Apps: known by the signature of their key, and lent tokens for an hour.

app = await register(hub, "resolvent", public_key=pem)      # then: app.id, app.installation and the private half
"""

from pydantic import TypeAdapter
from starlette.responses import Response
from starlette.routing import BaseRoute

from resolvent.domain.subject import Permission
from resolvent.forge_server.door import Refusal, not_found, token_of
from resolvent.forge_server.hub import Hub
from resolvent.forge_server.rest.asking import Answer, Asking, found, route
from resolvent.forge_server.shapes.apps import RIGHTS, App, installation, integration
from resolvent.forge_server.shapes.repository import repository
from resolvent.forge_server.shapes.sight import instant

NOTE = "apps"
LENT_S = 3600
# A signature may last no longer than this, and half a minute for clocks that differ.
_SIGNED_S, _SKEW_S = 600, 30
_APPS = TypeAdapter(tuple[App, ...])
_ONE = "/app/installations/{id:int}"


def routes() -> list[BaseRoute]:
    return [
        route("GET", "/app", show),
        route("GET", "/app/installations", installations),
        route("GET", _ONE, one_installation),
        route("POST", f"{_ONE}/access_tokens", lend),
        route("GET", "/apps/{slug}", by_slug),
        route("GET", "/installation/repositories", repositories),
    ]


async def apps_of(hub: Hub) -> tuple[App, ...]:
    """Every App that is registered."""
    return _APPS.validate_json(await hub.note(NOTE) or "[]")


async def register(hub: Hub, slug: str, *, public_key: str, permission: Permission = "write") -> App:
    """A new App with that key, installed in the repository; it acts as `SLUG[bot]`."""
    known = await apps_of(hub)
    number = len(known) + 1
    app = App(id=1000 + number, slug=slug, public_key=public_key, installation=2000 + number, permission=permission)
    await hub.account(app.login, kind="Bot", permission=permission)
    await hub.set_note(NOTE, _APPS.dump_json((*known, app)).decode())
    return app


async def _signer(asking: Asking) -> App:
    """The App whose key signed what is shown instead of a token."""
    import jwt

    shown = token_of(asking.request)
    if not shown:
        raise Refusal(401, "Requires authentication")
    try:
        issuer = jwt.decode(shown, options={"verify_signature": False}).get("iss")
        named = (app for app in await apps_of(asking.hub) if str(issuer) in (str(app.id), f"Iv1.{app.slug}"))
        app = next(named, None)
        if app is None:
            raise Refusal(404, "Integration not found")
        said = jwt.decode(
            shown,
            app.public_key,
            algorithms=["RS256"],
            leeway=_SKEW_S,
            options={"require": ["exp", "iat", "iss"], "verify_iss": False},
        )
    except jwt.ExpiredSignatureError as error:
        raise Refusal(401, "'Expiration time' claim ('exp') must be a numeric value in the future") from error
    except jwt.PyJWTError as error:
        raise Refusal(401, "A JSON web token could not be decoded") from error
    if said["exp"] - said["iat"] > _SIGNED_S + 2 * _SKEW_S:
        raise Refusal(401, "'Expiration time' claim ('exp') is too far in the future")
    return app


async def show(asking: Asking) -> Response:
    return Answer(integration(asking.sight, await _signer(asking)))


async def installations(asking: Asking) -> Response:
    return asking.listed([await _signer(asking)], lambda app: installation(asking.sight, app))


async def _installed(asking: Asking) -> App:
    app = await _signer(asking)
    if asking.number("id") != app.installation:
        raise not_found()
    return app


async def one_installation(asking: Asking) -> Response:
    return Answer(installation(asking.sight, await _installed(asking)))


async def lend(asking: Asking) -> Response:
    """A token for the installation; it may be asked for this repository only."""
    app = await _installed(asking)
    fields = await asking.fields("Installation")
    for name in fields.texts("repositories") or ():
        if name.casefold() != asking.hub.name.casefold():
            raise Refusal(422, "There is at least one repository that does not exist or is not accessible.")
    token = await asking.hub.token(app.login, scopes=("repo", "workflow"), prefix="ghs_")
    told = {
        "token": token,
        "expires_at": instant(asking.hub.clock.now() + LENT_S),
        "permissions": RIGHTS,
        "repository_selection": "selected",
        "repositories": [repository(asking.sight)],
    }
    return Answer(told, 201)


async def by_slug(asking: Asking) -> Response:
    slug = asking.place("slug")
    app = next((app for app in await apps_of(asking.hub) if app.slug == slug), None)
    return Answer(integration(asking.sight, found(app)))


async def repositories(asking: Asking) -> Response:
    """What the installation of an App reaches; a person's token is none of those."""
    if asking.by.kind != "Bot":
        raise Refusal(403, "You must authenticate with an installation access token in order to list repositories.")
    return asking.counted("repositories", [asking.sight], repository, repository_selection="selected")
