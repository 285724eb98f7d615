"""Reading model files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

from plr._checks import check_seed
from plr.errors import DependencyError, ModelFileError, ParameterError
from plr.learners import Module
from plr.persistence.container import damaged, open_members
from plr.persistence.decoding import Decoder
from plr.persistence.foreign import UntrustedError
from plr.persistence.kinds import MalformedError, require
from plr.persistence.manifest import MODEL, read_parts
from plr.persistence.modules import StoredModule, bring_module
from plr.persistence.whole import make_regressor
from plr.regressor import PartialLabelRegressor

__all__ = ["load_model", "read_manifest"]


def load_model(
    path: str | os.PathLike[str], *, trusted: Sequence[str] = (), module: Any = None
) -> PartialLabelRegressor:
    """Read a model that `save_model` has written.

    Nothing in the file is run, and nothing much larger than the file is allocated. A file that is damaged, of another
    program or of a newer plr is refused with `plr.errors.ModelFileError`.

    Parameters
    ----------
    path : path
    trusted : sequence of str
        Types that a regressor inside may be made of, besides those of scikit-learn, numpy and scipy, as in
        ``["mypackage.MyRegressor"]``. To load a type is to run its code: name only what you know.
    module : torch.nn.Module or callable, optional
        The module that was trained, or the function that made it, as given to `plr.learners.Module`: a file holds the
        weights of a torch module and not its code. It is copied, and the copy gets the weights. Needed where the file
        holds a torch module, and refused where it does not.

    Returns
    -------
    PartialLabelRegressor
        It predicts, identifies new rows and scores as the one that was saved, and can be fitted anew. ``identify()`` of
        the training rows is there if it had been called before. Of the parameters of a `plr.learners.Module`, those
        that were code, such as an optimiser's class, have to be set again before it is fitted anew.
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
            model = make_regressor(parameters, attributes)
        except UntrustedError as error:
            raise ModelFileError(f"{where} {error}") from error
        except MalformedError as error:
            raise damaged(where, str(error)) from error
        except (DependencyError, ModelFileError):
            raise
        except Exception as error:
            # Whatever a check has overlooked is wrong with the file.
            raise damaged(where, "its parts do not go together") from error
    return _with_module(model, module, where)


def _with_module(model: PartialLabelRegressor, module: Any, path: Path) -> PartialLabelRegressor:
    """Return the model with its torch module, if it is one; see that it is given exactly where it is needed."""
    stored: Any = model.model_
    if not isinstance(stored, StoredModule):
        if module is not None:
            raise ParameterError(
                f"{path} holds a {type(model.learner_).__name__} and no torch module; leave out module (--module on "
                f"the command line)."
            )
        return model
    if module is None:
        raise ModelFileError(
            f"{path} holds {stored.describe()}, and model files hold no code. Load it with the module or the function "
            f"that made it: load_model(path, module=...), or --module FILE.py:NAME on the command line."
        )
    state = model.random_state
    seed = int(check_seed(state).randint(2**31 - 1)) if isinstance(state, Integral) else 0
    model.model_ = bring_module(stored, module, getattr(model, "n_features_in_", None), seed, path)
    for learner in (model.learner, model.learner_):
        if isinstance(learner, Module):
            learner.module = module
    return model


def read_manifest(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what a model file says about itself: ``extra``, ``version``, ``plr``, ``packages`` and ``members``.

    Parameters
    ----------
    path : path
    """
    with open_members(Path(path)) as members:
        return read_parts(members)[0]
