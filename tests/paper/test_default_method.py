"""The library's default as a method of the benchmark."""

from dataclasses import replace

import numpy as np

from plr import PartialLabelRegressor, make_candidates
from plr.paper import get_preset
from plr.paper.grid import expand
from plr.paper.methods import get_method
from plr.paper.problems import BenchmarkProblem, ProblemRows
from plr.paper.selection import EPOCH_RULES


def part(rows, seed):
    random = np.random.default_rng(seed)
    X = random.uniform(0, 1, (rows, 2))
    y = 5 * X[:, 0] + 0.05 * random.normal(size=rows)
    return ProblemRows(X.astype(np.float32), make_candidates(y, 2, random_state=seed), y)


def test_it_is_what_the_regressor_does_unless_told_otherwise():
    method, problem, checks = get_method("Default"), BenchmarkProblem(part(60, 0), part(20, 1), part(20, 2)), []
    assert method.settings(get_preset("paper")) == [{}]
    fits = method.custom(problem, {}, get_preset("paper"), 2**40 + 3, lambda: checks.append(1))
    model = PartialLabelRegressor(random_state=(2**40 + 3) % 2**31, n_jobs=1).fit(problem.train.X, problem.train.S)
    expected = np.mean((model.predict(problem.test.X) - problem.test.y) ** 2)
    assert [fit.rule for fit in fits] == list(EPOCH_RULES)
    assert {fit.test_mse for fit in fits} == {float(expected)}
    assert checks


def test_it_is_one_method_whatever_the_models():
    protocol = replace(get_preset("quick"), methods=("IDent", "Default"), models=("mlp", "linear"), trials=1)
    cells = {(cell.method, cell.model) for cell in expand(protocol)}
    assert cells == {("IDent", "mlp"), ("IDent", "linear"), ("Default", "default")}
    # The presets, whose results are kept, go without.
    assert all("Default" not in get_preset(name).methods for name in ("quick", "paper", "hard"))
