"""What `gh` asks for and this forge has not got: it is taken out of its queries, and nothing else is."""

from tests.forge_server.gh_stage import Gh

# Milestones, projects, teams, and what a repository says of itself to people who look at its page.
ASKED_BY_ALL = {
    "$input: DeleteIssueInput",
    "$input: PinIssueInput",
    "$states: MilestoneState",
    "Issue.milestone",
    "Issue.projectCards",
    "PullRequest.milestone",
    "PullRequest.projectCards",
    "PullRequest.projectItems",
    "Repository.codeOfConduct",
    "Repository.contactLinks",
    "Repository.diskUsage",
    "Repository.fundingLinks",
    "Repository.isSecurityPolicyEnabled",
    "Repository.isUserConfigurationRepository",
    "Repository.issueTemplates",
    "Repository.languages",
    "Repository.latestRelease",
    "Repository.licenseInfo",
    "Repository.milestones",
    "Repository.mirrorUrl",
    "Repository.openGraphImageUrl",
    "Repository.primaryLanguage",
    "Repository.projects",
    "Repository.pullRequestTemplates",
    "Repository.repositoryTopics",
    "Repository.securityPolicyUrl",
    "Repository.templateRepository",
    "Repository.usesCustomOpenGraphImage",
    "Repository.viewerDefaultCommitEmail",
    "Repository.viewerHasStarred",
    "Repository.viewerPossibleCommitEmails",
    "Repository.viewerSubscription",
    "Repository.watchers",
    "… on Team",
}
ASKED_BY_OLD = {"Organization.teams"}
# Issues of issues, and their types.
ASKED_BY_NEW = {
    "Issue.blockedBy",
    "Issue.blocking",
    "Issue.issueType",
    "Issue.parent",
    "Issue.projectItems",
    "Issue.subIssues",
    "Issue.subIssuesSummary",
    "Repository.archivedAt",
    "Repository.projectsV2",
}


def known_here(gh: Gh) -> set[str]:
    """What this version asks for in vain."""
    return ASKED_BY_ALL | (ASKED_BY_NEW if gh.new else ASKED_BY_OLD)
