"""People and bots."""

from resolvent.domain.subject import Permission
from resolvent.forge_server.holdings import Account
from resolvent.forge_server.node_ids import node_id
from resolvent.forge_server.shapes.sight import RANKS, Json, Sight, instant

_LISTS = ("followers", "following", "gists", "starred", "subscriptions", "organizations", "repos", "events")
# What a permission is called where only four words are known.
_LEGACY = {"triage": "read", "maintain": "write"}


def simple_user(sight: Sight, login: str) -> Json:
    """Somebody, as everything that has an author names them."""
    account = sight.account(login)
    url = f"{sight.api}/users/{account.login}"
    shape = {
        "login": account.login,
        "id": account.id,
        "node_id": node_id(account.kind, account.login),
        "avatar_url": f"{sight.base}/avatars/u/{account.id}",
        "gravatar_id": "",
        "url": url,
        "html_url": f"{sight.base}/{account.login}",
        "received_events_url": f"{url}/received_events",
        "type": account.kind,
        "user_view_type": "public",
        "site_admin": False,
    }
    return shape | {f"{name}_url": f"{url}/{name}" for name in _LISTS}


def public_user(sight: Sight, login: str) -> Json:
    """Somebody's profile."""
    then = instant(sight.holdings.created_at)
    unknown = dict.fromkeys(("company", "blog", "location", "email", "hireable", "bio", "twitter_username"))
    counts = dict.fromkeys(("public_repos", "public_gists", "followers", "following"), 0)
    return simple_user(sight, login) | unknown | counts | {"name": login, "created_at": then, "updated_at": then}


def private_user(sight: Sight, login: str) -> Json:
    """One's own profile."""
    counts = ("private_gists", "total_private_repos", "owned_private_repos", "disk_usage", "collaborators")
    return (
        public_user(sight, login)
        | dict.fromkeys(counts, 0)
        | {
            "two_factor_authentication": True,
            "user_view_type": "private",
        }
    )


def permissions(permission: Permission) -> dict[str, bool]:
    """The rights that a permission holds."""
    rank = RANKS.index(permission)
    rights = {"pull": "read", "triage": "triage", "push": "write", "maintain": "maintain", "admin": "admin"}
    return {right: rank >= RANKS.index(least) for right, least in rights.items()}


def collaborator(sight: Sight, account: Account) -> Json:
    """Somebody with a role in the repository."""
    return simple_user(sight, account.login) | {
        "role_name": account.permission,
        "permissions": permissions(account.permission),
    }


def permission_level(sight: Sight, account: Account) -> Json:
    """What somebody may do; `permission` is the older, coarser word for `role_name`."""
    return {
        "permission": _LEGACY.get(account.permission, account.permission),
        "role_name": account.permission,
        "user": collaborator(sight, account),
    }
