"""The repository, its branches and what protects them."""

from resolvent.forge_server.node_ids import node_id
from resolvent.forge_server.shapes.accounts import permissions, simple_user
from resolvent.forge_server.shapes.sight import Json, Sight, instant, quoted

RULESET_ID = 1
_PLAIN_URLS = (
    "assignees{/user}", "branches{/branch}", "collaborators{/collaborator}", "comments{/number}", "commits{/sha}",
    "contributors", "deployments", "downloads", "events", "forks", "hooks", "issues{/number}", "keys{/key_id}",
    "labels{/name}", "languages", "merges", "milestones{/number}", "pulls{/number}", "releases{/id}", "stargazers",
    "statuses/{sha}", "subscribers", "subscription", "tags", "teams",
)  # fmt: skip
_OTHER_URLS = {
    "archive_url": "{archive_format}{/ref}",
    "blobs_url": "git/blobs{/sha}",
    "compare_url": "compare/{base}...{head}",
    "contents_url": "contents/{+path}",
    "git_commits_url": "git/commits{/sha}",
    "git_refs_url": "git/refs{/sha}",
    "git_tags_url": "git/tags{/sha}",
    "issue_comment_url": "issues/comments{/number}",
    "issue_events_url": "issues/events{/number}",
    "notifications_url": "notifications{?since,all,participating}",
    "trees_url": "git/trees{/sha}",
}


def _urls(sight: Sight) -> Json:
    plain = {name.split("{")[0].split("/")[0] + "_url": f"{sight.repo}/{name}" for name in _PLAIN_URLS}
    return plain | {name: f"{sight.repo}/{path}" for name, path in _OTHER_URLS.items()}


def minimal_repository(sight: Sight) -> Json:
    """The repository, as other things name it."""
    held = sight.holdings
    return _urls(sight) | {
        "id": sight.repo_id,
        "node_id": node_id("Repository", sight.full_name),
        "name": held.name,
        "full_name": sight.full_name,
        "owner": simple_user(sight, held.owner),
        "private": False,
        "html_url": sight.page,
        "description": None,
        "fork": False,
        "url": sight.repo,
    }


def repository(sight: Sight) -> Json:
    """The repository, as branches and lists name it."""
    held = sight.holdings
    open_items = sum(item.state == "open" for item in held.items.values())
    then = instant(held.created_at)
    switched_off = dict.fromkeys(("has_projects", "has_wiki", "has_pages", "has_discussions", "is_template"), False)
    counts = ("forks", "forks_count", "stargazers_count", "watchers", "watchers_count", "size")
    address = f"{sight.page}.git"
    return (
        minimal_repository(sight)
        | switched_off
        | dict.fromkeys(counts, 0)
        | {
            "has_issues": True,
            "git_url": address,
            "ssh_url": address,
            "clone_url": address,
            "svn_url": sight.page,
            "mirror_url": None,
            "homepage": None,
            "language": None,
            "license": None,
            "topics": [],
            "visibility": "public",
            "default_branch": held.default_branch,
            "open_issues": open_items,
            "open_issues_count": open_items,
            "archived": held.archived,
            "disabled": False,
            "allow_forking": True,
            "web_commit_signoff_required": False,
            "pushed_at": then,
            "created_at": then,
            "updated_at": then,
            "permissions": permissions(sight.viewer.permission),
        }
    )


def full_repository(sight: Sight) -> Json:
    """The repository itself."""
    merging = dict.fromkeys(("allow_merge_commit", "allow_squash_merge", "allow_rebase_merge"), True)
    return (
        repository(sight)
        | merging
        | {
            "allow_auto_merge": False,
            "allow_update_branch": False,
            "delete_branch_on_merge": False,
            "subscribers_count": 0,
            "network_count": 0,
        }
    )


def is_protected(sight: Sight, branch: str) -> bool:
    """Required checks protect the default branch, and nothing else is protected."""
    return bool(sight.holdings.required) and branch == sight.holdings.default_branch


def branch_url(sight: Sight, branch: str) -> str:
    return f"{sight.repo}/branches/{quoted(branch)}"


def short_branch(sight: Sight, branch: str, commit: str) -> Json:
    """A branch, as a list names it."""
    return {
        "name": branch,
        "commit": {"sha": commit, "url": f"{sight.repo}/commits/{commit}"},
        "protected": is_protected(sight, branch),
        "protection": _brief_protection(sight, branch),
        "protection_url": f"{branch_url(sight, branch)}/protection",
    }


def full_branch(sight: Sight, branch: str, commit: Json) -> Json:
    """A branch with the shape of the commit it is at."""
    return short_branch(sight, branch, commit["sha"]) | {
        "commit": commit,
        "_links": {"self": branch_url(sight, branch), "html": f"{sight.page}/tree/{quoted(branch)}"},
    }


def _brief_protection(sight: Sight, branch: str) -> Json:
    on = is_protected(sight, branch)
    names = list(sight.holdings.required) if on else []
    level = "non_admins" if on else "off"
    required = {"enforcement_level": level, "contexts": names, "checks": _required(names)}
    return {"enabled": on, "required_status_checks": required}


def _required(names: list[str]) -> list[Json]:
    return [{"context": name, "app_id": None} for name in names]


def status_check_policy(sight: Sight, branch: str) -> Json:
    """The required checks of a protected branch."""
    url = f"{branch_url(sight, branch)}/protection/required_status_checks"
    names = list(sight.holdings.required)
    return {
        "url": url,
        "strict": False,
        "contexts": names,
        "contexts_url": f"{url}/contexts",
        "checks": _required(names),
        "enforcement_level": "non_admins",
    }


def protection(sight: Sight, branch: str) -> Json:
    """What protects a protected branch."""
    url = f"{branch_url(sight, branch)}/protection"
    switches = ("required_linear_history", "allow_force_pushes", "allow_deletions", "block_creations",
                "required_conversation_resolution", "lock_branch", "allow_fork_syncing")  # fmt: skip
    return {name: {"enabled": False} for name in switches} | {
        "url": url,
        "required_status_checks": status_check_policy(sight, branch),
        "enforce_admins": {"url": f"{url}/enforce_admins", "enabled": False},
        "required_signatures": {"url": f"{url}/required_signatures", "enabled": False},
    }


def required_rule(sight: Sight) -> Json:
    """The required checks once more, as the rule that everybody may read."""
    checks = [{"context": name} for name in sight.holdings.required]
    return {
        "type": "required_status_checks",
        "parameters": {"strict_required_status_checks_policy": False, "required_status_checks": checks},
        "ruleset_source_type": "Repository",
        "ruleset_source": sight.full_name,
        "ruleset_id": RULESET_ID,
    }


def ruleset(sight: Sight) -> Json:
    """The one set of rules there is, while checks are required."""
    then = instant(sight.holdings.created_at)
    return {
        "id": RULESET_ID,
        "name": "required checks",
        "target": "branch",
        "source_type": "Repository",
        "source": sight.full_name,
        "enforcement": "active",
        # Admins are let through, as branch protection without `enforce_admins` lets them.
        "bypass_actors": [{"actor_id": 5, "actor_type": "RepositoryRole", "bypass_mode": "always"}],
        "current_user_can_bypass": "always" if sight.viewer.permission == "admin" else "never",
        "conditions": {"ref_name": {"include": ["~DEFAULT_BRANCH"], "exclude": []}},
        "created_at": then,
        "updated_at": then,
    }
