"""What doctor says of the default branch on GitHub: what it requires of a change, and how it can be merged."""

from collections.abc import Iterator, Mapping

from resolvent.cli.diagnosis import Probe, found
from resolvent.cli.github_standing import Gh, Standing, inner, listed, number, objects, said, text, texts
from resolvent.settings import Settings

BRANCH, MERGE = "forge branch", "forge merge"
SWITCHES = {"merge": "allow_merge_commit", "squash": "allow_squash_merge", "rebase": "allow_rebase_merge"}
FLAGS = {"merge": "--enable-merge-commit", "squash": "--enable-squash-merge", "rebase": "--enable-rebase-merge"}


def branch(seen: Standing, settings: Settings, gh: Gh) -> Iterator[Probe]:
    """The default branch: what is required of a change before it may be merged there."""
    main = text(said(seen.repo), "default_branch")
    required, rules = required_checks(seen), _rules(seen)
    told = [f"{main}: {'required checks: ' + ', '.join(required) if required else 'no required checks'}"]
    approvals = _approvals(seen, rules)
    told += [f"{approvals} approving review{'s' if approvals > 1 else ''}"] if approvals else []
    told += ["linear history"] if _linear(seen, rules) else []
    if not required and settings.policy.ci_required:
        what = f"{main}: no required checks, so nothing of CI is waited for"
        yield found(BRANCH, what, state="note", fix=_protect_line(gh))
    else:
        yield found(BRANCH, "; ".join(told))
    if approvals and settings.policy.merge == "auto":
        what = f"{main} takes nothing without {approvals} approving reviews, so what is merged waits for people"
        fix = 'name them in policy.reviewers, or set policy.merge = "never"'
        yield found(BRANCH, what, state="note", fix=fix)
    if seen.protection and seen.protection.status == 403 and not rules:
        what = f"{main}: whether it is protected cannot be seen with this token"
        yield found(BRANCH, what, state="note", fix="give the token the permission Administration: read")


def _protect_line(gh: Gh) -> str:
    return f"{gh.where.page}/settings/rules/new?target=branch, or set checks.ci_required = false"


def required_checks(seen: Standing) -> list[str]:
    """The names that protection and rules of the default branch require."""
    policy = inner(said(seen.protection), "required_status_checks")
    named = [text(one, "context") for one in objects(policy, "checks")] or texts(policy, "contexts")
    for rule in _rules(seen).get("required_status_checks", []):
        named += [text(one, "context") for one in objects(rule, "required_status_checks")]
    return list(dict.fromkeys(filter(None, named)))


def _rules(seen: Standing) -> Mapping[str, list[Mapping[str, object]]]:
    """What rulesets say of the default branch: the parameters of each rule by its type."""
    kinds: dict[str, list[Mapping[str, object]]] = {}
    for rule in listed(seen.rules):
        kinds.setdefault(text(rule, "type"), []).append(inner(rule, "parameters"))
    return kinds


def _approvals(seen: Standing, rules: Mapping[str, list[Mapping[str, object]]]) -> int:
    reviews = inner(said(seen.protection), "required_pull_request_reviews")
    asked = [*rules.get("pull_request", []), reviews]
    return max(number(one, "required_approving_review_count") for one in asked)


def _linear(seen: Standing, rules: Mapping[str, list[Mapping[str, object]]]) -> bool:
    return "required_linear_history" in rules or (
        inner(said(seen.protection), "required_linear_history").get("enabled") is True
    )


def merging(seen: Standing, settings: Settings, gh: Gh) -> Iterator[Probe]:
    """Whether what is proven can be merged as the policy says."""
    policy, repo = settings.policy, said(seen.repo)
    if policy.merge == "never":
        yield found(MERGE, "never: people merge what is proven")
        return
    linear = _linear(seen, _rules(seen))
    may = [method for method, switch in SWITCHES.items() if repo.get(switch) is not False]
    may = [method for method in may if method != "merge" or not linear]
    instead = f'set policy.merge_method = "{may[0]}"' if may else "allow squash or rebase merges"
    if policy.merge_method in may:
        yield found(MERGE, f"{policy.merge}, by {policy.merge_method}")
    elif linear and policy.merge_method == "merge":
        what = f"{text(repo, 'default_branch')} keeps a linear history: it takes no merge commit"
        yield found(MERGE, what, state="fault", fix=instead)
    else:
        fix = f"{instead}, or: gh repo edit {gh.repo} {FLAGS[policy.merge_method]}"
        yield found(MERGE, f"{gh.where.repo} does not merge by {policy.merge_method}", state="fault", fix=fix)
