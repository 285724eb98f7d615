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


def skewed(rows, seed=0, count=5):
    """Make labels that are skewed around a plane; false candidates are those of rows that look alike, as after a join.

    A score says a little about which is true.
    """
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, 3))
    y = np.round(2.0 * X[:, 0] + X[:, 1] + random.lognormal(0.0, 1.0, rows), 4)
    nearest = np.argsort(((X[:, None] - X[None]) ** 2).sum(axis=2), axis=1)[:, :count]
    nearest = random.permuted(nearest, axis=1)
    scores = (nearest == np.arange(rows)[:, None]) + random.normal(0.0, 1.0, nearest.shape)
    return Problem(X, CandidateSets.from_padded(y[nearest], features={"score": scores}), y)


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
    assert error(by_loss) < error(by_mean)
    above_loss, above_mean = (np.mean(TEST.y > model.predict(TEST.X)) for model in (by_loss, by_mean))
    assert above_mean < above_loss
    if loss == "absolute":
        assert 0.4 < above_loss < 0.6
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
    "module": lambda: Module(_line, epochs=40),
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
    assert error(model) < 2.5
