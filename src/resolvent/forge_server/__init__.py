"""The rehearsal forge: what the local forge holds, behind the REST, GraphQL and git of GitHub."""
