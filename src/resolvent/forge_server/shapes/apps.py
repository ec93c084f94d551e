"""Apps and where they are installed."""

from resolvent.domain.model import Value
from resolvent.domain.subject import Permission
from resolvent.forge_server.node_ids import node_id
from resolvent.forge_server.shapes.accounts import simple_user
from resolvent.forge_server.shapes.sight import Json, Sight, instant

RIGHTS = {"actions": "write", "checks": "read", "contents": "write", "issues": "write", "metadata": "read",
          "pull_requests": "write", "statuses": "read", "workflows": "write"}  # fmt: skip


class App(Value):
    """An App that is installed in the repository: it signs with the key whose public half this is."""

    id: int
    slug: str
    public_key: str
    installation: int
    permission: Permission = "write"

    @property
    def login(self) -> str:
        """Who it is when it writes."""
        return f"{self.slug}[bot]"


def integration(sight: Sight, app: App) -> Json:
    """An App itself."""
    then = instant(sight.holdings.created_at)
    return {
        "id": app.id,
        "slug": app.slug,
        "client_id": f"Iv1.{app.slug}",
        "node_id": node_id("Bot", app.login),
        "owner": simple_user(sight, sight.holdings.owner),
        "name": app.slug,
        "description": "",
        "external_url": sight.base,
        "html_url": f"{sight.base}/apps/{app.slug}",
        "created_at": then,
        "updated_at": then,
        "permissions": RIGHTS,
        "events": [],
        "installations_count": 1,
    }


def installation(sight: Sight, app: App) -> Json:
    """Where an App is installed."""
    then = instant(sight.holdings.created_at)
    return {
        "id": app.installation,
        "account": simple_user(sight, sight.holdings.owner),
        "repository_selection": "selected",
        "access_tokens_url": f"{sight.api}/app/installations/{app.installation}/access_tokens",
        "repositories_url": f"{sight.api}/installation/repositories",
        "html_url": f"{sight.base}/settings/installations/{app.installation}",
        "app_id": app.id,
        "app_slug": app.slug,
        "client_id": f"Iv1.{app.slug}",
        "target_id": sight.account(sight.holdings.owner).id,
        "target_type": "User",
        "permissions": RIGHTS,
        "events": [],
        "created_at": then,
        "updated_at": then,
        "single_file_name": None,
        "has_multiple_single_files": False,
        "single_file_paths": [],
        "suspended_by": None,
        "suspended_at": None,
    }
