"""What a protocol expands to, and what decides the seeds."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from plr.errors import DataNotFoundError, ParameterError
from plr.generation import make_candidates
from plr.losses import LOSSES
from plr.paper import METHODS, PRESETS, Cell, DataFile, Method, Protocol, count_fits, expand, get_method
from plr.paper.problems import Workbench
from plr.paper.protocol import differences
from plr.weighting import WEIGHTINGS, Rule

PAPER = PRESETS["paper"]


def test_paper_is_tables_2_and_3():
    cells = expand(PAPER)
    assert count_fits([cell for cell in cells if cell.fraction == 1.0], PAPER) == 15_960
    assert len({cell.key(PAPER) for cell in cells}) == len(cells)
    fits = Counter({cell.method: len(cell.settings(PAPER)) for cell in cells})
    assert fits["Supervised"] == 2
    assert fits["AVGL-Huber"] == fits["AVGV-Huber"] == 4
    assert fits["PIDent"] == 10
    assert sum(fits.values()) == 30


def test_figure_1_takes_its_cells_alone():
    parts = [cell for cell in expand(PAPER) if cell.fraction < 1.0]
    assert {cell.dataset for cell in parts} == {"concrete", "housing"}
    assert {cell.false_labels for cell in parts} == {2, 4}
    assert {cell.method for cell in parts} == {"IDent", "PIDent"}
    assert {cell.model for cell in parts} == {"mlp"}
    assert {cell.fraction for cell in parts} == {0.2, 0.4, 0.6, 0.8}


def test_supervised_has_no_sizes():
    sizes = {cell.false_labels for cell in expand(PAPER) if cell.method == "Supervised"}
    assert sizes == {0}


def test_hard_differs_from_paper_in_set_size_alone():
    assert differences(PAPER.settings(), PRESETS["hard"].settings()) == ["set_size: upto there, fixed asked for"]


def test_quick_covers_all_data_sets():
    quick = PRESETS["quick"]
    assert set(quick.datasets) == set(PAPER.datasets)
    assert quick.sizes == (4, 16)
    assert count_fits(expand(quick), quick) == len(expand(quick))


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("loss", LOSSES)
def test_any_weighting_and_loss_is_a_method(weighting, loss):
    method = get_method(f"{weighting}:{loss}")
    for setting in method.settings(PAPER):
        rule = Rule(*method.parts(setting, 0.5))
        assert rule.formula.number == setting.get("delta", 0.0)
        assert "beta2" not in setting or rule.formula.second == setting["beta2"]


@pytest.mark.parametrize("name", ["IDnt", "averge:squared", "average:sqared"])
def test_unknown_method_names_the_nearest(name):
    with pytest.raises(ParameterError, match="did you mean"):
        get_method(name)


def test_method_with_its_own_model_is_not_multiplied(monkeypatch):
    monkeypatch.setitem(METHODS, "Own", Method("Own", custom=lambda *_: [], model="own", hyper=()))
    protocol = replace(PAPER, methods=("Own", "IDent"), datasets=("abalone",), sizes=(4,), trials=1)
    assert [(cell.model, cell.method) for cell in expand(protocol)] == [
        ("own", "Own"),
        ("mlp", "IDent"),
        ("linear", "IDent"),
    ]
    assert expand(protocol)[0].settings(protocol) == [{}]


def test_mechanism_that_counts_itself_has_no_sizes():
    protocol = replace(PAPER, mechanism="units", datasets=("concrete",), methods=("IDent",), models=("mlp",), trials=1)
    assert [cell.false_labels for cell in expand(protocol)] == [None]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"datasets": ("concret",)}, "did you mean 'concrete'"),
        ({"models": ("mpl",)}, "did you mean 'mlp'"),
        ({"sizes": (0,)}, "at least 1"),
        ({"sizes": (4, 4)}, "more than once"),
        ({"methods": ()}, "empty"),
        ({"fractions": (1.5,)}, "at most 1"),
        ({"trials": 0}, "at least 1"),
        ({"set_size": "up"}, "upto"),
        ({"mechanism": "unifrm"}, "uniform"),
        ({"selection": "best"}, "selection"),
        ({"learning_rates": (0.0,)}, "above 0"),
    ],
)
def test_wrong_setting_is_refused(change, message):
    with pytest.raises(ParameterError, match=message):
        replace(PAPER, **change)


def test_digest_ignores_order_and_selection():
    assert replace(PAPER, sizes=(16, 2, 4, 8)).digest == PAPER.digest
    assert replace(PAPER, selection="truth").digest == PAPER.digest
    assert replace(PAPER, epochs=999).digest != PAPER.digest


def test_json_round_trip(tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text("a,y\n" + "".join(f"{i},{i * 2}\n" for i in range(10)))
    protocol = replace(PAPER, datasets=("mine",), files=(DataFile.read(file, "y"),))
    text = protocol.to_json()
    assert str(tmp_path) not in text
    assert Protocol.from_json(text) == protocol
    assert Protocol.from_json(text).digest == protocol.digest


def test_own_file_is_a_data_set(tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text("a,y\n" + "".join(f"{i},{i * 2}\n" for i in range(20)))
    protocol = replace(PAPER, datasets=("mine",), files=(DataFile.read(file, "y"),))
    problem = Workbench(protocol).problem(Cell("mine", "mlp", "IDent", 2, 1.0, 0))
    assert len(problem.train.y) == 12
    file.write_text(file.read_text() + "99,99\n")
    assert replace(protocol, files=(DataFile.read(file, "y"),)).digest != protocol.digest
    with pytest.raises(DataNotFoundError, match="nowhere"):
        DataFile.read(tmp_path / "nowhere.csv", "y")


class TestSeeds:
    bench = Workbench(replace(PAPER, datasets=("housing",), models=("mlp", "linear")))

    def problem(self, method="IDent", model="mlp", size=4, fraction=1.0, trial=0, bench=None):
        return (bench or self.bench).problem(Cell("housing", model, method, size, fraction, trial))

    def test_all_methods_and_models_meet_the_same_problem(self):
        first = self.problem()
        for other in (self.problem(method="AVGV-MSE"), self.problem(model="linear")):
            np.testing.assert_array_equal(first.train.X, other.train.X)
            np.testing.assert_array_equal(first.train.S.values, other.train.S.values)
            np.testing.assert_array_equal(first.validation.S.values, other.validation.S.values)
            np.testing.assert_array_equal(first.test.y, other.test.y)

    def test_supervised_has_the_same_rows_and_the_true_labels(self):
        supervised, first = self.problem(method="Supervised", size=0), self.problem()
        np.testing.assert_array_equal(supervised.train.X, first.train.X)
        np.testing.assert_array_equal(supervised.train.S.values, first.train.y)

    def test_size_changes_candidates_but_not_rows(self):
        small, large = self.problem(size=4), self.problem(size=16)
        np.testing.assert_array_equal(small.train.y, large.train.y)
        assert small.train.S.values.size < large.train.S.values.size

    def test_trial_changes_rows(self):
        assert not np.array_equal(self.problem(trial=0).train.y, self.problem(trial=1).train.y)

    def test_seed_changes_rows(self):
        other = Workbench(replace(self.bench.protocol, seed=1))
        assert not np.array_equal(self.problem().train.y, self.problem(bench=other).train.y)

    def test_fraction_takes_the_first_rows(self):
        whole, part = self.problem(), self.problem(fraction=0.2)
        kept = len(part.train.y)
        assert kept == round(0.2 * len(whole.train.y))
        np.testing.assert_array_equal(part.train.X, whole.train.X[:kept])
        assert part.train.S.to_lists() == whole.train.S[:kept].to_lists()
        np.testing.assert_array_equal(part.test.X, whole.test.X)

    def test_set_sizes(self):
        fixed = Workbench(replace(self.bench.protocol, set_size="fixed"))
        assert set(self.problem(size=4, bench=fixed).train.S.sizes) == {5}
        assert set(self.problem(size=4).train.S.sizes) == {1, 2, 3, 4, 5}

    def both(self, mechanism, size=None, **options):
        """Return the problem under a mechanism, and the false labels of both parts less a part's own truths."""
        bench = Workbench(replace(self.bench.protocol, mechanism=mechanism, **options))
        problem = self.problem(size=size, bench=bench)
        found = []
        for part in (problem.train, problem.validation):
            rows = np.repeat(np.arange(len(part.y)), part.S.sizes)
            false = part.S.values != part.y[rows]
            found.append((part.S.values[false], rows[false], part))
        return problem, found

    def test_folding_has_one_period(self):
        problem, found = self.both("folding")
        low, high = problem.train.y.min(), problem.train.y.max()
        for values, rows, part in found:
            turns = (values - part.y[rows]) / ((high - low) / 3)
            np.testing.assert_allclose(turns, np.rint(turns), atol=1e-6)
            assert low - 1e-9 <= values.min()
            assert values.max() <= high + 1e-9

    def test_biased_has_one_direction(self):
        _, found = self.both("biased", 16, set_size="fixed")
        features, means = [], []
        for values, rows, part in found:
            features.append(np.column_stack([np.ones(len(part.y)), part.X]))
            means.append(np.bincount(rows, values) / np.bincount(rows))
        slopes = np.linalg.lstsq(features[0], means[0], rcond=None)[0]
        for X, mean, (values, rows, _) in zip(features, means, found, strict=True):
            noise = (values - (X @ slopes)[rows]).std() / 4
            assert np.abs(mean - X @ slopes).mean() < 2 * noise

    def test_gaussian_has_one_scale(self):
        problem, found = self.both("gaussian", 16, set_size="fixed")
        for values, rows, part in found:
            assert (values - part.y[rows]).std() == pytest.approx(0.5 * problem.train.y.std(), rel=0.04)

    def test_marginal_has_one_pool(self):
        problem, found = self.both("marginal", 16, set_size="fixed")
        for values, _, _ in found:
            assert np.isin(values, problem.train.y).all()

    def test_digits_have_one_number_of_decimals(self, monkeypatch):
        seen = []

        def spy(y, **options):
            seen.append(options["decimals"])
            return make_candidates(y, **options)

        monkeypatch.setattr("plr.paper.problems.make_candidates", spy)
        self.both("digits", 4)
        assert seen == [1, 1]

    def test_keys_of_uniform_stay_and_those_of_other_mechanisms_have_a_version(self, monkeypatch):
        cell = Cell("housing", "mlp", "IDent", 4, 1.0, 0)
        protocols = [replace(PAPER, mechanism=mechanism) for mechanism in ("uniform", "gaussian")]
        assert cell.key(PAPER) == "1c8237a95757e059c7938d6e4346f1f0"
        assert PAPER.digest.startswith("a0b5fb9993400384")
        before = [(cell.key(protocol), protocol.digest) for protocol in protocols]
        monkeypatch.setattr("plr.paper.protocol.MECHANISM_ENGINE", 99)
        after = [(cell.key(protocol), protocol.digest) for protocol in protocols]
        assert before[0] == after[0]
        assert not set(before[1]) & set(after[1])

    def test_false_labels_lie_in_the_span_of_training_labels(self):
        problem = self.problem(size=16)
        low, high = problem.train.y.min(), problem.train.y.max()
        for part in (problem.train, problem.validation):
            false = ~np.isin(part.S.values, part.y)
            assert part.S.values[false].min() >= low
            assert part.S.values[false].max() <= high
