"""Saving and loading: a fitted regressor as the content of a model file, and back."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from numbers import Integral
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

import plr
from plr._checks import check_seed
from plr._fields import BY_ROW, MATRIX
from plr.contracts import Fitted, Learner
from plr.diagnosis import Diagnosis
from plr.errors import DependencyError, ModelFileError, ParameterError, PlrWarning
from plr.identification import Identification
from plr.intervals import Calibration
from plr.learners import Boosting, Module, Refit
from plr.learners.transformed import FittedTransformed, TransformedTarget
from plr.learners.trees import join_params
from plr.losses import Loss
from plr.noise import NoiseModel
from plr.persistence.codec import Decoder, Encoder
from plr.persistence.file import MODEL, check_writable, damaged, differences, open_file, write_file
from plr.persistence.modules import StoredModule, bring_module
from plr.persistence.schema import REASONS, MalformedError, RefusedError, kind_of, refusal, require
from plr.preprocessing.features import Columns
from plr.priors import LearnedPrior
from plr.regressor import PartialLabelRegressor
from plr.weighting import Posterior, Weighting

__all__ = ["TRANSIENT", "FittedAttributes", "check_savable", "load_model", "read_manifest", "read_model", "save_model"]

Floats = NDArray[np.float64]

_FEW_ROWS = 20

TRANSIENT = ("_training", "_given", "_belief", "report_")
"""What no file holds: the training rows themselves, and what the model was fitted to in their place."""

# Where models of some kinds say how many columns they take.
_COLUMNS = {
    "boosting": "columns",
    "committee": "encoding.columns",
    "density": "mixture.encoding.columns",
    "gaussian process": "encoding.columns",
    "linear": "features.columns",
    "mlp": "features.columns",
}
_ONLY_IF_KNOWN = ("n_features_in_", "feature_names_in_", "columns_", "candidate_probabilities_")


@dataclass(frozen=True)
class FittedAttributes:
    """The attributes of a fitted regressor, besides its parameters."""

    learner_: Learner
    weighting_: Weighting
    loss_: Loss
    model_: StoredModule | Fitted
    n_iter_: int
    noise_: NoiseModel
    noise_scale_: float
    missing_share_: float
    n_features_in_: int | None
    feature_names_in_: Any
    columns_: Columns | None
    calibration_: Calibration | None
    diagnosis_: Diagnosis | None
    prior_: LearnedPrior | None
    start_weights_: Floats | None = field(metadata=BY_ROW)
    candidate_probabilities_: Floats | None = field(metadata=BY_ROW)
    _identified: Identification | None = field(metadata=BY_ROW)
    _out_of_fold: Floats | None = field(metadata=BY_ROW)
    _row_digests: NDArray[np.uint64] | None = field(metadata=MATRIX)

    def check(self) -> None:
        """Raise `MalformedError` where attributes do not go together."""
        names, columns, digests = self.feature_names_in_, self.n_features_in_, self._row_digests
        if names is not None:
            right = isinstance(names, np.ndarray) and names.dtype == object and all(isinstance(n, str) for n in names)
            require(right and len(names) == columns, "names and columns differ in number")
        require(self.columns_ is None or len(self.columns_.names) == columns, "its table has other columns")
        require(digests is None or (len(digests) == 2 and digests.size > 0), "there must be two digests for each row")
        if self.prior_ is not None and self.prior_.agreement is not None and columns is not None:
            right = self.prior_.agreement.features.encoding.columns == columns
            require(right, "its learned prior wants other columns than it is given")
        widths = None if self.calibration_ is None else self.calibration_.widths
        if widths is not None and widths.features is not None and columns is not None:
            right = widths.features.encoding.columns == columns
            require(right, "its intervals want other columns than it is given")
        transformed = isinstance(self.model_, FittedTransformed)
        learner, model = _inside(self.learner_), _inside(self.model_)
        kind = kind_of(model)
        right = transformed == isinstance(self.learner_, TransformedTarget)
        right = right and (kind == "module") == isinstance(learner, Module)
        right = right and (kind in ("module", "refit") or learner.takes != "rows")
        require(right, "its learner and its model do not belong together")
        if isinstance(model, StoredModule):
            scaling = model.reader.scaling
            right = scaling is None or columns is None or np.shape(scaling.centre) == (columns,)
            require(right, "the module's features are scaled by other columns")
        elif kind in _COLUMNS:
            right = columns == attrgetter(_COLUMNS[kind])(model)
            require(right, "its model wants other columns than it is given")


def save_model(
    model: PartialLabelRegressor,
    path: str | os.PathLike[str],
    *,
    extra: Mapping[str, Any] | None = None,
    training_rows: bool = True,
) -> None:
    """Write a fitted model to a file that can be read without running anything.

    Parameters
    ----------
    model : PartialLabelRegressor
        Fitted. Models with code of one's own in them cannot be written: functions as weighting, loss or density, and
        functions that collate. Of a torch module the numbers are kept, and `load_model` is given the module again.
        Regressors of scikit-learn's kind are kept with skops (``pip install 'plr[skops]'``).
    path : path
        Replaced if it exists; a crash leaves the old file whole.
    extra : mapping, optional
        Anything that JSON can hold, to be read again by `plr.persistence.read_manifest`.
    training_rows : bool, default=True
        Whether to keep what was found for each training row: first weights, probabilities of its candidates,
        predictions out of fold, and ``identify()`` where it has been called. They include the labels identified. The
        rows themselves are never kept.

    Notes
    -----
    Predictions of the loaded model are the same to the bit with the same versions of the packages on the same kind of
    processor. Elsewhere the numbers in the file are the same, and the last bits of predictions may differ as those of
    matrix products do.

    Examples
    --------
    >>> import tempfile, pathlib, plr
    >>> model = plr.PartialLabelRegressor("linear").fit([[0.0], [1.0], [2.0]], [[1.0, 9.0], [2.0], [3.0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "line.plr"
    ...     plr.save_model(model, path, extra={"unit": "mm"})
    ...     plr.load_model(path).predict([[3.0]]).round(3), plr.persistence.read_manifest(path)["extra"]
    (array([4.]), {'unit': 'mm'})
    """
    _check_class(model)
    _check_prior(model)
    if extra is not None and not isinstance(extra, Mapping):
        raise ParameterError(f"extra must be a dictionary, got {type(extra).__name__}.", parameter="extra", value=extra)
    model._check_fitted()
    encoder = Encoder(training_rows)
    parameters = model.get_params(deep=False)
    learner = _inside(model.learner_)
    if isinstance(learner, Module) and not isinstance(parameters["learner"], Module):
        # A bare torch module, which is code.
        parameters["learner"] = learner
    found: dict[str, Any] = {each.name: getattr(model, each.name, None) for each in fields(FittedAttributes)}
    content = {
        "parameters": encoder.named(parameters),
        "attributes": encoder.encode(FittedAttributes(**found), ""),
    }
    write_file(Path(path), encoder.arrays, content, dict(extra or {}), encoder.packages, encoder.kinds)


def check_savable(model: PartialLabelRegressor, path: str | os.PathLike[str] | None = None) -> None:
    """Raise the error that `save_model` would end with, as far as it can be known before the fit.

    It takes no longer than a fit to twenty rows: parameters are put into the form that files have, and a regressor of
    scikit-learn's kind is fitted to a few rows of noise, written and read. What only a fit can tell remains: that a
    torch dataset brings a function of its own, or what a regressor that cannot be fitted to such rows holds.

    Parameters
    ----------
    model : PartialLabelRegressor
        Fitted or not.
    path : path, optional
        Where it is to be written; a file is made there and removed.

    Raises
    ------
    ModelFileError

    Examples
    --------
    >>> import plr
    >>> plr.persistence.check_savable(plr.PartialLabelRegressor("linear"))
    >>> plr.persistence.check_savable(plr.PartialLabelRegressor("linear", weighting=lambda f, y, loss: -loss))
    Traceback (most recent call last):
    plr.errors.ModelFileError: The model cannot be written to a file because of its weighting: ...
    """
    _check_class(model)
    _check_prior(model)
    if path is not None:
        check_writable(Path(path))
    learner, weighting, loss = model._resolve()
    # Names stand for parts, and a bare regressor or torch module for the learner around it.
    given = {**model.get_params(deep=False), "learner": learner}
    encoder = Encoder(with_rows=False)
    for name, part in (*given.items(), ("weighting", weighting), ("loss", loss)):
        encoder.encode(part, name)
    if isinstance(weighting, Posterior) and hasattr(weighting.false_labels, "logpdf"):
        raise refusal("weighting.false_labels", REASONS["plr.weighting.false_labels:GivenDensity"])
    learner = _inside(learner)
    if isinstance(learner, Boosting) and join_params({}, learner.params).get("linear_tree"):
        raise refusal("learner.params", "trees with linear models in their leaves are not kept; leave out linear_tree")
    if isinstance(learner, Refit) and (fitted := _fitted_to_noise(learner.regressor)) is not None:
        encoder.encode(fitted, "learner.regressor")


def _inside(part: Any) -> Any:
    """Return the learner or model that sees transformed labels, where they are transformed; any other as it is."""
    if isinstance(part, TransformedTarget):
        return part.learner
    return part.model if isinstance(part, FittedTransformed) else part


def _fitted_to_noise(regressor: Any) -> Any:
    """Return a clone that has been fitted to a few rows; None where it takes no such rows."""
    random = np.random.default_rng(0)
    X, y = random.uniform(1, 2, size=(_FEW_ROWS, 3)), random.uniform(1, 2, size=_FEW_ROWS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return clone(regressor).fit(X, y)
    except Exception:
        # It may want texts, images or more rows; what is wrong with it the fit itself will tell.
        return None


def _check_class(model: Any) -> None:
    if not isinstance(model, PartialLabelRegressor):
        own = "; it is written by its own method: model.save(path)" if hasattr(model, "save") else ""
        raise ParameterError(f"model must be a fitted PartialLabelRegressor, got {type(model).__name__}{own}.")
    if type(model) is not PartialLabelRegressor:
        raise ModelFileError(
            f"{type(model).__name__} is a class of its own, and model files hold no code; save a PartialLabelRegressor."
        )


def _check_prior(model: PartialLabelRegressor) -> None:
    prior = model.prior
    if not isinstance(prior, str) and kind_of(prior) is None:
        raise refusal(
            "prior", f"{type(prior).__name__} is a class of your own, and a model file holds no code; pickle the model"
        )


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
        raise ParameterError(
            f"{{parameter}} must be a sequence of names of types, got {trusted!r}.", parameter="trusted", value=trusted
        )
    where = Path(path)
    with open_file(where) as file:
        manifest, decoder = file.manifest, Decoder(file, trusted)
        try:
            data = file.json(MODEL)
            require(isinstance(data, dict) and data.keys() == {"parameters", "attributes"}, "it holds no model")
            model = make_regressor(decoder.named(data["parameters"]), decoder.decode(data["attributes"]))
            require(not file.left, "it has arrays that nothing uses")
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
    if others := differences(manifest, decoder.packages - {"numpy", "scipy"}):
        warnings.warn(
            f"{where} was written with {_listed(others)}: the regressor in it may predict otherwise, or fail. Compare "
            f"some predictions, or fit it anew with the installed versions.",
            PlrWarning,
            stacklevel=3,
        )
    _bring_module(model, module, where)
    table = manifest["extra"].get("table")
    if not isinstance(table, dict) or "features" not in table:
        return model, manifest
    # By name, since it is of a layer above.
    return importlib.import_module("plr.tables").restore(model, manifest["extra"], where), manifest


def make_regressor(parameters: dict[str, Any], attributes: Any) -> PartialLabelRegressor:
    """Return a fitted regressor from its parameters and attributes."""
    known = parameters.keys() <= set(PartialLabelRegressor._get_param_names())
    require(known, "it has parameters that plr does not know")
    require(isinstance(attributes, FittedAttributes), "it holds no fitted model")
    attributes.check()
    found = PartialLabelRegressor(**parameters)
    for name in (*(each.name for each in fields(FittedAttributes)), *TRANSIENT):
        value = getattr(attributes, name, None)
        looked_at = name == "columns_" and attributes.learner_.takes == "table"
        if value is not None or looked_at or name not in _ONLY_IF_KNOWN:
            setattr(found, name, value)
    return found


def _refusal(path: Path, manifest: dict[str, Any], error: MalformedError) -> ModelFileError:
    """Make the error for a file that cannot be used: it needs something, other versions wrote it, or it is damaged."""
    if isinstance(error, RefusedError):
        return ModelFileError(f"{path} {error}.", parameter=error.parameter)
    if others := differences(manifest, error.packages):
        wanted = " ".join(f"'{package}=={written}'" for package, written, _ in others)
        return ModelFileError(
            f"{path} was written with {_listed(others)}: {error}. Load it with the versions it was written with "
            f"(pip install {wanted}), or fit the model anew with these."
        )
    if _writer(manifest) != plr.__version__:
        return ModelFileError(
            f"{path} was written by plr {_writer(manifest)}, and plr {plr.__version__} cannot read it: {error}. Load "
            f"it with the version that wrote it, or fit the model anew with this one."
        )
    return damaged(path, str(error))


def _writer(manifest: dict[str, Any]) -> str:
    return " ".join(str(manifest.get("plr")).split())[:20]


def _listed(others: Iterable[tuple[str, str, str]]) -> str:
    return "; with ".join(f"{name} {written}, and {installed} is installed" for name, written, installed in others)


def _bring_module(model: PartialLabelRegressor, module: Any, path: Path) -> None:
    """Give the model its torch module, if it is one; see that it is given exactly where it is needed."""
    stored: Any = _inside(model.model_)
    if not isinstance(stored, StoredModule):
        if module is not None:
            raise ParameterError(
                f"{path} holds a {type(model.learner_).__name__} and no torch module; leave out {{parameter}}.",
                parameter="module",
            )
        return
    if module is None:
        raise ModelFileError(
            f"{path} holds {stored.describe()}, and model files hold no code. Name the module, or the function that "
            f"made it, with {{parameter}}.",
            parameter="module",
        )
    state = model.random_state
    seed = int(check_seed(state).randint(2**31 - 1)) if isinstance(state, Integral) else 0
    made = bring_module(stored, module, getattr(model, "n_features_in_", None), seed, path)
    model.model_ = replace(model.model_, model=made) if isinstance(model.model_, FittedTransformed) else made
    for learner in (model.learner, _inside(model.learner_)):
        if isinstance(learner, Module):
            learner.module = module


def read_manifest(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what a model file says about itself: ``extra``, ``version``, ``plr``, ``packages`` and ``kinds``.

    Parameters
    ----------
    path : path
    """
    with open_file(Path(path)) as file:
        return file.manifest
