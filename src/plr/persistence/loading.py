"""Reading model files."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

import plr
from plr._checks import check_seed
from plr.errors import DependencyError, ModelFileError, ParameterError, PlrWarning
from plr.learners import Module
from plr.persistence.codec import Decoder
from plr.persistence.file import MODEL, damaged, differences, open_file
from plr.persistence.foreign import ForeignError, UntrustedError
from plr.persistence.modules import StoredModule, bring_module
from plr.persistence.regressor_schema import FittedAttributes
from plr.persistence.schema import MalformedError, require
from plr.regressor import PartialLabelRegressor

__all__ = ["load_model", "read_manifest", "read_model"]


def load_model(path: str | os.PathLike[str], *, trusted: Sequence[str] = (), module: Any = None) -> Any:
    """Read a model that `save_model` has written.

    Nothing in the file is run, and nothing much larger than the file is allocated. A file that is damaged, of another
    program, of a newer plr, or of versions of other packages that do not go with the installed ones is refused with
    `plr.errors.ModelFileError`, which says which of them it is. Where regressors of scikit-learn's kind were written
    with another minor version of their package, and can be read, there is a warning.

    Parameters
    ----------
    path : path
    trusted : sequence of str
        Types that a regressor inside may be made of, as in ``["mypackage.MyRegressor"]``, besides those of scikit-learn
        whose numbers are checked: linear models, trees and forests, both kinds of boosting, support vectors,
        neighbours, networks, Gaussian processes, and pipelines of these. To load any other is to run its code, and to
        let compiled code follow what stands in the file: name only what you know, from files whose origin you know.
    module : torch.nn.Module or callable, optional
        The module that was trained, or the function that made it, as given to `plr.learners.Module`: a file holds the
        weights of a torch module and not its code. It is copied, and the copy gets the weights. Needed where the file
        holds a torch module, and refused where it does not.

    Returns
    -------
    PartialLabelRegressor or TableModel
        A `plr.TableModel` where the model was fitted to a table, as ``plr fit`` does. It predicts, identifies new rows
        and scores as the one that was saved, and can be fitted anew. ``identify()`` of the training rows is there if
        it had been called before. Of the parameters of a `plr.learners.Module`, those that were code, such as an
        optimiser's class, have to be set again before it is fitted anew.
    """
    return read_model(path, trusted=trusted, module=module)[0]


def read_model(
    path: str | os.PathLike[str], *, trusted: Sequence[str] = (), module: Any = None
) -> tuple[Any, dict[str, Any]]:
    """Read a model as `load_model` does, and with it what the file says about itself, as `read_manifest` does."""
    if isinstance(trusted, str) or not all(isinstance(name, str) for name in trusted):
        raise ParameterError(f"trusted must be a sequence of names of types, got {trusted!r}.")
    where = Path(path)
    with open_file(where) as file:
        manifest, decoder = file.manifest, Decoder(file, trusted)
        try:
            data = file.json(MODEL)
            require(isinstance(data, dict) and data.keys() == {"parameters", "attributes"}, "it holds no model")
            model = make_regressor(decoder.named(data["parameters"]), decoder.decode(data["attributes"]))
            require(not file.left, "it has arrays that nothing uses")
        except UntrustedError as error:
            raise ModelFileError(f"{where} {error}.") from error
        except MalformedError as error:
            raise _refusal(where, manifest, error) from error
        except (DependencyError, ModelFileError):
            raise
        except Exception as error:
            error.add_note(
                f"This happened while plr {plr.__version__} read {where}, written by plr {_writer(manifest)}. Its sums "
                f"are right, so it is not damaged: this is a mistake of plr's, or the file was made by other means."
            )
            raise
    _tell_versions(where, manifest, decoder.packages)
    return _of_table(_with_module(model, module, where), manifest, where), manifest


def _of_table(model: PartialLabelRegressor, manifest: dict[str, Any], path: Path) -> Any:
    """Return the `plr.TableModel` around a regressor that was fitted to a table, the regressor itself otherwise."""
    table = manifest["extra"].get("table")
    if not isinstance(table, dict) or "features" not in table:
        return model
    # By name, since it is of a layer above.
    return importlib.import_module("plr.tables").restore(model, table, path)


def make_regressor(parameters: dict[str, Any], attributes: Any) -> PartialLabelRegressor:
    """Return a fitted regressor from its parameters and attributes."""
    require(
        parameters.keys() <= set(PartialLabelRegressor._get_param_names()), "it has parameters that plr does not know"
    )
    require(isinstance(attributes, FittedAttributes), "it holds no fitted model")
    return attributes.regressor(parameters)


def _refusal(path: Path, manifest: dict[str, Any], error: MalformedError) -> ModelFileError:
    """Make the error for a file that cannot be used: written by other versions, or damaged."""
    others = differences(manifest, error.packages) if isinstance(error, ForeignError) else []
    if others:
        wanted = " ".join(f"'{other.package}=={other.written}'" for other in others)
        return ModelFileError(
            f"{path} was written with {'; with '.join(map(str, others))}: {error}. Load it with the versions it was "
            f"written with (pip install {wanted}), or fit the model anew with these."
        )
    if _writer(manifest) != plr.__version__:
        return ModelFileError(
            f"{path} was written by plr {_writer(manifest)}, and plr {plr.__version__} cannot read it: {error}. Load "
            f"it with the version that wrote it, or fit the model anew with this one."
        )
    return damaged(path, str(error))


def _writer(manifest: dict[str, Any]) -> str:
    return " ".join(str(manifest.get("plr")).split())[:20]


def _tell_versions(path: Path, manifest: dict[str, Any], packages: set[str]) -> None:
    """Warn where regressors of others were written by other versions of their packages."""
    others = differences(manifest, packages - {"numpy", "scipy"})
    if others:
        warnings.warn(
            f"{path} was written with {'; with '.join(map(str, others))}: the regressor in it may predict otherwise, "
            f"or fail. Compare some predictions, or fit it anew with the installed versions.",
            PlrWarning,
            stacklevel=3,
        )


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
    """Return what a model file says about itself: ``extra``, ``version``, ``plr``, ``packages`` and ``kinds``.

    Parameters
    ----------
    path : path
    """
    with open_file(Path(path)) as file:
        return dict(file.manifest)
