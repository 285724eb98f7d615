"""One line: what was measured of one method on one fold of a case."""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.harness import job_key
from benchmarks.identification.measuring import most_probable
from benchmarks.real.cases import PAPER, SEED, Part, Problem, digest, folds_of, problem
from benchmarks.real.methods import METHODS, score_logit
from benchmarks.uncertainty.measuring import reliability
from numpy.typing import NDArray

from plr.paper.machine import revision
from plr.paper.work import describe

__all__ = ["DRAWS", "Job", "measure", "planned"]

Floats = NDArray[np.float64]

DRAWS = 3
"""How often rows to check are drawn."""

# Raised whenever the same job would give other numbers for a reason outside of plr.
_ENGINE = 1
_LEAST = 1e-9


@dataclass(frozen=True)
class Job:
    """A method to be measured on a fold of a case; ``draw`` says which rows are checked."""

    case: str
    method: str
    fold: int
    draw: int
    data: Path | None
    digest: str

    @property
    def key(self) -> str:
        """Hash of all that decides the result, plr's revision aside."""
        return job_key(_ENGINE, SEED, self.case, self.method, self.fold, self.draw, self.digest)


def planned(cases: Iterable[str], methods: Iterable[str], data: Path | None) -> Iterator[Job]:
    """Return the jobs, those of the first methods first, so that a run that is stopped has the most telling ones."""
    cases = list(cases)
    digests = {case: digest(case, data) for case in cases}
    suited = {case: problem(case, 0, data).train for case in cases}
    for name in methods:
        method = METHODS[name]
        for draw in range(DRAWS if method.checked else 1):
            for case in cases:
                if method.suits(suited[case]):
                    for fold in folds_of(case):
                        yield Job(case, name, fold, draw, data, digests[case])


def measure(job: Job) -> dict[str, Any]:
    """Fit and judge; a failure is a line as well."""
    line: dict[str, Any] = {"key": job.key, **asdict(job), "revision": revision() or "unknown"}
    del line["data"]
    try:
        return line | _judge(job, problem(job.case, job.fold, job.data))
    except Exception as error:
        return line | {"error": describe(error)}


def _judge(job: Job, made: Problem) -> dict[str, Any]:
    method, train, test = METHODS[job.method], made.train, made.test
    known = made.known(method.checked, job.draw, job.fold)
    unchecked = np.ones(len(train.truth), dtype=bool) if known is None else np.isnan(known)
    if method.logit:
        assert known is not None
        coefficient = score_logit(train, known)
        return {
            "found": _identified(train, _shares(train, coefficient), unchecked),
            "found_held_out": _identified(test, _shares(test, coefficient)),
        }
    begun = time.perf_counter()
    with warnings.catch_warnings():
        # That rows should be checked is what the benchmark is about.
        warnings.simplefilter("ignore")
        model = method.fit(train, known, SEED)
    seconds = time.perf_counter() - begun
    prediction = model.predict(test.X)
    line: dict[str, Any] = {
        "seconds": round(seconds, 3),
        "test_mse": float(np.mean((prediction - test.truth) ** 2)),
        "prediction": hashlib.sha256(prediction.tobytes()).hexdigest()[:16],
    }
    if method.labels is None:
        line["prior"] = None if model.prior_ is None else model.prior_.describe()
        line["found"] = _identified(train, model.identify().probabilities, unchecked)
        if job.case not in PAPER:
            shares = model.identify(test.X, method.sets(test)).probabilities
            line["found_held_out"] = _identified(test, shares)
    return line


def _shares(part: Part, coefficient: float) -> Floats:
    S, utility = part.S, coefficient * part.S.features["score"]
    return np.asarray(np.exp(utility - np.logaddexp.reduceat(utility, S.offsets[:-1])[S.row_index]))


def _identified(part: Part, probabilities: Floats, counted: NDArray[np.bool_] | None = None) -> dict[str, Any]:
    """Return how often the likeliest candidate is the true one, how sure that was, and the log loss of the truth.

    Rows whose truth is missing count as not found; log loss is of the others.
    """
    S, is_true = part.S, part.is_true
    counted = np.ones(len(S), dtype=bool) if counted is None else counted
    top = most_probable(probabilities, S)[counted]
    present = counted & np.logical_or.reduceat(is_true, S.offsets[:-1])
    of_truth = np.add.reduceat(probabilities * is_true, S.offsets[:-1])[present]
    return {
        "share": float(is_true[top].mean()),
        "log_loss": float(-np.log(np.maximum(of_truth, _LEAST)).mean()),
        "top": reliability(probabilities[top], is_true[top]),
    }
