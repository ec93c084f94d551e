"""Forges: where issues, pull requests, checks and merges live."""
