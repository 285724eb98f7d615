"""One line: what was measured of one method on one case."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from benchmarks.harness import job_key
from benchmarks.identification.cases import SEED, SET_SIZES, Case, Problem, make_problem, training_seed
from benchmarks.identification.methods import Inputs, Method, Outcome, get_method
from numpy.typing import NDArray

from plr import CandidateSets
from plr.paper.machine import revision
from plr.paper.work import describe

__all__ = ["Job", "judge", "measure", "most_probable", "on_same_rows"]

# Raised whenever the same case and method would give other numbers for a reason outside of plr.
_ENGINE = 1


@dataclass(frozen=True)
class Job:
    """A method to be measured on a case."""

    case: Case
    method: str
    quick: bool = False

    @classmethod
    def of(cls, case: Case, method: str, quick: bool = False) -> Job:
        """Return the job, with the case of true labels where the method does not look at candidates."""
        looks = get_method(method).candidates
        return cls(case if looks else case.with_truth(), method, quick)

    @property
    def key(self) -> str:
        """Hash of all that decides the result, plr's revision aside, and of nothing else."""
        options = get_method(self.method, quick=self.quick).options
        return job_key(_ENGINE, SEED, asdict(self.case), self.method, dict(options))


def measure(job: Job) -> dict[str, Any]:
    """Run a method on a case; a failure is a line as well."""
    method = get_method(job.method, quick=job.quick)
    seed = training_seed(job.case.dataset, job.case.trial)
    line: dict[str, Any] = {"key": job.key, **asdict(job.case), "method": job.method, "seed": seed}
    line["revision"] = revision() or "unknown"
    begun = time.perf_counter()
    try:
        problem = make_problem(job.case)
        begun = time.perf_counter()
        outcome = method(Inputs(problem.X, problem.S, problem.X_test, seed, problem.truth))
        line["seconds"] = round(time.perf_counter() - begun, 3)
        return line | judge(outcome, problem, method)
    except Exception as error:
        line["seconds"] = round(time.perf_counter() - begun, 3)
        return line | {"error": describe(error)}


def on_same_rows(jobs: list[Job]) -> list[list[Job]]:
    """Put jobs on the same rows together: what one method fits, others may need.

    A start needs the default's Gaussian process, the oracle the default's fit to true labels.
    """
    groups: dict[object, list[Job]] = {}
    for job in jobs:
        case = job.case
        groups.setdefault((case.dataset, case.trial, case.set_size or SET_SIZES[0]), []).append(job)

    def order(job: Job) -> tuple[int, bool]:
        return job.case.false_labels or 0, job.method == "posterior+start"

    return [sorted(group, key=order) for group in groups.values()]


def judge(outcome: Outcome, problem: Problem, method: Method) -> dict[str, Any]:
    """Compare what a method gave back with the truth."""
    found: dict[str, Any] = {
        "train_rows": len(problem.truth),
        "test_rows": len(problem.y_test),
        "test_mse": _mse(outcome.prediction, problem.y_test),
        "score": None if outcome.score is None else float(outcome.score),
        "details": {
            name: _mse(value, problem.y_test) if isinstance(value, np.ndarray) else value
            for name, value in outcome.details.items()
        },
    }
    if not np.isfinite(found["test_mse"]):
        raise FloatingPointError("a prediction is not finite")
    if outcome.probabilities is not None and method.candidates:
        found |= _identified(np.asarray(outcome.probabilities), problem)
    if outcome.selection is not None:
        found["selection"] = _compare_choices(outcome, problem)
    return found


def _identified(probabilities: Any, problem: Problem) -> dict[str, Any]:
    """Return how often the most probable candidate is the truth, and the probability that the truth got.

    Rows without their truth do not count. Rows with one candidate are right by themselves, so that those with several
    are counted apart as well.
    """
    S, counts = problem.S, problem.present
    is_true = S.values == problem.truth[S.row_index]
    right = is_true[most_probable(probabilities, S)]
    of_truth = np.bincount(S.row_index, probabilities * is_true, len(S))
    several = counts & (S.sizes > 1)
    return {
        "accuracy": float(right[counts].mean()),
        "accuracy_of_several": float(right[several].mean()) if several.any() else None,
        "probability_of_truth": float(of_truth[counts].mean()),
    }


def most_probable(probabilities: Any, S: CandidateSets) -> NDArray[np.int64]:
    """Return the place of each row's most probable candidate; of equals the first, as `identify` does."""
    ordered = np.lexsort((np.arange(S.values.size), -probabilities, S.row_index))
    return ordered[S.offsets[:-1]]


def _compare_choices(outcome: Outcome, problem: Problem) -> dict[str, Any]:
    """Return what was chosen without labels, and what true labels of the same held-out rows would have chosen."""
    selection = outcome.selection
    assert selection is not None
    errors = [_mse(prediction, problem.truth[selection.rows]) for prediction in selection.held_out]
    by_truth = int(np.argmin(errors))
    same = by_truth == selection.chosen
    prediction = outcome.prediction if same else selection.predict_test(by_truth)
    return {
        "settings": list(selection.settings),
        "scores": [float(score) for score in selection.scores],
        "held_out_mse": errors,
        "chosen": selection.chosen,
        "chosen_by_truth": by_truth,
        "test_mse_by_truth": _mse(prediction, problem.y_test),
    }


def _mse(prediction: Any, truth: Any) -> float:
    return float(np.mean((np.asarray(prediction, dtype=np.float64) - truth) ** 2))
