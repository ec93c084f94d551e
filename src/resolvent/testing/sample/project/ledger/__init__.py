"""Amounts in cents."""
