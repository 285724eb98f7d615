"""Reading model files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plr.errors import DependencyError, ModelFileError, ParameterError
from plr.persistence.container import damaged, open_members
from plr.persistence.decoding import Decoder
from plr.persistence.foreign import UntrustedError
from plr.persistence.kinds import MalformedError, require
from plr.persistence.manifest import MODEL, read_parts
from plr.persistence.whole import make_regressor
from plr.regressor import PartialLabelRegressor

__all__ = ["load_model", "read_manifest"]


def load_model(path: str | os.PathLike[str], *, trusted: Sequence[str] = ()) -> PartialLabelRegressor:
    """Read a model that `save_model` has written.

    Nothing in the file is run, and nothing much larger than the file is allocated. A file that is damaged, of another
    program or of a newer plr is refused with `plr.errors.ModelFileError`.

    Parameters
    ----------
    path : path
    trusted : sequence of str
        Types that a regressor inside may be made of, besides those of scikit-learn, numpy and scipy, as in
        ``["mypackage.MyRegressor"]``. To load a type is to run its code: name only what you know.

    Returns
    -------
    PartialLabelRegressor
        It predicts, identifies new rows and scores as the one that was saved, and can be fitted anew. ``identify()`` of
        the training rows is there if it had been called before.
    """
    if isinstance(trusted, str) or not all(isinstance(name, str) for name in trusted):
        raise ParameterError(f"trusted must be a sequence of names of types, got {trusted!r}.")
    where = Path(path)
    with open_members(where) as members:
        manifest, model = read_parts(members)
        decoder = Decoder(members, manifest["members"], trusted)
        try:
            require(isinstance(model, dict) and model.keys() == {"parameters", "attributes"}, "it holds no model")
            parameters, attributes = (decoder.decode_named(model[part]) for part in ("parameters", "attributes"))
            require(decoder.used | {MODEL} == manifest["members"].keys(), "it has members that nothing uses")
            return make_regressor(parameters, attributes)
        except UntrustedError as error:
            raise ModelFileError(f"{where} {error}") from error
        except MalformedError as error:
            raise damaged(where, str(error)) from error
        except (DependencyError, ModelFileError):
            raise
        except Exception as error:
            # Whatever a check has overlooked is wrong with the file.
            raise damaged(where, "its parts do not go together") from error


def read_manifest(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what a model file says about itself: ``extra``, ``version``, ``plr``, ``packages`` and ``members``.

    Parameters
    ----------
    path : path
    """
    with open_members(Path(path)) as members:
        return read_parts(members)[0]
