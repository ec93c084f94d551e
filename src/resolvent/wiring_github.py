"""GitHub by settings: which repository, as whom, through which proxy."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from resolvent.settings import Settings, forge_secrets

if TYPE_CHECKING:
    from resolvent.adapters.forges.github import GitHubPlace


def github_place(settings: Settings, environ: Mapping[str, str], *, ca: str, cache: Path) -> "GitHubPlace":
    """Where the forge is and who we are there; ConfigError when a variable with a secret is not set."""
    from resolvent.adapters.forges.github import GitHubPlace

    said, secrets = settings.forge, forge_secrets(settings, environ)
    return GitHubPlace(
        repo=said.repo,
        api=said.api,
        token=secrets.token,
        app=said.app,
        installation=said.installation,
        private_key=secrets.private_key,
        ca=ca,
        proxy=_proxy(said.api or "https://github.com", environ),
        trusted_logins=said.trusted_logins,
        reserve=said.reserve,
        cache=cache,
        poll_s=said.poll,
    )


def _proxy(url: str, environ: Mapping[str, str]) -> str:
    """The proxy that leads there; none where NO_PROXY says that there is none."""
    host = urlsplit(url).hostname or ""
    named = environ.get("no_proxy", environ.get("NO_PROXY", "")).split(",")
    spared = [one.strip().partition(":")[0].lstrip(".").lower() for one in named]
    if "*" in spared or any(host == one or host.endswith(f".{one}") for one in spared if one):
        return ""
    return environ.get("HTTPS_PROXY", environ.get("https_proxy", ""))
