"""Issues in, proven pull requests out."""

__version__ = "0.1.0"
