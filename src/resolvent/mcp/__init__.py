"""The branch server: explorations as tools of the Model Context Protocol, over stdio and HTTP."""
