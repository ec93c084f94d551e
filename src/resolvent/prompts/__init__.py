"""One Markdown file per agent step."""
