"""Tables of files, for tests."""

from plr.sources.files import read_file


def read_table(path):
    return read_file(path).table
