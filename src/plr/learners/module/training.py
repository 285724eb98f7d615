"""The training loop: epochs, steps, validation, the best epoch, checkpoints, and a way back from a bad step.

Each epoch is seeded by the seed and its number alone. So where training stands is in its weights and in a few numbers,
and one that is taken up from a checkpoint ends where it would have ended without a break.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

from plr._codes import MISSING, SCALE
from plr.candidates import CandidateSets
from plr.errors import CandidateError, DivergenceError
from plr.learners.module.checkpoint import read_checkpoint, write_checkpoint
from plr.learners.module.data import BatchSource, TrainingBatch
from plr.learners.module.factories import Numbers
from plr.learners.module.forward import call_module, on_device
from plr.learners.module.settings import ModuleSettings
from plr.losses import Squared
from plr.torch import CandidateLoss, PosteriorLoss
from plr.weighting import Posterior, Rule
from plr.weighting.rule import NOTHING

__all__ = ["ModuleGroup", "ModuleProgress", "ModuleTraining", "TrainingData"]

Floats = NDArray[np.float64]


class ModuleGroup(Protocol):
    """Processes that train the same module, each on some rows of every batch; this is the one of this ``number``."""

    number: int
    processes: int

    def add(self, tensor: Tensor) -> None:
        """Replace a tensor by the sum of all processes' tensors."""
        ...


@dataclass(frozen=True)
class TrainingData:
    """What there is to learn from.

    Attributes
    ----------
    source : BatchSource
        Of training batches.
    validation : BatchSource or None
        Of rows to choose the best epoch by.
    scale : float
        Standard deviation of the labels as the module sees them; noise begins this wide.
    seed : int
    numbers : Numbers
        What the training draws from.
    fixed_epochs : int
        For so many epochs the weights are those of a start.
    callback : callable or None
    together : ModuleGroup or None
        The processes that train together; None where there is one.
    """

    source: BatchSource
    validation: BatchSource | None
    scale: float
    seed: int
    numbers: Numbers
    fixed_epochs: int = 0
    callback: Callable[[int, int, float], object] | None = None
    together: ModuleGroup | None = None


@dataclass
class ModuleProgress:
    """How far a training has come, apart from the weights.

    ``noise`` and ``missing`` are the noise scale of the validation rows and the share of them whose truth is missing,
    which follow the predictions from epoch to epoch.
    """

    epoch: int = 0
    losses: list[float] = field(default_factory=list)
    scales: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)
    best_epoch: int | None = None
    best: dict[str, Tensor] | None = None
    noise: float = 1.0
    missing: float = 0.0
    stopped: bool = False


class ModuleTraining:
    """A module on its way, and all that moves it.

    Parameters
    ----------
    net : torch.nn.Module
        On the device. It is changed; after `run` it has the weights to keep.
    criterion : CandidateLoss
        With ``reduction="none"``.
    optimizer, scheduler : from torch
    settings : ModuleSettings
    device : torch.device
    data : TrainingData
    noise : Posterior
        What the evidence is computed with.
    identity : dict
        What tells this training apart from others, for its checkpoint.
    """

    def __init__(
        self,
        net: nn.Module,
        criterion: CandidateLoss,
        optimizer: torch.optim.Optimizer,
        scheduler: Any,
        settings: ModuleSettings,
        device: torch.device,
        data: TrainingData,
        noise: Posterior,
        identity: dict[str, str],
    ) -> None:
        self.net, self.criterion = net, criterion.to(device)
        self._optimizer, self._scheduler = optimizer, scheduler
        self._settings, self._device, self._data = settings, device, data
        self._noise, self._identity = noise, identity
        self._call = net if settings.compile is None else torch.compile(net, **settings.compile)
        self._trained = [parameter for parameter in net.parameters() if parameter.requires_grad]
        self._good: list[Tensor] = []
        missing = float(Rule(noise, Squared()).initial_state()[MISSING])
        self.progress = ModuleProgress(noise=data.scale, missing=missing)
        if data.together is not None and isinstance(self.criterion, PosteriorLoss):
            self.criterion.add_up = data.together.add

    def run(self) -> ModuleProgress:
        """Train to the end, from the checkpoint on where there is one."""
        settings, progress, together = self._settings, self.progress, self._data.together
        if self._data.validation is not None:
            _check_validation_rows(self._data.validation.steps)
        path = settings.checkpoint
        state = None if path is None else read_checkpoint(path, self._identity)
        if state is not None:
            self.net.load_state_dict(state["module"])
            self.criterion.load_state_dict(state["criterion"])
            self._optimizer.load_state_dict(state["optimizer"])
            if self._scheduler is not None:
                self._scheduler.load_state_dict(state["scheduler"])
            vars(progress).update(state["progress"])
        self._good = [tensor.detach().clone() for tensor in self._changing()]
        while progress.epoch < settings.epochs and not progress.stopped:
            loss = self._train_epoch(progress.epoch)
            progress.losses.append(loss)
            if isinstance(self.criterion, PosteriorLoss):
                progress.scales.append(float(self.criterion.scale))
            score = None if self._data.validation is None else self._validate(self._data.validation)
            if isinstance(self._scheduler, ReduceLROnPlateau):
                self._scheduler.step(loss if score is None else score)
            progress.epoch += 1
            if path is not None and (together is None or together.number == 0):
                state = {
                    "module": dict(self.net.state_dict()),
                    "criterion": dict(self.criterion.state_dict()),
                    "optimizer": self._optimizer.state_dict(),
                    "scheduler": None if self._scheduler is None else self._scheduler.state_dict(),
                    "progress": asdict(progress),
                }
                write_checkpoint(path, self._identity, state)
            if self._data.callback is not None:
                self._data.callback(progress.epoch, settings.epochs, loss)
        if self._data.validation is not None:
            if progress.best is None:
                raise DivergenceError(
                    "No epoch has a finite score on the validation rows; look for values far out of range."
                )
            self.net.load_state_dict(progress.best)
        return progress

    def _train_epoch(self, epoch: int) -> float:
        together = self._data.together
        apart = [together.number] if together is not None and together.number else []
        self._data.numbers.seed(self._data.seed, 1, epoch, *apart)
        self.net.train()
        total = weight = 0.0
        for step, batch in enumerate(self._data.source.batches(epoch)):
            batch = on_device(batch, self._device)
            rows = len(batch.candidates)
            total += (batch.rows_in_all or rows) * self._step(batch, epoch, step)
            weight += rows if batch.sample_weight is None else float(batch.sample_weight.sum())
        if together is not None:
            weight = float(self._added(torch.tensor([weight], dtype=torch.float64, device=self._device)))
            self._share_buffers(together)
        if weight == 0.0:
            raise CandidateError("The dataset has no rows to fit, or no whole batch of them with drop_last; give some.")
        # The last step comes after the last loss.
        if not all(bool(torch.isfinite(parameter).all()) for parameter in self._trained):
            raise self._diverged("The module's parameters became infinite or not a number", epoch, step)
        return total / weight

    def _step(self, batch: TrainingBatch, epoch: int, step: int) -> float:
        """Make one step and return the loss from before it.

        Optimisers that look several times at a batch (LBFGS) call the closure as often; the noise is learned once.
        """
        rows = len(batch.candidates)
        fixed = batch.fixed if epoch < self._data.fixed_epochs else None
        values: list[float] = []

        @torch.enable_grad()
        def closure() -> Tensor:
            self._optimizer.zero_grad(set_to_none=True)
            prediction = self._predict(batch)
            self.criterion.train(not values)
            loss = self.criterion(
                prediction,
                batch.candidates,
                batch.mask,
                batch.prior,
                batch.sample_weight,
                log_q=batch.log_q,
                weights=fixed,
            ).sum() / (batch.rows_in_all or rows)
            total = self._added(loss.detach().clone())
            value = float(total)
            if not math.isfinite(value):
                raise self._diverged(f"The loss became {value}", epoch, step)
            if not values:
                self._remember()
            values.append(value)
            loss.backward()
            self._add_gradients()
            if self._settings.clip is not None:
                nn.utils.clip_grad_norm_(self._trained, self._settings.clip)
            return total

        self._optimizer.step(closure)
        if self._scheduler is not None and not isinstance(self._scheduler, ReduceLROnPlateau):
            self._scheduler.step()
        return values[0]

    def _added(self, part: Tensor) -> Tensor:
        """Return a tensor added up over the processes that train together."""
        if self._data.together is not None:
            self._data.together.add(part)
        return part

    def _add_gradients(self) -> None:
        """Add up the gradients of all processes: each has divided by the rows of all."""
        if self._data.together is None:
            return
        for parameter in self._trained:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        flat = torch.cat([part.grad.reshape(-1) for part in self._trained])
        self._data.together.add(flat)
        at = 0
        for parameter in self._trained:
            parameter.grad.copy_(flat[at : at + parameter.numel()].view_as(parameter))
            at += parameter.numel()

    @torch.no_grad()
    def _share_buffers(self, together: ModuleGroup) -> None:
        """Let running means and the like, which each process has of its own rows, be those of all."""
        for buffer in self.net.buffers():
            if buffer.is_floating_point():
                together.add(buffer)
                buffer.div_(together.processes)

    def _validate(self, rows: BatchSource) -> float:
        progress = self.progress
        together, score = self._data.together, 0.0
        if together is None or together.number == 0:
            score = self._evidence(rows) if self._settings.monitor == "evidence" else self._mean_loss(rows)
        # The first process decides for all.
        score = float(self._added(torch.tensor([score], dtype=torch.float64, device=self._device)))
        best = math.inf if progress.best_epoch is None else progress.validation[progress.best_epoch]
        progress.validation.append(score)
        if score < best:
            progress.best_epoch = progress.epoch
            progress.best = {name: part.detach().cpu().clone() for name, part in self.net.state_dict().items()}
        if self._settings.patience is not None:
            since = -1 if progress.best_epoch is None else progress.best_epoch
            progress.stopped = progress.epoch - since >= self._settings.patience
        return score

    @torch.no_grad()
    def _mean_loss(self, source: BatchSource) -> float:
        self.net.eval()
        self.criterion.eval()
        total, rows = 0.0, 0
        for batch in source.batches(0):
            batch = on_device(batch, self._device)
            prediction = self._predict(batch)
            rows_lost = self.criterion(prediction, batch.candidates, batch.mask, batch.prior, log_q=batch.log_q)
            total += float(rows_lost.sum())
            rows += len(prediction)
        _check_validation_rows(rows)
        return total / rows

    @torch.no_grad()
    def _evidence(self, source: BatchSource) -> float:
        """Return minus the validation rows' mean log evidence, after one round of learning their noise scale."""
        self.net.eval()
        predictions, sets, densities = [], [], [NOTHING]
        for batch in source.batches(0):
            predictions.append(self._predict(on_device(batch, self._device)).to("cpu", torch.float64).numpy())
            sets.append(_sets_of(batch))
            if batch.log_q is not None:
                densities.append(batch.log_q[batch.mask].double().numpy())
        _check_validation_rows(len(sets))
        prediction, S = np.concatenate(predictions), CandidateSets.concatenate(sets)
        rule = Rule(self._noise, Squared())
        log_q = np.concatenate(densities)
        state = rule.initial_state(self._data.scale)
        state[SCALE], state[MISSING] = self.progress.noise, self.progress.missing
        state = rule.update_scale(prediction, S, state, rule.evaluate(prediction, S, state, log_q).weights)
        self.progress.noise, self.progress.missing = float(state[SCALE]), float(state[MISSING])
        return -float(rule.evidence(prediction, S, state, log_q).mean())

    def _predict(self, batch: TrainingBatch) -> Tensor:
        return call_module(self._call, batch.features, len(batch.candidates), self._device, self._settings.autocast)

    def _changing(self) -> list[Tensor]:
        return list(chain(self._trained, self.net.buffers(), self.criterion.buffers()))

    @torch.no_grad()
    def _remember(self) -> None:
        """Keep the weights that have just given a finite loss."""
        for kept, tensor in zip(self._good, self._changing(), strict=True):
            kept.copy_(tensor)

    @torch.no_grad()
    def _diverged(self, what: str, epoch: int, step: int) -> DivergenceError:
        """Go back to the last good weights and return the error to raise."""
        for kept, tensor in zip(self._good, self._changing(), strict=True):
            tensor.copy_(kept)
        rate = float(self._optimizer.param_groups[0]["lr"])
        first = epoch == 0 and step == 0
        advice = (
            "Nothing had been learned yet, so look for features or labels far out of range (scale_features=True, "
            "scale_target=True) and at the loss and the module themselves."
            if first and what.startswith("The loss")
            else "Try a smaller learning_rate, clip=1.0, or scale_target=True if it is off."
        )
        return DivergenceError(
            f"{what} at step {step + 1} of epoch {epoch + 1} of {self._settings.epochs}, at learning rate {rate:g}. "
            f"{advice} The last good weights are kept in this error's `fitted`."
        )


def _check_validation_rows(found: int | None) -> None:
    if found == 0:
        raise CandidateError("The validation dataset has no rows; give at least one, or none at all.")


def _sets_of(batch: TrainingBatch) -> CandidateSets:
    mask = batch.mask
    offsets = np.concatenate([[0], np.cumsum(mask.sum(1).numpy())])
    prior = None if batch.prior is None else batch.prior[mask].double().numpy()
    return CandidateSets(batch.candidates[mask].double().numpy(), offsets, prior)
