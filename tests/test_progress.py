"""Progress: one bar over the whole, which never goes back; and what a fit finds about members of its model."""

import copy
import dataclasses
import io
import logging
import pickle
import re
import threading

import numpy as np
import pytest

from plr import PartialLabelRegressor, load_model, make_candidates, save_model
from plr import progress as module
from plr.fit_report import FitReport, Member
from plr.learners import LEARNERS, MLP, Committee, Density, GaussianProcess, Refit
from plr.learners.committee import EFFORTS
from plr.progress import SILENT, Bar, Progress, begin

STAGES = [
    "density start",
    "scales and columns",
    "Gaussian process",
    "networks and boosted trees",
    "committee",
    "noise and diagnosis",
]


class Shown:
    """A display that keeps what it was shown."""

    def __init__(self):
        self.shares, self.stages, self.left, self.closed = [], [], [], []

    def show(self, share, stage, left):
        self.shares.append(share)
        self.left.append(left)
        if stage not in self.stages[-1:]:
            self.stages.append(stage)

    def close(self, seconds):
        self.closed.append(seconds)


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(scope="module")
def data():
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, size=(90, 3))
    y = 2 * X[:, 0] + X[:, 1]
    return X, y, make_candidates(y, 2, set_size="fixed", random_state=0)


@pytest.fixture
def shown(monkeypatch):
    """Return displays in place of bars, in the order in which they were made; nothing is throttled."""
    made = []

    def make():
        made.append(Shown())
        return made[-1]

    monkeypatch.setattr(module, "Bar", make)
    monkeypatch.setattr(module, "_PAUSE", 0.0)
    return made


@pytest.fixture
def quick(monkeypatch):
    """Let the committee be small."""
    monkeypatch.setitem(EFFORTS, "low", module_effort())


def module_effort():
    return dataclasses.replace(EFFORTS["low"], explore_few=(1, 3), few=(1, 3))


def check_whole(display):
    assert display.shares == sorted(display.shares)
    assert display.shares[-1] == 1.0
    assert [seconds is not None for seconds in display.closed] == [True]


def test_pieces_add_up_to_the_whole():
    display = Shown()
    whole = Progress(display)
    with whole:
        first, second, third = whole.split({"a": 1.0, "b": 2.0, "c": 1.0})
        first(1, 2)
        assert whole.share == pytest.approx(0.125)
        # What is said twice, or takes back, changes nothing.
        first(1, 4)
        assert whole.share == pytest.approx(0.125)
        for part in second.parts(4):
            part.advance(0.5)
            part.advance(0.5)
        assert second.share == 1.0
        assert whole.share == pytest.approx(0.625)
        with third:
            pass
        assert whole.share == pytest.approx(0.875)
        first.advance(7.0)
        assert whole.share == 1.0
    assert display.stages[-1] == "c"
    assert display.closed[0] >= 0


def test_nothing_is_said_of_nothing():
    whole = Progress()
    (only,) = whole.split({"a": 0.0})
    only(0, 0)
    assert whole.share == 0.0
    with whole:
        pass
    assert whole.share == 1.0


def test_threads_add_up():
    whole = Progress()
    parts = whole.parts(7)

    def work(part):
        for _ in range(300):
            part.advance(1 / 300)

    threads = [threading.Thread(target=work, args=(part,)) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert whole.share == 1.0


def test_time_left(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    display = Shown()
    whole = Progress(display)
    whole.start()
    now[0] += 30.0
    whole(1, 4)
    assert display.left[-1] == pytest.approx(90.0)
    now[0] += 0.01
    told = len(display.shares)
    whole(2, 4)
    assert len(display.shares) == told


def test_a_line_that_is_redrawn_on_a_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    stream = Terminal()
    bar = Bar(stream)
    bar.show(0.5, "a stage whose name is so long that it would not fit", 75.0)
    bar.show(0.25, "short", None)
    bar.close(3.0)
    first, second, last = stream.getvalue().split("\r")[1:]
    assert "50 %" in first
    assert len(first) == len(second) == 59
    assert last.startswith(f"plr [{'#' * 24}] 100 %  done in 3 s")
    assert last.endswith("\n")
    assert stream.getvalue().count("\n") == 1


def test_a_line_for_each_stage_elsewhere():
    stream = io.StringIO()
    bar = Bar(stream)
    for share, stage in ((0.0, "first"), (0.1, "first"), (0.4, "second"), (0.5, "first")):
        bar.show(share, stage, 12.0)
    bar.close(3.0)
    assert stream.getvalue().splitlines() == [
        "plr: 0 %, first, about 12 s left",
        "plr: 40 %, second, about 12 s left",
        "plr: 100 %, done in 3 s",
    ]
    stream.close()
    bar.show(0.9, "third", None)


def test_a_copy_tells_nobody():
    assert pickle.loads(pickle.dumps(Progress())) is copy.deepcopy(Progress()) is SILENT
    with SILENT as silent:
        assert silent.split({"a": 1.0, "b": 2.0}) == silent.parts(2)
        silent(1, 2)
        silent.advance(0.5)
        silent.record("x")
    assert silent.share == 0.0
    assert silent.members is None


def test_stages_of_the_default(data, shown, quick):
    X, _, S = data
    model = PartialLabelRegressor(effort="low", random_state=0, verbose=1).fit(X, S)
    check_whole(shown[0])
    assert shown[0].stages == STAGES
    model.predict_interval(X)
    model.identify()
    assert len(shown) == 2
    check_whole(shown[1])
    assert shown[1].stages == ["calibrating"]


@pytest.mark.parametrize("learner", [*LEARNERS, Refit, "groups", "plain", "average"], ids=str)
def test_one_bar_for_whatever_is_fitted(data, shown, quick, learner):
    from sklearn.linear_model import Ridge

    X, y, S = data
    learners = {
        Refit: Refit(Ridge()),
        "committee": Committee("low"),
        "mlp": MLP(epochs=3),
        "density": Density(models="trees"),
        "gaussian_process": GaussianProcess(chains=2, rounds=3),
    }
    model = PartialLabelRegressor(
        learners.get(learner, Committee("low") if learner in ("groups", "plain", "average") else learner),
        "average" if learner == "average" else "auto",
        random_state=0,
        verbose=1,
        n_jobs=2,
    )
    model.fit(X, y if learner == "plain" else S, groups=np.arange(90) // 2 if learner == "groups" else None)
    check_whole(shown[0])
    model.identify()
    model.calibrate()
    for display in shown[1:]:
        check_whole(display)
    assert len(shown) <= 3


def test_verbose_goes_to_stderr_and_changes_nothing(data, capsys):
    X, _, S = data
    silent = PartialLabelRegressor(MLP(epochs=3), random_state=0).fit(X, S)
    silent.identify()
    assert capsys.readouterr() == ("", "")
    told = PartialLabelRegressor(MLP(epochs=3), random_state=0, verbose=1).fit(X, S)
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"plr: 0 %, fitting MLP\nplr: 9\d %, noise and diagnosis.*\nplr: 100 %, done in \d+ s\n", err)
    np.testing.assert_array_equal(told.predict(X), silent.predict(X))
    np.testing.assert_array_equal(told.identify().probabilities, silent.identify().probabilities)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, ZeroDivisionError])
def test_what_stops_a_fit_leaves_the_model_as_it_was(data, shown, quick, kind):
    X, _, S = data
    model = PartialLabelRegressor("linear", random_state=0).fit(X, S)
    before = model.predict(X)
    kept = dict(vars(model))

    def stop(*_):
        raise kind

    model.verbose = 1
    for learner in (Committee("low"), MLP(epochs=3)):
        model.set_params(learner=learner)
        with pytest.raises(kind):
            model.fit(X, S, callback=stop)
        assert shown[-1].closed == [None]
        assert shown[-1].shares[-1] < 1.0
    model.set_params(learner="linear", verbose=0)
    assert vars(model) == kept
    np.testing.assert_array_equal(model.predict(X), before)
    # What is fitted next has a bar of its own.
    with begin() as progress:
        assert progress.share == 0.0


def test_the_callback_hears_of_the_learner_beside_the_bar(data, shown):
    X, _, S = data
    told = []
    PartialLabelRegressor(MLP(epochs=3), verbose=1).fit(X, S, callback=lambda *heard: told.append(heard))
    assert told[-1][:2] == (3, 3)
    check_whole(shown[0])


def test_members_of_the_committee(data, quick, caplog):
    X, _, S = data
    with caplog.at_level(logging.INFO, logger="plr"):
        model = PartialLabelRegressor(effort="low", random_state=0).fit(X, S)
    report = model.report_
    assert list(dict.fromkeys(member.stage for member in report)) == ["density start", "committee", ""]
    assert [member.name for member in report if member.stage == STAGES[0]] == [
        "forest, 5 rows a leaf",
        "forest, 30 rows a leaf",
    ]
    members = [member for member in report if member.stage == "committee"]
    assert {"density", "Gaussian process", "network", "boosted trees"} <= {member.name for member in members}
    assert sum(member.share for member in members) == pytest.approx(1.0)
    kept = {member.name: member.share for member in members if member.share}
    assert kept == dict(zip((m.name for m in model.model_.members), model.model_.shares, strict=True))
    assert all(np.isfinite(member.evidence) and member.seconds >= 0 for member in report)
    assert report[-1].name == "Committee"
    messages = [record.getMessage() for record in caplog.records]
    assert set(STAGES) <= set(messages)
    assert sum("evidence" in message for message in messages) == len(report)
    # Fits of folds are for those who debug.
    with caplog.at_level(logging.INFO, logger="plr"):
        caplog.clear()
        PartialLabelRegressor(Density(models="trees"), random_state=0).fit(X, S).calibrate()
    assert sum("evidence" in record.getMessage() for record in caplog.records) == 3


@pytest.mark.parametrize("learner", ["linear", "mlp", "boosting"])
def test_other_learners_are_one_line(data, learner):
    X, _, S = data
    model = PartialLabelRegressor(MLP(epochs=3) if learner == "mlp" else learner).fit(X, S)
    (only,) = model.report_
    assert only.name == type(model.learner_).__name__
    assert only.evidence is None
    assert only.seconds >= 0


def test_a_file_has_no_report(data, tmp_path):
    X, _, S = data
    model = PartialLabelRegressor("linear").fit(X, S)
    assert pickle.loads(pickle.dumps(model)).report_ == model.report_
    save_model(model, tmp_path / "model.plr")
    assert load_model(tmp_path / "model.plr").report_ is None


def test_a_report_is_a_table():
    report = FitReport((Member("a <stage>", "first", 1.0, 0.0, 0.5), Member("", "all", float("-inf"), 0.25)))
    assert repr(report).splitlines() == [
        "stage      member  evidence     share  seconds",
        "a <stage>  first      1.000  left out     0.50",
        "           all         -inf      25 %",
    ]
    html = report._repr_html_()
    assert "a &lt;stage&gt;" in html
    assert html.count("<tr>") == 3
