"""GitHub's GraphQL on the hub: a schema of our own, executed over what the hub holds."""

from resolvent.forge_server.graphql.executing import Asked, answer, pruned

__all__ = ["Asked", "answer", "pruned"]
