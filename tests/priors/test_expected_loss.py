"""Where false labels depend on the features, learners lower the expected loss over the candidates, whatever loss."""

import numpy as np
import pytest
from sklearn.linear_model import QuantileRegressor
from sklearn.neighbors import KNeighborsRegressor

from plr import CandidateSets, PartialLabelRegressor
from plr.learners import MLP, Boosting, Density, Module, Refit
from plr.learners.starts import DensityStart
from support.candidate_mechanisms import Problem

SLOW = pytest.mark.slow
pytestmark = [pytest.mark.usefixtures("small_forests"), pytest.mark.filterwarnings("ignore::plr.errors.PlrWarning")]


def skewed(rows, seed=0, count=4):
    """Make false candidates that lie above the truth, most near and some far; a score favours the truth."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, 3))
    y = np.round(2.0 * X[:, 0] + X[:, 1] + random.normal(0.0, 0.5, rows), 4)
    values = np.column_stack([y, np.round(y[:, None] + random.gamma(1.0, 2.0, (rows, count - 1)), 4)])
    scores = (np.arange(count) == 0) + random.normal(0.0, 0.7, values.shape)
    order = np.argsort(random.uniform(size=values.shape), axis=1)
    values, scores = np.take_along_axis(values, order, 1), np.take_along_axis(scores, order, 1)
    return Problem(X, CandidateSets.from_padded(values, features={"score": scores}), y)


PROBLEM = skewed(500)
TRAIN, TEST = PROBLEM.take(np.arange(300)), PROBLEM.take(np.arange(300, 500))


def fitted(learner, loss):
    start = DensityStart(models="neighbours")
    model = PartialLabelRegressor(learner, loss=loss, start=start, prior="learned", random_state=0)
    return model.fit(TRAIN.X, TRAIN.S, known=TRAIN.known(40))


def error(model):
    return np.mean(np.abs(model.predict(TEST.X) - TEST.y))


@pytest.mark.parametrize("loss", ["absolute", "huber"])
def test_the_median_is_nearer_than_the_mean(loss):
    by_loss, by_mean = fitted("linear", loss), fitted("linear", "squared")
    assert by_loss.prior_.agreement is not None
    assert error(by_loss) < 0.95 * error(by_mean)
    # What is known of the candidates does not depend on the loss.
    np.testing.assert_array_equal(by_loss.identify().probabilities, by_mean.identify().probabilities)
    assert by_loss.weighting_.name == "posterior"


def _line():
    torch = pytest.importorskip("torch")
    return torch.nn.Linear(3, 1)


LEARNERS = {
    "mlp": lambda: MLP(hidden=(8,), epochs=20),
    "boosting": lambda: Boosting(trees=40),
    "refit": lambda: Refit(QuantileRegressor(alpha=0.0)),
    "module": lambda: Module(_line, epochs=5),
    # These have a loss of their own, and are fitted to the expected labels.
    "density": lambda: Density(models="trees"),
    "neighbours": lambda: Refit(KNeighborsRegressor()),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=SLOW if name == "module" else ()) for name in LEARNERS])
def test_every_learner_takes_another_loss(name):
    if name == "module":
        pytest.importorskip("torch")
    model = fitted(LEARNERS[name](), "absolute")
    assert model.prior_.agreement is not None
    assert error(model) < 2.0
