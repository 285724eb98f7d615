from itertools import combinations, product

import pytest

from support.pairs import all_pairs, covering


@pytest.mark.parametrize("sizes", [[3], [1, 1], [2, 3], [2, 2, 2], [9, 6, 6, 2], [4, 1, 3, 2, 2], [5, 5, 5]], ids=str)
def test_every_pair_of_values_occurs(sizes):
    chosen = covering(sizes)
    assert chosen <= set(product(*map(range, sizes)))
    for i, j in combinations(range(len(sizes)), 2):
        assert {(row[i], row[j]) for row in chosen} == set(product(range(sizes[i]), range(sizes[j])))
    for i, size in enumerate(sizes):
        assert {row[i] for row in chosen} == set(range(size))


def test_there_are_few_of_them_and_always_the_same():
    # No fewer than the two longest axes have pairs.
    assert len(covering([9, 6, 6, 2])) == pytest.approx(54, abs=6)
    assert covering([9, 6, 6, 2]) == covering([9, 6, 6, 2])


def test_cases_are_all_combinations_and_the_rest_is_slow():
    mark = all_pairs(a=[1, 2], b=["x", pytest.param("y", id="why")], c=[True, None, 0.5]).mark
    names, cases = mark.args
    assert names == ("a", "b", "c")
    assert [case.values for case in cases] == list(product([1, 2], ["x", "y"], [True, None, 0.5]))
    assert [case.id for case in cases][:4] == ["1-x-True", "1-x-None", "1-x-0.5", "1-why-True"]
    slow = [case.values for case in cases if any(mark.name == "slow" for mark in case.marks)]
    assert len(slow) == 12 - len(covering([2, 2, 3])) == 6


def test_marks_of_a_value_stay():
    (_, cases) = all_pairs(a=[1, pytest.param(2, marks=pytest.mark.cluster)], b=[3, 4]).mark.args
    assert [[mark.name for mark in case.marks] for case in cases] == [[], [], ["cluster"], ["cluster"]]
