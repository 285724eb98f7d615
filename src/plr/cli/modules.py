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
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

from plr.columns.features import Features
from plr.errors import DataNotFoundError, FeatureError, ParameterError, PlrError, unknown_name
from plr.front_end import listed

__all__ = ["check_numbers", "read_module", "short_name", "try_module"]


def read_module(named: str) -> Any:
    """Import what ``--module`` names: a torch module, or a function or class that makes one."""
    import plr.torch  # noqa: F401  says which extra to install where there is no PyTorch

    where, _, name = named.rpartition(":")
    if not where or not name.isidentifier():
        raise ParameterError(
            f"--module {named}: write FILE.py:NAME or package.module:NAME, where NAME is a torch module, or a "
            f"function or class that makes one."
        )
    is_file = where.endswith(".py") or "/" in where or "\\" in where
    code = _import_code(where, Path(where).expanduser().resolve() if is_file else None, named)
    if not hasattr(code, name):
        made_there = [key for key, value in vars(code).items() if key[:1] != "_" and _is_offered(value, code)]
        raise ParameterError(f"--module {named}: {unknown_name(f'name in {Path(where).name}', name, made_there)}")
    found = getattr(code, name)
    _check_kind(found, named)
    return found


def _import_code(where: str, path: Path | None, named: str) -> ModuleType:
    """Import a file, or else a package, and say what is wrong where it cannot be."""
    if path is not None and not path.is_file():
        raise DataNotFoundError(f"--module {named}: there is no file {where}.")
    if path is not None and path.suffix != ".py":
        raise ParameterError(f"--module {named}: {path.name} is no Python file; its name must end in .py.")
    # Code may import its neighbours, now and later on; after all else, so that they hide no installed package.
    folder = str(Path.cwd() if path is None else path.parent)
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        # What code of others prints is no result.
        with contextlib.redirect_stdout(sys.stderr):
            return importlib.import_module(where) if path is None else _import_file(path)
    except PlrError:
        raise
    except (Exception, SystemExit) as error:
        missing = getattr(error, "name", None) if isinstance(error, ModuleNotFoundError) else None
        if path is None and missing is not None and f"{where}.".startswith(f"{missing}."):
            raise DataNotFoundError(
                f"--module {named}: there is no package or module {missing!r}, installed or in this folder; a file is "
                f"FILE.py:NAME."
            ) from error
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        if isinstance(error, SyntaxError) and error.filename == str(path):
            lines = [error.lineno]
        what = f"{where if path is None else path.name}{f', line {lines[-1]}' if lines else ''}"
        raise ParameterError(f"--module {named}: {what} cannot be imported: {_last_line(error)}") from error


def _import_file(path: Path) -> ModuleType:
    # Under a name of its own, so that it takes no other module's place.
    name = f"plr_module_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    code = importlib.util.module_from_spec(spec)
    sys.modules[name] = code
    spec.loader.exec_module(code)
    return code


def short_name(named: str) -> str:
    """Return what a model file remembers of ``--module``, for messages only: no folder.

    >>> short_name("models/net.py:make_net")
    'net.py:make_net'
    """
    where, _, name = named.rpartition(":")
    return f"{Path(where).name}:{name}"


def try_module(module: Any, named: str, features: int, device: str = "auto") -> None:
    """Make the module and give it two rows of zeros: errors in it are reported before anything is trained."""
    import torch

    from plr.learners.module.factories import check_trainable, exclusive, make_module
    from plr.learners.module.forward import call_module, find_device, float_type

    place = find_device(device)
    with exclusive(place, None), torch.no_grad(), contextlib.redirect_stdout(sys.stderr):
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


def check_numbers(source: object, features: Features, X: pa.Table | None) -> None:
    """Refuse training features that a torch module cannot take: categories, and columns with gaps."""
    categories = [column.name for column in features.used if column.kind == "category"]
    gaps = []
    if X is not None:
        others = [column for column in features.used if column.kind != "category"]
        gaps = [column.name for column in others if np.isnan([np.asarray(X[name]) for name in column.features]).any()]
    if not categories and not gaps:
        return
    unfit = [
        f"{listed(list(map(repr, names)))} {'have' if len(names) > 1 else 'has'} {what}"
        for names, what in ((categories, "categories"), (gaps, "gaps"))
        if names
    ]
    raise FeatureError(
        f"{source}: --learner module takes numbers alone, but {' and '.join(unfit)}; leave out what it cannot "
        f"take with --ignore {','.join([*categories, *gaps])}, or use --learner mlp."
    )


def _last_line(error: BaseException) -> str:
    lines = traceback.format_exception_only(type(error), error)
    # Notes follow the message.
    kept = [line for line in lines if line.strip() not in getattr(error, "__notes__", ())]
    return " ".join([kept[-1].strip().rstrip(".") + ".", *getattr(error, "__notes__", ())])


def _is_offered(value: Any, code: ModuleType) -> bool:
    """Whether a value in some code may have been meant: a torch module, or a function or class of its own for one."""
    from torch.nn import Module

    if isinstance(value, Module):
        return True
    if getattr(value, "__module__", None) != code.__name__:
        return False
    return issubclass(value, Module) if isinstance(value, type) else callable(value)


def _check_kind(found: Any, named: str) -> None:
    from torch.nn import Module

    from plr.learners.module.factories import required_arguments

    if isinstance(found, Module):
        return
    if not callable(found) or inspect.ismodule(found):
        kind = type(found).__name__
        problem = f"is {'an' if kind[0].lower() in 'aeiou' else 'a'} {kind}"
    elif required_arguments(found) > 1:
        problem = f"needs {required_arguments(found)} arguments"
    else:
        return
    raise ParameterError(
        f"--module {named} {problem}; name a torch module, or a function or class that makes one, called without "
        "arguments or with the number of features."
    )
