"""The network learner: a multi-layer perceptron trained by plr's own compiled kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from plr._fields import require
from plr._parameters import check_choice, check_integer, check_number
from plr.contracts import START_SHARE, Fitted, Learner, Report, Task
from plr.errors import ParameterError
from plr.folds import merge_equal_rows, set_rows_aside
from plr.preprocessing.features import Encoding, by_blocks
from plr.preprocessing.scaling import Affine, check_single_precision, label_scale, rescaled

if TYPE_CHECKING:
    from plr.network.network import Network, NetworkSettings

__all__ = ["MLP", "FittedNetwork"]

Floats = NDArray[np.float64]

_MONITORS = ("loss", "evidence")
# "auto" trains for about this many steps, within these numbers of epochs.
_AUTO_STEPS, _AUTO_FEWEST, _AUTO_MOST = 4_000, 20, 1000


@dataclass(frozen=True)
class FittedNetwork(Fitted):
    """A trained network with the encoding and scaling around it."""

    network: Network
    features: Encoding
    target: Affine
    report: Report

    def __post_init__(self) -> None:
        sizes = self.network.layout.sizes
        require(sizes[0] == self.features.width and sizes[-1] == 1, "the network has other columns than the encoding")

    def predict(self, X: Floats) -> Floats:
        """Return one prediction per row, in the units of the labels."""
        return by_blocks(X, lambda rows: self.target.undo(self.network.predict(self.features.apply(rows))))


class MLP(Learner):
    """A multi-layer perceptron.

    Columns of categories become one column for each of their hundred most frequent categories. A missing number is
    replaced by the column's mean, and a further column says where.

    Parameters
    ----------
    hidden : sequence of int, default=(64, 64)
        Units of each hidden layer. ``()`` is a linear model trained by gradient steps.
    activation : str or sequence of str, default="relu"
        ``relu``, ``silu``, ``tanh`` or ``identity``; one for all hidden layers, or one for each.
    epochs : int or "auto", default="auto"
        Passes over the data. ``"auto"``: as many as make about 4,000 steps, between 20 and 1,000.
    batch_size : int, default=256
    optimizer : {"adamw", "adam", "sgd"}, default="adamw"
    learning_rate : float, default=0.005
    schedule : {"cosine", "constant"}, default="cosine"
        Whether the learning rate falls to zero over the epochs, along half a cosine, or stays.
    weight_decay : float, default=1.0
        How strongly weights are pulled to zero. In ``adamw`` it acts directly, times the learning rate; in the others
        it adds to the gradient, where 1.0 would be far too much.
    momentum : float, default=0.9
        Of ``sgd``; Adam's first decay rate.
    validation_fraction : float, optional
        Share of the rows set aside to choose the best epoch by. None keeps the last epoch, unless ``fit`` is given
        validation rows.
    monitor : {"loss", "evidence"}, default="loss"
        How epochs are scored on validation rows: the rule's own loss on their candidates (with plain labels
        as validation target, on the labels), or the likelihood of their candidates under a noise model.
    patience : int, optional
        Stop after so many epochs without a better one.
    scale_features, scale_target : bool, default=True
        Whether to bring features and labels to mean 0 and standard deviation 1 inside. Columns of zeros and ones that
        stand for categories and gaps are centred and doubled, so that rare ones stay small.
    ranks : bool, default=False
        Whether each column is also given by its ranks, which spread out what is crowded. Not for folders of tables.
    dtype : {"auto", "float32", "float64"}, default="auto"
        What to compute in. ``"auto"`` is float32, but float64 for data of at most one batch, where it costs nothing.

    Examples
    --------
    >>> from plr.learners import MLP
    >>> MLP(hidden=(20, 30, 10), activation="silu", epochs=200)
    MLP(activation='silu', epochs=200, hidden=(20, 30, 10))
    """

    takes = "table"
    takes_missing = True

    def __init__(
        self,
        hidden: Sequence[int] = (64, 64),
        activation: str | Sequence[str] = "relu",
        epochs: int | str = "auto",
        batch_size: int = 256,
        optimizer: str = "adamw",
        learning_rate: float = 0.005,
        schedule: str = "cosine",
        weight_decay: float = 1.0,
        momentum: float = 0.9,
        validation_fraction: float | None = None,
        monitor: str = "loss",
        patience: int | None = None,
        scale_features: bool = True,
        scale_target: bool = True,
        dtype: str = "auto",
        ranks: bool = False,
    ) -> None:
        self.hidden = hidden
        self.activation = activation
        self.epochs = epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.schedule = schedule
        self.weight_decay = weight_decay
        self.momentum = momentum
        self.validation_fraction = validation_fraction
        self.monitor = monitor
        self.patience = patience
        self.scale_features = scale_features
        self.scale_target = scale_target
        self.dtype = dtype
        self.ranks = ranks

    def fit(self, task: Task) -> FittedNetwork:
        """Fit a network to the task."""
        from plr.network.network import Validation, kernel_sets, train_network

        self.check_weighting(task.rule.weighting)
        task = set_rows_aside(task, self.validation_fraction)
        settings = self.settings(len(task.S))
        if len(task.S) <= settings.batch_size:
            task = merge_equal_rows(task)
        prepared = task.preprocess(self.scale_features, self.scale_target)
        if not self.scale_target and settings.dtype == "float32":
            check_single_precision(task.S)
        features, rows = prepared.ranked if self.ranks else (prepared.encoding, prepared.features)
        target, scaled = prepared.target, prepared.sets
        settings = replace(
            settings,
            initial_scale=label_scale(scaled, task.sample_weight),
            fixed_epochs=settings.epochs // START_SHARE if task.start is not None else 0,
        )
        validation = None
        if task.validation is None and self.patience is not None:
            raise ParameterError("patience needs validation rows: set validation_fraction, or give validation to fit.")
        if task.validation is not None:
            others, sets = task.validation
            validation = Validation(
                features.apply(others),
                rescaled(sets, target),
                rules=(settings.stop_rule,),
                log_q=task.validation_log_q(target),
            )

        training = train_network(
            rows,
            kernel_sets(scaled, log_q=task.scaled_log_q(target), fixed=task.start),
            task.rule,
            settings,
            seed=task.seed,
            sample_weight=task.sample_weight,
            validation=validation,
            callback=task.tell,
        )
        chosen = None if validation is None else training.best[settings.stop_rule]
        report = Report(
            rounds=len(training.loss),
            loss=training.loss,
            noise_scale=training.scales * float(target.scale) if task.rule.learns_scale else np.empty(0),
            validation=training.validation[:, settings.stop_rule] if validation is not None else np.empty(0),
            best_round=None if chosen is None else chosen.epoch,
        )
        return FittedNetwork(training.last if chosen is None else chosen.network, features, target, report)

    def settings(self, rows: int) -> NetworkSettings:
        """Check the parameters and return them as the training loop takes them."""
        from plr.network.network import ACTIVATIONS, BY_EVIDENCE, BY_LOSS, OPTIMIZERS, NetworkSettings

        if isinstance(self.hidden, str | int) or not isinstance(self.hidden, Sequence | np.ndarray):
            raise ParameterError(f"hidden must be a sequence of layer sizes such as (20, 30, 10), got {self.hidden!r}.")
        hidden = tuple(check_integer("hidden", size, low=1, what="A size in {parameter}") for size in self.hidden)
        if not isinstance(self.activation, Sequence):
            raise ParameterError(f"activation must be a name or a sequence of names, got {self.activation!r}.")
        names = [self.activation] * len(hidden) if isinstance(self.activation, str) else list(self.activation)
        if len(names) != len(hidden):
            raise ParameterError(
                f"activation names {len(names)} functions for {len(hidden)} hidden layers; give one name, or one each."
            )
        activations = tuple(check_choice("activation", name, ACTIVATIONS) for name in names)
        batch_size = check_integer("batch_size", self.batch_size, low=1)
        dtype = check_choice("dtype", self.dtype, ("auto", "float32", "float64"))
        if dtype == "auto":
            dtype = "float64" if rows <= batch_size else "float32"
        epochs = self.epochs
        if epochs == "auto":
            epochs = int(np.clip(_AUTO_STEPS // -(-rows // batch_size), _AUTO_FEWEST, _AUTO_MOST))
        monitor = check_choice("monitor", self.monitor, _MONITORS)
        return NetworkSettings(
            hidden=hidden,
            activations=activations,
            epochs=check_integer("epochs", epochs, low=1),
            batch_size=batch_size,
            optimizer=check_choice("optimizer", self.optimizer, OPTIMIZERS),
            learning_rate=check_number("learning_rate", self.learning_rate, low=0.0, open_low=True),
            schedule=check_choice("schedule", self.schedule, ("constant", "cosine")),
            weight_decay=check_number("weight_decay", self.weight_decay, low=0.0),
            momentum=check_number("momentum", self.momentum, low=0.0, below=1.0),
            dtype="float32" if dtype == "float32" else "float64",
            patience=0 if self.patience is None else check_integer("patience", self.patience, low=1),
            stop_rule=BY_LOSS if monitor == "loss" else BY_EVIDENCE,
        )
