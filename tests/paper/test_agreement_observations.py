"""The five observations: true where they are so, false where one cell breaks them, open where nothing was measured."""

import pytest

from plr.paper.observations import check_observations, measured_means, published_means

METHODS = ("AVGL-MSE", "AVGL-MAE", "AVGL-Huber", "AVGV-MSE", "AVGV-MAE", "AVGV-Huber", "IDent", "PIDent")


def perfect():
    """Return a table on which everything the paper says is so."""
    base = dict(zip(METHODS, (50.0, 30.0, 31.0, 51.0, 40.0, 41.0, 10.2, 10.0), strict=True))
    means = {}
    for dataset in ("concrete", "housing"):
        for model, factor in (("mlp", 1.0), ("linear", 1.5)):
            means[dataset, model, 0, "Supervised"] = 9.8 * factor
            for size in (2, 4):
                for method, number in base.items():
                    rise = 0.1 if method in ("IDent", "PIDent") else 5.0
                    means[dataset, model, size, method] = (number + rise * size) * factor
    return means


def test_all_hold_on_a_table_made_for_it():
    assert [observation.holds for observation in check_observations(perfect())] == [True] * 5


@pytest.mark.parametrize(
    ("number", "changes"),
    [
        (1, {("concrete", "mlp", 2, "AVGL-MAE"): 5.0}),
        (2, {("concrete", "mlp", 4, "AVGL-MSE"): 1.0}),
        (
            3,
            {("concrete", "mlp", 4, method): 999.0 for method in METHODS}
            | {("housing", "mlp", 2, m): 999.0 for m in METHODS},
        ),
        (4, {(dataset, "mlp", size, "IDent"): 1.0 for dataset in ("concrete", "housing") for size in (2, 4)}),
        (5, {(d, m, s, "AVGV-MSE"): 1.0 for d in ("concrete", "housing") for m in ("mlp", "linear") for s in (2, 4)}),
    ],
)
def test_each_can_fail(number, changes):
    observation = check_observations({**perfect(), **changes})[number - 1]
    assert observation.holds is False
    assert any(claim.count < claim.total for claim in observation.claims)


def test_what_was_not_measured_is_left_open():
    only_mlp = {place: number for place, number in perfect().items() if place[1] == "mlp" and place[3] == "IDent"}
    assert [observation.holds for observation in check_observations(only_mlp)] == [None] * 5
    assert all(claim.total == 0 or claim.holds for o in check_observations(only_mlp) for claim in o.claims)


def test_a_table_where_nothing_changes_is_no_accident():
    flat = dict.fromkeys(perfect(), 3.0)
    assert [observation.holds for observation in check_observations(flat)] == [False, False, False, False, False]


def test_the_papers_own_tables():
    observations = check_observations(published_means())
    first = observations[0].claims[0]
    assert (first.count, first.total, first.detail) == (55, 56, "Exceptions: housing linear 2.")
    assert observations[4].claims[2].holds is False


def test_measured_means_take_the_papers_models_on_all_rows():
    row = {"dataset": "d", "model": "mlp", "false_labels": 4, "method": "IDent", "fraction": 1.0, "test_mse": 3.0}
    others = [{**row, "model": "mlp-relu"}, {**row, "fraction": 0.2}, {**row, "test_mse": None}]
    assert measured_means([row, *others]) == {("d", "mlp", 4, "IDent"): 3.0}
