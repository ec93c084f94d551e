"""The server of an agent's model as its process sees it: a gateway in a box, and outside of one the server itself."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from resolvent.domain.job import Gateway
from resolvent.domain.record import AgentChoice

# On the box's own loopback, where nothing else listens but the proxy, which is at 3128.
PORT = 3129
# Programs do not start without a key; the gateway puts the real one in its place.
PLACEHOLDER = "the-key-is-kept-outside"
# Who takes a key in a header of its own; everybody else takes a bearer's.
OWN_HEADERS = {"anthropic.com": "x-api-key", "googleapis.com": "x-goog-api-key"}


@dataclass(frozen=True)
class ModelServer:
    """What `{endpoint}`, `{key}` and `{model}` stand for, and what its job needs for it."""

    endpoint: str = ""
    key: str = ""
    model: str = ""
    gateways: tuple[Gateway, ...] = ()
    secrets: tuple[str, ...] = ()

    def filled(self, text: str) -> str:
        """The text with these words replaced, and no other braces touched."""
        # All in one go: a key that happens to hold such a word stays what it is.
        return re.sub(r"\{(endpoint|key|model)\}", lambda found: str(getattr(self, found[1])), text)


def model_server(choice: AgentChoice, *, key: str, boxed: bool) -> ModelServer:
    """How the process of this agent reaches its model; in a box the key stays outside wherever an endpoint is named."""
    if boxed and choice.endpoint:
        gateway = Gateway(port=PORT, upstream=choice.endpoint, headers=_headers(choice.endpoint, key))
        # A secret all the same: its server may repeat it in an answer.
        secrets = (key,) if key else ()
        return ModelServer(f"http://127.0.0.1:{PORT}", PLACEHOLDER, choice.model, gateways=(gateway,), secrets=secrets)
    return ModelServer(choice.endpoint, key, choice.model, secrets=(key,) if key else ())


def _headers(endpoint: str, key: str) -> dict[str, str]:
    if not key:
        return {}
    host = urlsplit(endpoint).hostname or ""
    for owner, header in OWN_HEADERS.items():
        if host == owner or host.endswith(f".{owner}"):
            return {header: key}
    return {"Authorization": f"Bearer {key}"}
