"""The limit of one thread for linear algebra holds until the last who needs it has left, and results with it."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from threadpoolctl import threadpool_info, threadpool_limits

from plr import CandidateSets, PartialLabelRegressor
from plr.learners import GaussianProcess, Linear, Task
from plr.losses import get_loss
from plr.threads import one_blas_thread
from plr.weighting import Rule, get_weighting

# Longer than any machine takes; only a test that hangs waits for so long.
PATIENCE = 300


@pytest.fixture(autouse=True)
def two_threads():
    """Let linear algebra use two threads, also where there is one core."""
    with threadpool_limits(2, user_api="blas"):
        yield


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def problem(rows=60, columns=4):
    random = np.random.default_rng(0)
    X = random.normal(size=(rows, columns))
    y = X[:, 0] + 0.1 * random.normal(size=rows)
    return X, CandidateSets.from_padded(np.column_stack([y, random.uniform(-2, 2, rows)]))


def overlapping(first, second):
    """Run both in threads: the second begins inside the first, and looks at the limit when the first has ended.

    Each takes a function to be called while the limit is set.
    """
    inside, joined, left = threading.Event(), threading.Event(), threading.Event()
    seen = []

    def while_first(*_):
        inside.set()
        assert joined.wait(PATIENCE)

    def while_second(*_):
        joined.set()
        assert left.wait(PATIENCE)
        seen.append(blas_threads())

    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(first, while_first)
        assert inside.wait(PATIENCE)
        other = pool.submit(second, while_second)
        try:
            one.result(PATIENCE)
        finally:
            joined.set()
            left.set()
        other.result(PATIENCE)
    return seen


def block(call):
    with one_blas_thread():
        call()


def test_the_limit_holds_until_the_last_has_left():
    assert overlapping(block, block) == [{1}]
    assert blas_threads() == {2}


def test_blocks_may_be_nested_and_fail():
    def nested():
        with one_blas_thread():
            block(lambda: None)
            assert blas_threads() == {1}
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        nested()
    assert blas_threads() == {2}


@pytest.mark.parametrize("first", [Linear(), GaussianProcess(chains=1, rounds=1)], ids=str)
@pytest.mark.parametrize("second", [Linear(), GaussianProcess(chains=1, rounds=1)], ids=str)
def test_fits_in_two_threads_leave_each_other_the_limit(first, second):
    X, S = problem()
    rule = Rule(get_weighting("posterior"), get_loss("squared"))

    def fit(learner):
        return lambda call: learner.fit(Task(X, S, rule, callback=call))

    seen = overlapping(fit(first), fit(second))
    assert seen
    assert all(threads == {1} for threads in seen)
    assert blas_threads() == {2}


def test_predictions_do_not_depend_on_the_threads_there_are():
    """Wide rows, whose products are cut into as many parts as there are threads."""
    X, S = problem(100, 5000)
    model = PartialLabelRegressor("linear", random_state=0).fit(X, S)
    with threadpool_limits(1, user_api="blas"):
        wanted = model.predict(X)
        alone = PartialLabelRegressor("linear", random_state=0).fit(X, S).predict(X)
    assert_array_equal(model.predict(X), wanted)
    assert_array_equal(alone, wanted)


@pytest.mark.parametrize(
    ("learner", "columns"), [(Linear(), 500), (GaussianProcess(chains=2, rounds=1), 5)], ids=["linear", "process"]
)
def test_workers_change_nothing(learner, columns):
    X, S = problem(100, columns)
    one, two = (PartialLabelRegressor(learner, start=None, random_state=0, n_jobs=jobs).fit(X, S) for jobs in (1, 2))
    assert_array_equal(one.predict(X), two.predict(X))
    assert_array_equal(one.identify().probabilities, two.identify().probabilities)
    assert_array_equal(one.predict_interval(X), two.predict_interval(X))
    assert blas_threads() == {2}
