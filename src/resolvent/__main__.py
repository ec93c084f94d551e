"""`python -m resolvent` is the command `resolvent`."""

from resolvent.cli.main import main

if __name__ == "__main__":
    main()
