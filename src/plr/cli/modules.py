"""A torch module in the user's own code, named on the command line as FILE.py:NAME or package.module:NAME.

Its code is run because the user named it, never because a model file did.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from plr.tables.fitting import Prepared

__all__ = ["check_numbers", "read_module", "short_name", "try_module", "where_code_is"]

_NAMED, _LONGEST_NAME = 8, 200


def read_module(named: str) -> Any:
    """Import what ``--module`` names: a torch module, or a function or class that makes one."""
    import plr.torch  # noqa: F401  says which extra to install where there is no PyTorch
    from plr.errors import ParameterError, unknown_name

    where, _, name = named.rpartition(":")
    if not where or not name.isidentifier():
        raise ParameterError(
            f"--module {named}: write FILE.py:NAME or package.module:NAME, where NAME is a torch module, or a "
            f"function or class that makes one."
        )
    is_file = where.endswith(".py") or "/" in where or "\\" in where
    code = _import_file(Path(where).expanduser(), named) if is_file else _import_package(where, named)
    if not hasattr(code, name):
        made_there = [key for key, value in vars(code).items() if key[:1] != "_" and _is_offered(value, code)]
        raise ParameterError(f"--module {named}: {unknown_name(f'name in {Path(where).name}', name, made_there)}")
    found = getattr(code, name)
    _check_kind(found, named)
    return found


def where_code_is(path: Path) -> str | None:
    """Return where a model file says the code of its torch module is, for a message alone; None where it does not."""
    from plr.persistence import read_manifest

    written = (read_manifest(path).get("extra") or {}).get("table")
    options = written.get("options") if isinstance(written, dict) else None
    told = options.get("module") if isinstance(options, dict) else None
    return told if isinstance(told, str) and told.isprintable() and len(told) <= _LONGEST_NAME else None


def short_name(named: str) -> str:
    """Return what a model file remembers of ``--module``, for messages only: no folder.

    >>> short_name("models/net.py:make_net")
    'net.py:make_net'
    """
    where, _, name = named.rpartition(":")
    return f"{Path(where).name}:{name}"


def try_module(module: Any, named: str, features: int, device: str = "auto") -> None:
    """Make the module and give it two rows of zeros: what is wrong with it is told before anything is trained."""
    import torch

    from plr.errors import ParameterError, PlrError
    from plr.learners.module.factories import check_trainable, exclusive, make_module
    from plr.learners.module.forward import call_module, find_device, float_type

    place = find_device(device)
    with exclusive(place, None), torch.no_grad(), _prints_on_stderr():
        try:
            net = make_module(module, features).to(place).eval()
            rows = torch.zeros(2, features, dtype=float_type(net), device=place)
            call_module(net, rows, 2, place, autocast=False)
            check_trainable(net)
        except PlrError as error:
            raise ParameterError(f"--module {named}: {error}") from error
        except Exception as error:
            raise ParameterError(
                f"--module {named} cannot be used on rows of {features} features: {_last_line(error)}"
            ) from error


def check_numbers(ready: Prepared) -> None:
    """Refuse training features that a torch module cannot take: categories, and columns with gaps."""
    from plr.errors import FeatureError

    used, X = ready.features.used, ready.X
    categories = [column.name for column in used if column.kind == "category"]
    gaps = []
    if X is not None:
        gaps = [column.name for column in used if column.kind != "category" and _has_gaps(X, column.features)]
    if not categories and not gaps:
        return
    told = [f"{_listed(names)} {what}" for names, what in ((categories, "categories"), (gaps, "gaps")) if names]
    raise FeatureError(
        f"{ready.source}: --learner module takes numbers alone, but {' and '.join(told)}; leave out what it cannot "
        f"take with --ignore {','.join([*categories, *gaps])}, or use --learner mlp."
    )


def _listed(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:_NAMED])) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    return f"{shown} {'have' if len(names) > 1 else 'has'}"


def _has_gaps(X: pa.Table, names: tuple[str, ...]) -> bool:
    import numpy as np

    return any(bool(np.isnan(np.asarray(X[name], dtype=np.float64)).any()) for name in names)


def _import_file(path: Path, named: str) -> ModuleType:
    from plr.errors import DataNotFoundError, ParameterError

    if not path.is_file():
        raise DataNotFoundError(f"--module {named}: there is no file {path}.")
    path = path.resolve()
    # Under a name of its own, so that it takes no other module's place.
    name = f"plr_module_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ParameterError(f"--module {named}: {path.name} is no Python file; its name must end in .py.")
    code = importlib.util.module_from_spec(spec)
    sys.modules[name] = code
    _make_findable(path.parent)
    with _import_errors(named, path.name, str(path)):
        spec.loader.exec_module(code)
    return code


def _import_package(name: str, named: str) -> ModuleType:
    from plr.errors import DataNotFoundError

    _make_findable(Path.cwd())
    with _import_errors(named, name, ""):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise
            raise DataNotFoundError(
                f"--module {named}: there is no package or module {error.name!r}, installed or in this folder; a file "
                f"is FILE.py:NAME."
            ) from error


def _make_findable(folder: Path) -> None:
    """Let code import its neighbours, now and later on; after all else, so that they hide no installed package."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


@contextlib.contextmanager
def _prints_on_stderr() -> Iterator[None]:
    """Keep what code of others prints out of the results."""
    with contextlib.redirect_stdout(sys.stderr):
        yield


@contextlib.contextmanager
def _import_errors(named: str, what: str, file: str) -> Iterator[None]:
    from plr.errors import ParameterError, PlrError

    try:
        with _prints_on_stderr():
            yield
    except PlrError:
        raise
    except (Exception, SystemExit) as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
        if isinstance(error, SyntaxError) and error.filename == file:
            lines = [error.lineno]
        place = f", line {lines[-1]}" if lines else ""
        raise ParameterError(f"--module {named}: {what}{place} cannot be imported: {_last_line(error)}") from error


def _last_line(error: BaseException) -> str:
    told = traceback.format_exception_only(type(error), error)
    # Notes follow the message.
    kept = [line for line in told if line.strip() not in getattr(error, "__notes__", ())]
    return " ".join([kept[-1].strip().rstrip(".") + ".", *getattr(error, "__notes__", ())])


def _is_offered(value: Any, code: ModuleType) -> bool:
    import torch

    made_there = getattr(value, "__module__", None) == code.__name__ and not isinstance(value, type | torch.nn.Module)
    is_class = isinstance(value, type) and issubclass(value, torch.nn.Module) and value.__module__ == code.__name__
    return isinstance(value, torch.nn.Module) or is_class or (made_there and callable(value))


def _check_kind(found: Any, named: str) -> None:
    import torch

    from plr.errors import ParameterError
    from plr.learners.module.factories import required_arguments

    expected = (
        "name a torch module, or a function or class that makes one, called without arguments or with the number of"
    )
    if isinstance(found, torch.nn.Module):
        return
    if not callable(found) or inspect.ismodule(found):
        raise ParameterError(f"--module {named} is {_article(type(found).__name__)}; {expected} features.")
    needed = required_arguments(found)
    if needed > 1:
        raise ParameterError(f"--module {named} needs {needed} arguments; {expected} features.")


def _article(word: str) -> str:
    return f"{'an' if word[0].lower() in 'aeiou' else 'a'} {word}"
