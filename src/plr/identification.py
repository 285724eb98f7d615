"""Which candidate of each row is the true one, as `PartialLabelRegressor.identify` answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plr._fields import NOT_KEPT, WITH_GAPS
from plr.candidates import CandidateSets
from plr.candidates.html import SHOWN_ROWS, as_html, listed_candidates
from plr.candidates.origin import frame_of
from plr.diagnosis.twins import share_alike
from plr.errors import NotFittedError
from plr.weighting.rule import row_sums

if TYPE_CHECKING:
    from plr.diagnosis import Diagnosis
    from plr.noise import NoiseModel

__all__ = ["DOUBTFUL", "SETTLED", "Identification", "choose", "identification", "shared"]

Floats = NDArray[np.float64]

SETTLED, DOUBTFUL = 0.95, 0.8
"""From the first probability on a row is settled, and below the second it is in doubt."""

# Shares that are equal but for rounding are equal.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class Identification:
    """Which candidate is the true one, row by row.

    Attributes
    ----------
    index : ndarray of shape (n,)
        Position of the most probable candidate in its row.
    value : ndarray of shape (n,)
        That candidate.
    probability : ndarray of shape (n,)
        How probable it is that it is the true one.
    probabilities : ndarray, one entry per candidate
        The same for every candidate, flat, aligned with ``S.offsets``.
    missing : ndarray of shape (n,)
        How probable it is that none of the row's candidates is true; zeros unless the weighting allows for it
        (``missing_truth`` of `plr.weighting.Posterior`), the prior says it (``prior_is`` of `CandidateSets`), or
        checked rows show it.
    caution : str
        Why the data that the model was fitted to cannot tell which candidates are true; empty where it can.
    sets : CandidateSets or None
        The candidate sets that this is about. A model file does not keep those of the training rows.

    Notes
    -----
    It is a table to whoever reads Arrow's: ``pyarrow.table(found)``, ``polars.DataFrame(found)`` and
    ``pandas.DataFrame.from_arrow(found)`` have one line a row, as `to_frame` does.
    """

    index: NDArray[np.int64]
    value: Floats = field(metadata=WITH_GAPS)
    probability: Floats = field(metadata=WITH_GAPS)
    probabilities: Floats = field(metadata=WITH_GAPS)
    missing: Floats = field(metadata=WITH_GAPS)
    caution: str = ""
    sets: CandidateSets | None = field(default=None, metadata=NOT_KEPT)

    def to_frame(self, long: bool = False) -> Any:
        """Return the answers as a table, with one line a row or one line a candidate.

        Parameters
        ----------
        long : bool, default=False
            One line a candidate, in the order of what the candidates were read from.

        Returns
        -------
        pandas.DataFrame, polars.DataFrame or pyarrow.Table
            As the candidates came, or else the features; a ``pyarrow.Table`` where neither were in a frame. The first
            column has row numbers, from 0 on, or the row ids of a long table by their own name. A pandas frame has the
            index of what came in instead, in the long form of a long table too.

            One line a row: ``value``, the likeliest candidate; ``position``, its place in the row; ``record``, where
            candidates have records; ``source``, where each has a column of its own; ``probability``; and ``missing``,
            how probable it is that none of the row's candidates is true. One line a candidate: ``position``,
            ``value``, ``record``, ``source``, ``prior``, where there is one, ``probability``, and whether it is
            ``chosen``.

        Examples
        --------
        >>> import numpy as np, pandas as pd
        >>> from plr import PartialLabelRegressor
        >>> x, rng = np.linspace(0, 1, 100), np.random.default_rng(0)
        >>> readings = pd.DataFrame({"first": 3 * x, "second": rng.uniform(0, 3, 100)})
        >>> readings.index = [f"r{row}" for row in range(100)]
        >>> model = PartialLabelRegressor(learner="linear").fit(x[:, None], readings)
        >>> found = model.identify(x[:2, None], readings[:2])
        >>> found.to_frame().columns.tolist()
        ['value', 'position', 'source', 'probability', 'missing']
        >>> found.to_frame(long=True)[["source", "chosen"]]
            source  chosen
        r0   first    True
        r0  second   False
        r1   first    True
        r1  second   False
        """
        S = self.sets
        if long:
            if S is None:
                raise NotFittedError(
                    "The candidates of the training rows are not kept with a model that was pickled or loaded; give "
                    "the rows: identify(X, S)."
                )
            return self._long_frame(S)
        columns: dict[str, Any] = {"value": self.value, "position": self.index}
        rows, origin = np.arange(len(self.index)), None
        if S is not None:
            flat = S.offsets[:-1] + self.index
            columns["position"] = self.index if S.slots is None else S.slots[flat]
            columns |= _of_candidates(S, columns["position"], flat)
            rows, origin = _row_numbers(S, rows), S.origin
        columns |= {"probability": self.probability, "missing": self.missing}
        return frame_of(columns, origin, rows)

    def _long_frame(self, S: CandidateSets) -> Any:
        position = S.row_positions
        chosen = np.zeros(len(S.values), dtype=bool)
        chosen[S.offsets[:-1] + self.index] = True
        columns: dict[str, Any] = {"position": position, "value": S.values}
        columns |= _of_candidates(S, position, np.arange(len(S.values)))
        if S.prior is not None:
            columns["prior"] = S.prior
        columns |= {"probability": self.probabilities, "chosen": chosen}
        rows, lines = _row_numbers(S, S.row_index), None
        if S.origin is not None and S.origin.lines is not None:
            order = np.argsort(S.origin.lines, kind="stable")
            columns = {name: column[order] for name, column in columns.items()}
            rows, lines = rows[order], S.origin.lines[order]
        return frame_of(columns, S.origin, rows, lines)

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        """Hand out the table with one line a row, as Arrow's PyCapsule interface has it."""
        import pyarrow as pa

        frame = self.to_frame()
        if hasattr(frame, "iloc"):
            # The index is a column to everybody else.
            frame = frame.reset_index(names=None if frame.index.nlevels > 1 else frame.index.name or "row")
            frame = pa.Table.from_pandas(frame, preserve_index=False)
        return frame.__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        """Return the first rows as a table, for notebooks."""
        first, S = range(min(len(self.index), SHOWN_ROWS)), self.sets
        columns = {
            "value": [f"{self.value[row]:.6g}" for row in first],
            "probability": [f"{self.probability[row]:.3f}" for row in first],
        }
        if self.missing.any():
            columns["missing"] = [f"{self.missing[row]:.3f}" for row in first]
        names = [str(row) for row in first]
        if S is not None:
            names = S.labels(first)
            places = [slice(S.offsets[row], S.offsets[row + 1]) for row in first]
            listed = [listed_candidates(S.values[place], self.probabilities[place]) for place in places]
            columns["candidates (probability)"] = listed
        return as_html(repr(self), names, columns, len(self.index))

    def __repr__(self) -> str:
        sure = float(np.mean(self.probability > 0.95)) if len(self.probability) else 0.0
        caution = ", but the data cannot tell" if self.caution else ""
        return f"Identification({len(self.index)} rows, {sure:.0%} of them above 0.95 sure{caution})"


def _of_candidates(S: CandidateSets, position: Any, flat: Any) -> dict[str, Any]:
    """Return what is known of some candidates beside their value: their record, and the column each came from."""
    found = {} if S.record is None else {"record": S.record[flat]}
    if S.origin is not None and S.origin.columns:
        found["source"] = np.array([str(name) for name in S.origin.columns])[position]
    return found


def _row_numbers(S: CandidateSets, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers that rows had where they were read, if they go by number."""
    by_number = S.kept is not None and (S.origin is None or S.origin.keys is None)
    return S.kept[rows] if by_number and S.kept is not None else rows


def identification(
    noise: NoiseModel,
    prediction: Floats,
    S: CandidateSets,
    relative: Floats | None = None,
    drawn: Floats | None = None,
    diagnosis: Diagnosis | None = None,
) -> Identification:
    """Take the most probable candidate of each row; of equals, the one that the model is nearer to, or the first.

    Where candidates were drawn as the true ones, how often each was counts as much as the noise around the prediction.
    Candidates between which the data cannot tell, as the diagnosis says, have equal shares.
    """
    probabilities = noise.probabilities(prediction, S, relative=relative)
    if drawn is not None:
        present = np.add.reduceat(probabilities, S.offsets[:-1])[S.row_index]
        probabilities = (probabilities + drawn * present) / 2
    return choose(probabilities, S, noise.missing_probabilities(probabilities, S), diagnosis)


def choose(
    probabilities: Floats, S: CandidateSets, missing: Floats, diagnosis: Diagnosis | None = None
) -> Identification:
    """Take the most probable candidate of each row.

    Those of a row sum to one less the probability that its truth is missing.
    """
    by_model, probabilities = probabilities, shared(probabilities, S, diagnosis)
    best = np.maximum.reduceat(probabilities, S.offsets[:-1])
    is_best = probabilities == best[S.row_index]
    if by_model is not probabilities:
        is_best = probabilities >= best[S.row_index] * (1.0 - _ROUNDING)
        # All choices are then those of one reading, as the predictions are.
        nearest = np.maximum.reduceat(np.where(is_best, by_model, -1.0), S.offsets[:-1])
        is_best &= by_model == nearest[S.row_index]
    place = np.where(is_best, np.arange(probabilities.size), probabilities.size)
    flat = np.minimum.reduceat(place, S.offsets[:-1])
    caution = "" if diagnosis is None else diagnosis.caution
    return Identification(flat - S.offsets[:-1], S.values[flat], best, probabilities, missing, caution)


def shared(probabilities: Floats, S: CandidateSets, diagnosis: Diagnosis | None) -> Floats:
    """Return probabilities of which candidates between which the data cannot tell have shares by their prior."""
    if diagnosis is None or not diagnosis.caution:
        return probabilities
    if diagnosis.tied:
        return share_alike(probabilities, S, diagnosis.tied, diagnosis.spread)
    return S.prior_or_uniform * row_sums(probabilities, S)[S.row_index]
