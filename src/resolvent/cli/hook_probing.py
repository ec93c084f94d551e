"""What doctor says of webhooks: whether one leads here, and what became of its last delivery."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from resolvent.cli.diagnosis import Probe, found
from resolvent.cli.github_standing import Gh, Standing, inner, listed, number, text, texts
from resolvent.settings import Settings
from resolvent.wiring import Home

INTAKE, HOOK = "intake", "intake hook"
PATH = "/webhook"
EVENTS = ("issues", "issue_comment", "pull_request", "check_run", "status")
PATIENCE_S = 3.0


async def hook_probes(home: Home, seen: Standing, gh: Gh) -> list[Probe]:
    """How news of issues come in; nothing of hooks where none are listened for."""
    intake = home.settings.intake
    if not (intake.label or intake.mention):
        return [found(INTAKE, "nothing is taken up by itself: intake.label and intake.mention are empty")]
    if not intake.listen:
        return [_polled(home.settings)]
    return [*_secret(home), await _listener(intake.listen), *hooked(seen, home.settings, gh)]


def _polled(settings: Settings) -> Probe:
    intake = settings.intake
    if not intake.poll:
        fix = 'set intake.poll = "60s", or intake.listen and intake.secret'
        return found(INTAKE, "nobody tells of new issues: there is neither a poll nor a webhook", state="note", fix=fix)
    asked = [f"the label {intake.label}"] if intake.label else []
    asked += [f"@{intake.mention} by who may {intake.allow}"] if intake.mention else []
    return found(INTAKE, f"{' or '.join(asked)}; asked for every {intake.poll:g}s while `resolvent serve` runs")


def _secret(home: Home) -> Iterator[Probe]:
    named = home.settings.intake.secret
    name = named.removeprefix("$")
    if not named:
        fix = 'set intake.secret = "$RESOLVENT_WEBHOOK_SECRET"'
        yield found(INTAKE, "webhooks are listened for, but nothing signs them", state="fault", fix=fix)
    elif not home.environ.get(name):
        fix = f"export {name}=$(openssl rand -hex 32), and give the webhook the same"
        yield found(INTAKE, f"intake.secret is read from {named}, which is not set", state="fault", fix=fix)


async def _listener(listen: str) -> Probe:
    """Whether somebody listens there now."""
    host, _, port = listen.rpartition(":")
    try:
        async with asyncio.timeout(PATIENCE_S):
            reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
            writer.write(f"GET /healthz HTTP/1.1\r\nHost: {listen}\r\nConnection: close\r\n\r\n".encode())
            first = (await reader.readline()).split()
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
    except (OSError, TimeoutError, ValueError):
        return found(INTAKE, f"nobody listens at {listen} now", state="note", fix="resolvent serve")
    if first[1:2] != [b"200"]:
        return found(
            INTAKE, f"another program listens at {listen}", state="fault", fix="set intake.listen to a free port"
        )
    return found(INTAKE, f"webhooks are listened for at {listen}")


def hooked(seen: Standing, settings: Settings, gh: Gh) -> Iterator[Probe]:
    """What GitHub says of the webhooks that are meant for us."""
    if seen.hooks is None:
        return
    if seen.hooks.status != 200:
        fix = f"gh auth refresh{gh.named} --scopes admin:repo_hook, or look there: {gh.where.page}/settings/hooks"
        what = "the webhooks of the repository cannot be seen with this token"
        yield found(HOOK, what, state="note", fix=fix)
        return
    ours = [hook for hook in listed(seen.hooks) if urlsplit(_url(hook)).path.rstrip("/").endswith(PATH)]
    if not ours:
        what = f"{gh.where.repo} has no webhook that ends in {PATH}"
        yield found(HOOK, what, state="fault", fix=_create(settings, gh))
    for hook in ours:
        yield from _judged(hook, settings, gh)


def _url(hook: Mapping[str, Any]) -> str:
    return text(inner(hook, "config"), "url")


def _create(settings: Settings, gh: Gh) -> str:
    events = " ".join(f"-f 'events[]={event}'" for event in EVENTS)
    config = f"-f 'config[url]=https://YOUR-HOST{PATH}' -f 'config[content_type]=json'"
    config += f' -f "config[secret]={_variable(settings)}"'
    return f"{gh.api} repos/{gh.where.repo}/hooks -f name=web {events} {config}"


def _variable(settings: Settings) -> str:
    return settings.intake.secret or "$RESOLVENT_WEBHOOK_SECRET"


def _judged(hook: Mapping[str, Any], settings: Settings, gh: Gh) -> Iterator[Probe]:
    place, config = f"repos/{gh.where.repo}/hooks/{number(hook, 'id')}", inner(hook, "config")
    patch = f"{gh.api} --method PATCH {place}"
    events, faults = texts(hook, "events"), []
    missing = [] if "*" in events else [event for event in EVENTS if event not in events]
    if hook.get("active") is not True:
        faults.append(("is switched off", f"{patch} -F active=true"))
    if not text(config, "secret"):
        faults.append(("is not signed", f'{patch}/config -f "secret={_variable(settings)}"'))
    if text(config, "content_type") != "json":
        faults.append(("does not send JSON", f"{patch}/config -f content_type=json"))
    if missing:
        added = " ".join(f"-f 'add_events[]={event}'" for event in missing)
        faults.append((f"does not tell of {', '.join(missing)}", f"{patch} {added}"))
    faults += list(_delivered(hook, gh.api, place))
    for what, fix in faults:
        yield found(HOOK, f"{_url(hook)} {what}", state="fault", fix=fix)
    if str(config.get("insecure_ssl")) == "1":
        fix = f"{patch}/config -f insecure_ssl=0"
        yield found(HOOK, f"{_url(hook)} is called without looking at its certificate", state="note", fix=fix)
    if not faults:
        yield found(HOOK, f"{_url(hook)}: {_last(hook)}")


def _last(hook: Mapping[str, Any]) -> str:
    code = number(inner(hook, "last_response"), "code")
    return f"its last delivery was answered with {code}" if code else "nothing was delivered yet"


def _delivered(hook: Mapping[str, Any], api: str, place: str) -> Iterator[tuple[str, str]]:
    """What went wrong with the last delivery."""
    last = inner(hook, "last_response")
    code, status = number(last, "code"), text(last, "status")
    if 200 <= code < 300 or (not code and status in ("", "unused")):
        return
    said = {401: "it is signed with another secret than ours", 404: "nothing of ours is at that address"}.get(code, "")
    why = said or text(last, "message") or status or "nobody answered"
    number_line = f"answered with {code}: {why}" if code else f"not answered: {why}"
    yield f"failed: its last delivery was {number_line}", f"mend it, then: {api} --method POST {place}/pings"
