"""The module learner: any torch module, optimiser, scheduler and pointwise loss, trained on candidate sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plr.contracts import Learner, Task
from plr.errors import CandidateError, LengthError, ParameterError
from plr.folds import set_rows_aside, take_rows
from plr.learners.module.fitted import FittedModule
from plr.learners.module.settings import check_settings

if TYPE_CHECKING:
    from plr.losses import Loss
    from plr.weighting import Weighting

__all__ = ["Module"]

Floats = NDArray[np.float64]


class Module(Learner):
    """A model of PyTorch's.

    X may be an array or tensor of any number of dimensions (floats are handed on in the module's own type, whole
    numbers as int64), a sparse matrix, a frame or Arrow table of numbers, or a map-style dataset whose items are the
    features. A batch that is a mapping is given to the module by keywords, a sequence of tensors one by one. The
    module returns one number per row, of shape (n,) or (n, 1): the label, scaled by default.

    Parameters
    ----------
    module : torch.nn.Module or callable
        A module, which is copied and trained from the weights it has, or a function that makes one, called without
        arguments or with the number of features. What it draws at random depends on the fit's seed alone.
    optimizer : str, class or callable, default="adamw"
        ``adam``, ``adamw``, ``rmsprop``, ``sgd`` (with momentum 0.9), a class of ``torch.optim``, or a function of the
        parameters that makes an optimiser. It is given ``lr`` and ``weight_decay`` where it has parameters of these
        names, so that ``functools.partial(torch.optim.SGD, nesterov=True, momentum=0.8)`` does what it looks like.
    learning_rate : float, default=0.001
    weight_decay : float, optional
        None keeps the optimiser's own default.
    scheduler : "cosine" or callable, optional
        A function ``(optimizer, steps) -> scheduler`` where ``steps`` is the number of steps in all, None for a dataset
        that does not say how long it is. It is stepped after every batch; a ``ReduceLROnPlateau`` after every epoch,
        with the validation score, or the training loss where there are no validation rows.
    epochs : int, default=100
    batch_size : int, default=128
        A last batch of one row joins the one before, for the sake of batch normalisation; in an iterable dataset,
        whose end is not known before, it does not.
    clip : float, optional
        Largest norm of the gradient.
    loss : callable, optional
        A torch function ``loss(prediction, value)`` that returns one cost per entry, in place of the regressor's loss.
    score : callable, optional
        A torch function ``score(prediction, value, loss)``, in place of the regressor's weighting: the weights are
        prior · exp(score), normalised.
    device : str, default="auto"
        ``auto`` is CUDA where there is one, and else the processor.
    autocast : bool, default=False
        Whether to let torch compute in bfloat16 where that is safe. The loss is computed in full all the same.
    compile : bool or dict, default=False
        Whether to compile the module with ``torch.compile``, with these options.
    validation_fraction : float, optional
        Share of the rows set aside to choose the best epoch by. None keeps the last epoch, unless ``fit`` is given
        validation rows.
    monitor : {"loss", "evidence"}, default="loss"
        How epochs are scored on validation rows: the training loss on their candidates (with plain labels as
        validation target, on the labels), or the likelihood of their candidates under a noise model.
    patience : int, optional
        Stop after so many epochs without a better one.
    checkpoint : path, optional
        A file that is written after every epoch. A fit with the same settings, data and seed that finds it goes on from
        there, and on the processor ends where it would have ended without the break, to the bit. One that was written
        by another training is refused.
    scale_features : bool, default=False
        Whether to bring columns, or channels where there are more than two dimensions, to mean 0 and standard deviation
        1 inside.
    scale_target : bool, default=True
        The same for labels.
    threads : int or None, default=1
        Threads that train on the processor. One makes the result independent of how many there are, and is best for
        small modules; a large one on many cores wants more. None leaves it to torch.
    loader : dict, optional
        Options of torch's ``DataLoader``, such as ``num_workers``. ``collate_fn`` is a function that makes a batch of a
        list of features, the items of a dataset. ``drop_last`` leaves an incomplete last batch out of training, unless
        it is the only one of an array or a map-style dataset.

    Notes
    -----
    The same seed gives the same model on the processor, to the bit, whatever else has drawn random numbers; on CUDA as
    far as its kernels do. What a dataset or a ``collate_fn`` draws from torch, ``numpy.random`` and ``random`` is
    seeded as well, and their states are put back, also while a callback runs; generators of its own it has to seed
    itself. On rows that are an array, ``numpy.random`` and ``random`` are left alone. Fits of one process train one
    after the other, and other threads must not draw from torch's common generator meanwhile: all threads share it.

    The scale of the `Posterior` weighting is learned batch by batch.

    Examples
    --------
    >>> import torch
    >>> from plr import PartialLabelRegressor
    >>> from plr.learners import Module
    >>> X = torch.linspace(-1, 1, 64)[:, None]
    >>> S = [[float(3 * x), float(-3 * x)] for x in X[:48]] + [[float(3 * x)] for x in X[48:]]
    >>> learner = Module(lambda: torch.nn.Linear(1, 1), optimizer="adam", learning_rate=0.1, epochs=200, device="cpu")
    >>> PartialLabelRegressor(learner, random_state=0).fit(X, S).predict([[0.5]]).round(1)
    array([1.5])
    """

    takes = "rows"
    takes_datasets = True

    def __init__(
        self,
        module: Any,
        optimizer: Any = "adamw",
        learning_rate: float = 1e-3,
        weight_decay: float | None = None,
        scheduler: Any = None,
        epochs: int = 100,
        batch_size: int = 128,
        clip: float | None = None,
        loss: Any = None,
        score: Callable[..., Any] | None = None,
        device: Any = "auto",
        autocast: bool = False,
        compile: bool | Mapping[str, Any] = False,
        validation_fraction: float | None = None,
        monitor: str = "loss",
        patience: int | None = None,
        checkpoint: Any = None,
        scale_features: bool = False,
        scale_target: bool = True,
        threads: int | None = 1,
        loader: Mapping[str, Any] | None = None,
    ) -> None:
        self.module = module
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.scheduler = scheduler
        self.epochs = epochs
        self.batch_size = batch_size
        self.clip = clip
        self.loss = loss
        self.score = score
        self.device = device
        self.autocast = autocast
        self.compile = compile
        self.validation_fraction = validation_fraction
        self.monitor = monitor
        self.patience = patience
        self.checkpoint = checkpoint
        self.scale_features = scale_features
        self.scale_target = scale_target
        self.threads = threads
        self.loader = loader

    def for_folds(self, task: Task) -> Learner:
        """Return the learner without its checkpoint, which is of the training on all rows."""
        return super().for_folds(task).set_params(checkpoint=None)

    def fit(self, task: Task) -> FittedModule:
        """Fit the module to the task."""
        import plr.torch  # noqa: F401  says which extra to install where there is no PyTorch
        from plr.learners.module.fitting import fit_task

        settings = check_settings(self)
        self.check_weighting(task.rule.weighting)
        if len(task.S) == 0:
            raise CandidateError("There are no rows to fit; give at least one.")
        if hasattr(task.X, "shape") or hasattr(task.X, "__len__"):
            found = task.X.shape[0] if hasattr(task.X, "shape") else len(task.X)
            if found != len(task.S):
                raise LengthError(f"X has {found} rows and the target {len(task.S)}; they must agree.")
        task = set_rows_aside(task, self.validation_fraction)
        if task.sample_weight is not None and not task.sample_weight.all():
            # Rows that do not count must not reach batch normalisation either.
            task = take_rows(task, np.flatnonzero(task.sample_weight))
        self._check_patience(task.validation is not None)
        return fit_task(self, settings, task)

    def fit_dataset(
        self,
        dataset: Any,
        weighting: str | Weighting = "posterior",
        loss: str | Loss = "squared",
        seed: int = 0,
        validation: Any = None,
        callback: Callable[[int, int, float], object] | None = None,
    ) -> FittedModule:
        """Fit the module to a dataset that yields features together with their candidates.

        Parameters
        ----------
        dataset : torch dataset, map-style or iterable
            Items are ``(features, candidates)`` or ``(features, candidates, prior)``. An iterable dataset begins anew
            in each epoch and does its own shuffling. Labels are scaled by what 10,000 of its rows say: the first, or of
            a map-style dataset rows at equal distances.
        weighting, loss : str or instance
            As in `PartialLabelRegressor`; the learner's own ``score`` and ``loss`` come first. A density of false
            labels that is uniform or to be estimated is learned from the rows that labels are scaled by.
        seed : int, default=0
        validation : torch dataset, optional
            Rows of the same kind to choose the best epoch by.
        callback : callable, optional
            Called after every epoch with ``(epochs done, epochs at most, loss)``.

        Returns
        -------
        FittedModule
        """
        import plr.torch  # noqa: F401  as above
        from plr.learners.module.fitting import fit_pairs

        settings = check_settings(self)
        if self.scale_features:
            raise ParameterError("scale_features needs all rows at once; let the dataset scale its features.")
        if self.validation_fraction is not None:
            raise ParameterError("validation_fraction needs all rows at once; give a validation dataset instead.")
        self._check_patience(validation is not None)
        return fit_pairs(self, settings, dataset, weighting, loss, seed, validation, callback)

    def _check_patience(self, can_judge: bool) -> None:
        if self.patience is not None and not can_judge:
            raise ParameterError("patience needs validation rows: set validation_fraction, or give validation to fit.")
