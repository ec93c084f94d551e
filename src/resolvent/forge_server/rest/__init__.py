"""GitHub's REST on the hub: the routes, by subject. What they raise becomes GitHub's statuses at the door."""

from starlette.routing import BaseRoute


def routes() -> list[BaseRoute]:
    """Every route, the more exact ones first."""
    from resolvent.forge_server.rest import (
        actions,
        apps,
        checks,
        comments,
        commits,
        git,
        hooks,
        issues,
        labels,
        pulls,
        repository,
        reviews,
        root,
        search,
        transfers,
    )

    subjects = (
        root,
        apps,
        hooks,
        repository,
        issues,
        comments,
        labels,
        pulls,
        reviews,
        checks,
        actions,
        git,
        search,
        transfers,
        commits,
    )
    return [route for subject in subjects for route in subject.routes()]
