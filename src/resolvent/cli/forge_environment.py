"""What makes real gh and git take a served forge for github.com, whatever a person's own configuration says."""

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from resolvent.forge_server.serving import Serving

PUBLIC = "https://github.com"
# git asks who one is. Only a token of this forge is ever told: a GH_TOKEN for the real github.com stays where it is.
CREDENTIAL = """\
test "$2" = get || exit 0
tokens=$(dirname -- "$0")/tokens
token=$(cat "$tokens/$1")
for kept in "$tokens"/*; do
    test "$(cat "$kept")" != "$GH_TOKEN" || token=$GH_TOKEN
done
printf 'username=x-access-token\\npassword=%s\\n' "$token"
"""


def credential_helper(served: "Serving") -> str:
    """For git's `credential.helper`: whoever GH_TOKEN is on this forge, else its owner; written down if it is not."""
    from resolvent.forge_server.tls import private_file

    file = _place(served) / "credential.sh"
    private_file(file, CREDENTIAL.encode())
    return f"!sh {quote(str(file))} {quote(served.hub.owner)}"


def environment(served: "Serving", helper: str) -> dict[str, str]:
    """The variables, without a token; they come after a person's own configuration and lead nowhere but here."""
    # Some programs look at the one spelling first, some at the other.
    said = dict.fromkeys(("HTTPS_PROXY", "https_proxy"), served.proxy)
    said |= dict.fromkeys(("NO_PROXY", "no_proxy"), "localhost,127.0.0.1")
    said |= dict.fromkeys(("SSL_CERT_FILE", "GIT_SSL_CAINFO"), str(served.ca))
    # The proxy stands before https alone: an address that is rewritten to ssh would reach the real github.com.
    said["GIT_ALLOW_PROTOCOL"] = "https:file"
    settings = _settings(served, helper)
    said["GIT_CONFIG_COUNT"] = str(len(settings))
    for at, (name, value) in enumerate(settings):
        said |= {f"GIT_CONFIG_KEY_{at}": name, f"GIT_CONFIG_VALUE_{at}": value}
    return said


def _settings(served: "Serving", helper: str) -> list[tuple[str, str]]:
    owner = f"{PUBLIC}/{served.hub.owner}/"
    page = f"{owner}{served.hub.name}"
    return [
        # An empty one takes away all before it: a person's own helpers neither tell their tokens nor learn these.
        (f"credential.{PUBLIC}.helper", ""),
        (f"credential.{PUBLIC}.helper", helper),
        # The longest prefix wins, so that no shorter one leads elsewhere.
        (f"url.{page}.insteadOf", page),
        (f"url.{page}.pushInsteadOf", page),
        ("http.proxy", served.proxy),
        # So does the longest address, and of two the last: nothing that is said of them comes before this.
        *((f"http.{at}.proxy", served.proxy) for at in (f"{PUBLIC}/", owner)),
        *((f"http.{at}.extraHeader", "") for at in (f"{PUBLIC}/", owner)),
    ]


def cloning(served: "Serving", helper: str) -> str:
    """The line that clones it as what it is; the clone remembers how to come back."""
    url = served.url
    settings = {f"http.{url}/.sslCAInfo": str(served.ca), f"http.{url}/.proxy": ""}
    told = [*settings.items(), (f"credential.{url}.helper", ""), (f"credential.{url}.helper", helper)]
    words = " ".join(f"-c {quote(f'{name}={value}')}" for name, value in told)
    return f"git clone {words} {url}/{served.hub.owner}/{served.hub.name}.git"


def exports(said: dict[str, str]) -> list[str]:
    """The lines that a shell takes; a setting of git is one with its value."""
    lines: list[list[str]] = [[]]
    for name, value in said.items():
        if name.startswith("GIT_CONFIG_KEY_") or name in ("SSL_CERT_FILE", "GIT_CONFIG_COUNT"):
            lines.append([])
        lines[-1].append(f"{name}={quote(value)}")
    return [f"export {' '.join(line)}" for line in lines]


def _place(served: "Serving") -> Path:
    return served.hub.forge.path.parent
