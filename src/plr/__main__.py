"""``python -m plr``: the command line, where the command itself is not on the path."""

from plr.cli import command

if __name__ == "__main__":
    command()
