"""A module whose name begins with an underscore is imported inside its own package alone; ``plr._x`` is for all."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1] / "src"


def imported_modules(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            yield from (f"{node.module}.{name.name}" for name in node.names)
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)


def private_module(name):
    """Return the private module below a package of plr that a name stands for or lies in; None where there is none."""
    parts = name.split(".")
    for end in range(2, len(parts)):
        if parts[end].startswith("_") and ROOT.joinpath(*parts[:end], f"{parts[end]}.py").is_file():
            return ".".join(parts[: end + 1])
    return None


def test_private_modules_stay_in_their_packages():
    found = set()
    for path in ROOT.rglob("*.py"):
        package = ".".join(path.relative_to(ROOT).parent.parts)
        for name in imported_modules(path):
            private = private_module(name)
            if private is not None and not f"{package}.".startswith(private.rpartition(".")[0] + "."):
                found.add((package, private))
    assert not found
