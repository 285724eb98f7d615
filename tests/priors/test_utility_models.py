"""Models of utilities as ``prior``: boosted trees beside the conditional logit, and those of one's own."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from plr import CandidateSets, PartialLabelRegressor, load_model, save_model
from plr.candidates.known import read_known
from plr.cli.model_options import make_regressor
from plr.errors import ModelFileError, ParameterError
from plr.learners.starts import DensityStart
from plr.persistence import check_savable
from plr.priors import BoostedLogit, FittedUtility, UtilityModel
from plr.priors.dependence import Dependence
from plr.priors.learned import learn_coefficients
from plr.priors.utilities import Refinement
from support.candidate_mechanisms import Problem, join
from support.model_files import change_model, model_of, rebuild, refuses

pytestmark = pytest.mark.filterwarnings("ignore::plr.errors.PlrWarning")
CHECKED, ROWS = 300, 800
QUICK = {"n_estimators": 40, "learning_rate": 0.2}


def table(interaction, rows=ROWS, seed=0, count=5):
    """Make candidates of which the truth depends on a score: everywhere, or for one of two sources alone."""
    random = np.random.default_rng(seed)
    score, noise = random.uniform(size=(2, rows, count))
    source = random.choice(["register", "survey"], size=score.shape)
    useful = np.where(source == "register", score, 0.5) if interaction else score
    true = (8.0 * useful + random.gumbel(size=score.shape)).argmax(axis=1)
    X = random.normal(size=(rows, 2))
    # Near each other, as those of a join are.
    values = np.round(X[:, :1] + random.normal(size=score.shape), 6)
    score = np.where(random.uniform(size=score.shape) < 0.05, np.nan, score)
    S = CandidateSets.from_padded(values, features={"score": score, "source": source, "noise": noise})
    return Problem(X, S, values[np.arange(rows), true])


def learned(problem, checked, model=None):
    known = np.where(np.arange(len(problem.y)) < checked, problem.y, np.nan)
    refinement = None if model is None else Refinement(model, np.arange(len(problem.y)) % 7, 0)
    ones = np.ones(len(problem.y))
    return learn_coefficients(problem.S, read_known(known, problem.S), ones, Dependence(0.0), refinement=refinement)


def log_loss(prior, problem):
    """Return the log loss of the truth, of rows that were not checked."""
    return loss_of(prior.weigh(problem.S).prior_or_uniform, problem)


def loss_of(probabilities, problem):
    true = probabilities[problem.S.values == np.repeat(problem.y, problem.S.sizes)]
    return -np.log(true[CHECKED:]).mean()


def test_trees_find_what_a_sum_cannot_say():
    problem = table(interaction=True)
    plain, boosted = learned(problem, CHECKED), learned(problem, CHECKED, BoostedLogit(**QUICK))
    assert log_loss(boosted, problem) < log_loss(plain, problem) - 0.05
    assert "boosted trees correct this" in boosted.describe()[-1]
    assert "score" in boosted.describe()[-1]
    np.testing.assert_array_equal(plain.coefficients, boosted.coefficients)
    again = learned(problem, CHECKED, BoostedLogit(**QUICK))
    np.testing.assert_array_equal(again.weigh(problem.S).prior, boosted.weigh(problem.S).prior)


def test_no_trees_where_they_do_not_help():
    assert learned(table(interaction=False), CHECKED, BoostedLogit(**QUICK)).model is None
    few = table(interaction=True)
    assert learned(few, 40, BoostedLogit(**QUICK)).model is None
    assert learned(few, 3, BoostedLogit(min_checked_rows=2, **QUICK)).model is None


def test_columns_that_say_nothing():
    problem = table(interaction=True)
    same = CandidateSets(problem.S.values, problem.S.offsets, features={"same": np.ones(len(problem.S.values))})
    assert learned(Problem(problem.X, same, problem.y), CHECKED, BoostedLogit(**QUICK)).model is None


@pytest.fixture(scope="module")
def problem():
    return table(interaction=True)


@pytest.fixture(scope="module")
def model(problem):
    return fit(problem, BoostedLogit(**QUICK))


def fit(problem, prior, checked=CHECKED):
    model = PartialLabelRegressor("linear", start=DensityStart(models="neighbours"), prior=prior, random_state=0)
    known = np.where(np.arange(len(problem.y)) < checked, problem.y, np.nan)
    return model.fit(problem.X, problem.S, known=known)


def test_in_a_regressor(problem, model):
    assert model.prior_.agreement is not None
    assert model.prior_.model is not None
    found, plain = (each.identify(problem.X, problem.S) for each in (model, fit(problem, "auto")))
    assert loss_of(found.probabilities, problem) < loss_of(plain.probabilities, problem) - 0.03
    np.testing.assert_allclose(np.add.reduceat(found.probabilities, problem.S.offsets[:-1]) + found.missing, 1.0)
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(loaded.identify(problem.X, problem.S).probabilities, found.probabilities)
    assert len(model.review(5, random_state=0).row) == 5


def test_parameters():
    model = PartialLabelRegressor(prior=BoostedLogit())
    assert clone(model.set_params(prior__num_leaves=8)).prior.num_leaves == 8
    assert repr(model) == "PartialLabelRegressor(prior=BoostedLogit(num_leaves=8))"


class BestScore(UtilityModel):
    """Utilities are a multiple of the score."""

    def __init__(self, result=None):
        self.result = result

    def fit(self, features, true, weights, folds, seed):
        assert len(true) == len(features.values) == features.offsets[-1]
        assert len(weights) == len(folds) == len(features.offsets) - 1
        return Multiple(features.names.index("score")) if self.result is None else self.result


class Multiple(FittedUtility):
    def __init__(self, column, unit=1.0):
        self.column, self.unit = column, unit

    def utility(self, features):
        return self.unit * np.nan_to_num(features.values[:, self.column])


def test_one_of_your_own(tmp_path):
    problem = join(100)
    model = fit(problem, BestScore(), 40)
    found = model.identify(problem.X, problem.S)
    best = np.maximum.reduceat(problem.S.features["score"], problem.S.offsets[:-1])
    np.testing.assert_array_equal(problem.S.features["score"][problem.S.offsets[:-1] + found.index], best)
    for attempt in (lambda: save_model(model, tmp_path / "model.plr"), lambda: check_savable(model)):
        with pytest.raises(ModelFileError, match="BestScore is a class of your own, and a model file holds no code"):
            attempt()


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ("lerned", "prior 'lerned'.*'learned'"),
        (3, "'auto', 'given', 'learned', or an instance.*BoostedLogit.*got 3"),
        (BoostedLogit, "got the class BoostedLogit; give an instance"),
        (BoostedLogit(n_estimators=0), "n_estimators must be at least 1"),
        (BoostedLogit(learning_rate=0.0), "learning_rate must be above 0"),
        (BoostedLogit(num_leaves=1), "num_leaves must be at least 2"),
        (BoostedLogit(min_checked_rows="few"), "min_checked_rows must be a whole number"),
        (BestScore(result=[1.0]), "BestScore.fit returned list; it must be a plr.priors.FittedUtility, or None"),
        (BestScore(result=Multiple(0, np.nan)), "the utilities that BestScore learned have shape"),
    ],
)
def test_what_is_no_prior(prior, message):
    with pytest.raises(ParameterError, match=message):
        fit(join(60), prior, 30)


@pytest.fixture(scope="module")
def file(tmp_path_factory, model):
    path = tmp_path_factory.mktemp("boosted") / "model.plr"
    save_model(model, path)
    return path


def test_it_comes_back(problem, model, file, tmp_path):
    loaded = load_model(file)
    old, new = (each.identify(problem.X, problem.S).probabilities for each in (model, loaded))
    np.testing.assert_array_equal(old, new)
    assert str(loaded.prior_) == str(model.prior_)
    assert repr(loaded.prior) == repr(model.prior)
    save_model(loaded, tmp_path / "again.plr")
    assert (tmp_path / "again.plr").read_bytes() == file.read_bytes()


def part(content):
    return content["attributes"]["fields"]["prior_"]["fields"]["model"]["fields"]


def fewer_names(content):
    part(content)["names"]["tuple"].pop()


CHANGES = {
    "fewer names": fewer_names,
    "other names": lambda content: part(content)["names"]["tuple"].__setitem__(0, "other"),
    "no trees": lambda content: part(content).update(booster=None),
    "another kind": lambda content: content["attributes"]["fields"]["prior_"]["fields"].update(model=[]),
    "another place": lambda content: content["attributes"]["fields"]["prior_"]["fields"].update(
        model_sees_agreement=False
    ),
    "another part": lambda content: content["attributes"]["fields"]["prior_"]["fields"].update(
        model=content["attributes"]["fields"]["prior_"]["fields"]["dependence"]
    ),
}


@pytest.mark.parametrize("name", sorted(CHANGES))
def test_changed_files_are_refused(name, file, tmp_path):
    refuses(change_model(file, tmp_path / "changed.plr", CHANGES[name]))


def test_changed_trees_are_refused(file, tmp_path):
    text = part(model_of(file))["booster"]["fields"]["trees"]["text"]

    def change(members):
        members[text] = members[text].replace(b"split_feature=", b"split_feature=999 ", 1)

    refuses(rebuild(file, tmp_path / "changed.plr", change))


def test_at_the_command_line():
    made = make_regressor({"prior_model": "boosted_logit"}, {"prior_model.num_leaves": 8})
    assert repr(made.prior) == "BoostedLogit(num_leaves=8)"
    assert make_regressor({}, {}).prior == "auto"
    with pytest.raises(ParameterError, match=r"--prior-model learned takes no options.*--prior-model boosted_logit"):
        make_regressor({"prior_model": "learned"}, {"prior_model.num_leaves": 8})
