"""The page of a model: what is kept for it, what it says, and that nothing from the data becomes part of it."""

import dataclasses
import itertools
import json
import re

import numpy as np
import pytest
from markupsafe import escape

from plr import CandidateSets, PartialLabelRegressor, check, make_candidates
from plr.errors import DataError, ParameterError
from plr.metrics import true_candidates
from plr.report import training_rows, write_model_page
from plr.report.charts import Chart, text_width, ticks
from plr.report.facts import find_facts
from plr.report.importance import Importance, measure_importance
from plr.report.model_page import ModelContent, render_model_page
from plr.report.provenance import command_of
from plr.report.row_intervals import intervals_of, reach, widths_of
from plr.report.row_table import first_rows, rows_data
from plr.report.rows import Rows, make_rows
from support.html_pages import check_policy
from support.made_models import ESCAPE, HOSTILE, make_content, make_problem


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    return make_content(tmp_path_factory.mktemp("model") / "m.plr", with_truth=True)


@pytest.fixture(scope="module")
def page(content):
    return render_model_page(content)


def hand_made(**others):
    """Three rows: one settled, one in doubt, one with a single candidate."""
    S = CandidateSets.from_lists([[1.0, 5.0], [2.0, 3.0, 9.0], [4.0]])
    return make_rows(S, np.array([0.98, 0.02, 0.3, 0.5, 0.2, 1.0]), np.array([1.1, 2.6, 4.2]), **others)


def test_sections_are_there_and_in_order(page):
    titles = re.findall(r'<section id="(\w+)"><h2>', page)
    assert titles == ["summary", "candidates", "training", "calibration", "rows", "importance", "settings"]
    assert re.findall(r'href="#(\w+)"', page)[:8] == ["rows", *titles]


def test_nothing_from_the_data_becomes_markup(page):
    assert HOSTILE not in page
    assert ESCAPE not in page
    assert page.count("<script") == page.count("</script>") == 2
    assert "<img" not in page
    assert str(escape(HOSTILE)) in page


def test_data_in_the_page_is_all_rows(page, content):
    (data,) = re.findall(r'<script type="application/json" id="rows-data">(.*?)</script>', page, re.DOTALL)
    data = json.loads(data)
    assert sorted(data["number"]) == list(range(120))
    assert len(data["values"]) == sum(data["sizes"]) == len(content.rows.values)
    assert data["columns"][0]["cells"][0].startswith("house")
    first = data["number"][0]
    assert "Rows are numbered from 0." in page
    several = content.rows.several
    assert content.rows.top[first] == content.rows.top[several].min()


def test_policy_admits_only_what_stands_in_the_page(page):
    check_policy(page)


def test_rows_come_back_from_a_model_file(content):
    rows = content.rows
    again = Rows.from_dict(json.loads(json.dumps(rows.to_dict())))
    for field in dataclasses.fields(Rows):
        one, other = getattr(rows, field.name), getattr(again, field.name)
        assert np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other, field.name


@pytest.mark.parametrize(
    "change",
    [
        {"rows": 4},
        {"rows": "many"},
        {"columns": {"a": ["x"]}},
        {"columns": 3},
        {"arrays": {}},
        {"arrays": None},
        {"values": "not base64!"},
        {"values": "AAAA"},
        {"sizes": "AAAAAAIAAAAEAAAA"},
        {"number": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
        {"weight": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"},
        {"given": "AAAAAAAAAAAAAAAA"},
        {"top_prior": "AAAAQAAAAEAAAABA"},
        {"prediction": "AAAAAAAA+H8AAAAAAADwPwAAAAAAAPA/"},
    ],
    ids=lambda change: "-".join(f"{key}-{value}"[:24] for key, value in change.items()),
)
def test_what_a_file_says_is_not_believed(change):
    written = hand_made().to_dict()
    for key, value in change.items():
        if key in written["arrays"]:
            written["arrays"][key] = value
        else:
            written[key] = value
    with pytest.raises(DataError, match="training rows"):
        Rows.from_dict(written)


def test_importance_in_a_file_is_not_believed():
    for written in (
        {},
        {"names": ["a"], "changes": [], "rows": 3},
        {"names": ["a"], "changes": [float("inf")], "rows": 3},
    ):
        with pytest.raises(DataError, match="importance"):
            Importance.from_dict(written)


def test_facts_by_hand():
    rows = hand_made(truth=np.array([1.0, 2.0, np.nan]))
    facts = find_facts(rows, None, new=True)
    assert (facts["rows"], facts["several"], facts["candidates"]) == (3, 2, 2.0)
    assert facts["counts"] == {"settled": 1, "likely": 0, "doubtful": 1}
    assert facts["expected"] == pytest.approx((0.98 + 0.5) / 2)
    assert facts["chance"] == pytest.approx((1 / 2 + 1 / 3) / 2)
    checks = facts["checks"]
    assert (checks["rows"], checks["several"], checks["right"]) == (2, 2, 0.5)
    # With one right and one wrong row added, so that none of two is not for sure.
    assert checks["right_error"] == pytest.approx((0.5 * 0.5 / 2) ** 0.5)
    assert checks["mae"] == pytest.approx((0.1 + 0.6) / 2)
    # Of five candidates of which two are true: 0.02, 0.2, 0.3 (true), 0.5, 0.98 (true).
    assert checks["calibration_error"] == pytest.approx((0.02 + 0.2 + 0.7 + 0.5 + 0.02) / 5)
    assert checks["intervals"] is None
    # Each bin has one candidate; the mean size of a normal error is its deviation times the root of 2 / π.
    deviations = [(p * (1 - p)) ** 0.5 for p in (0.02, 0.2, 0.3, 0.5, 0.98)]
    assert checks["calibration_error_by_chance"] == pytest.approx((2 / np.pi) ** 0.5 * sum(deviations) / 5)


def test_shares_by_probability_have_standard_errors():
    S = CandidateSets.from_lists([[1.0, 5.0]] * 40)
    rows = make_rows(S, np.tile([0.85, 0.15], 40), np.ones(40), truth=np.repeat([1.0, 5.0], [30, 10]))
    low, high = find_facts(rows, None, new=True)["checks"]["reliability"]
    assert (high["candidates"], high["true"], low["true"]) == (40, 0.75, 0.25)
    expected = 31 / 42
    assert high["true_error"] == low["true_error"] == pytest.approx((expected * (1 - expected) / 40) ** 0.5)
    # Rows that stand for many others are still as few.
    heavy = dataclasses.replace(rows, weight=np.full(40, 10.0))
    assert find_facts(heavy, None, new=True)["checks"]["reliability"][1]["true_error"] == high["true_error"]


def test_the_verdict_of_check_is_at_the_top(content, page):
    X, S, _ = make_problem()
    assert content.model.diagnosis_.verdict == "not measured"
    found = check(X, S)
    summary = page[page.index('<section id="summary">') : page.index('<p class="lead">')]
    assert f'<p class="verdict {found.verdict}"><strong>{found.headline}</strong>' in summary
    assert str(escape(found.reason)) in summary
    # A file that does not keep it says what the fit has found.
    extra = {name: part for name, part in content.manifest["extra"].items() if name != "page"}
    bare = render_model_page(dataclasses.replace(content, manifest={"plr": "0", "extra": extra}))
    assert '<p class="verdict not-measured">' in bare
    written = {"page": {"check": {"verdict": ESCAPE, "headline": HOSTILE, "reason": "r", "advice": "a"}}}
    hostile = render_model_page(dataclasses.replace(content, manifest={"plr": "0", "extra": written}))
    assert HOSTILE not in hostile
    assert ESCAPE not in hostile
    assert str(escape(HOSTILE)) in hostile


def test_only_rows_with_the_truth_among_the_candidates_are_judged(content):
    checks = find_facts(hand_made(truth=np.array([1.0, 7.3, 4.0])), None, new=True)["checks"]
    assert (checks["rows"], checks["scored"], checks["several"], checks["right"]) == (3, 2, 1, 1.0)
    assert checks["calibration_error"] == pytest.approx((0.02 + 0.02 + 0.0) / 3)
    rows = hand_made(truth=np.array([1.3, 7.3, np.nan]))
    checks = find_facts(rows, None, new=True)["checks"]
    assert (checks["rows"], checks["scored"], checks["right"], checks["calibration_error"]) == (2, 0, None, None)
    page = render_model_page(dataclasses.replace(content, rows=rows))
    assert page.count("cannot be scored: the truth is never among the candidates") == 2
    assert "Measured accuracy" not in page
    assert "share that is true" not in page


@pytest.mark.parametrize(
    ("candidates", "truth", "expected"),
    [
        ([[5.0000001, 9.0]], [5.0], [True, False]),
        ([[5.00001, 9.0]], [5.123456789], [False, False]),
        ([[1.2345, 7.0]], [1.23], [True, False]),
        ([[1.2345, 1.2311]], [1.23], [False, False]),
        ([[1.7e9, 1.7e9 + 60]], [1.7e9 + 60], [False, True]),
        ([[3.0, 3.0, 1.0]], [3.0], [True, True, False]),
        ([[2.46, 9.0], [7.5, 8.0]], [2.5, 7.25], [False, False, False, False]),
        ([[0.0, 1.0]], [0.0], [True, False]),
    ],
    ids=["near", "far", "rounded", "rounded-but-two", "large-and-close", "twice", "decimals-of-all", "zero"],
)
def test_which_candidate_is_the_truth(candidates, truth, expected):
    S = CandidateSets.from_lists(candidates)
    assert true_candidates(S.values, S.offsets, np.array(truth)).tolist() == expected


def test_several_target_columns_are_named(content):
    def lead(*target):
        return dataclasses.replace(content, manifest={"extra": {"table": {"target": list(target)}}}).predicted

    assert lead("a", "b", "c") == "The model predicts the true value, for which a, b and c hold the candidates."
    assert "h and 2 more columns hold" in lead(*"abcdefghij")
    assert lead("a") == "The model predicts a."
    assert lead() == "The model predicts a value."
    page = render_model_page(dataclasses.replace(content, manifest={"extra": {"table": {"target": ["a", "b"]}}}))
    assert "for which a and b hold the candidates. Of the" in page


def test_the_command_names_what_was_asked_for():
    options = {"learner": "mlp", "option": {"epochs": 3, "hidden": [4], "optimizer": "adam"}, "seed": 1}
    flags = {"intervals": False, "drop_empty": True, "stream": True, "engine": "ray", "workers": 3}
    table = {"source": "my data", "roles": {"prior": ["p", "q"]}, "options": {**options, **flags}}
    assert command_of(table, ["y"], "m.plr") == (
        "plr fit 'my data' --target y --prior p,q --learner mlp --option epochs=3 --option 'hidden=[4]' "
        "--option optimizer=adam --seed 1 --no-intervals --drop-empty --stream --engine ray --workers 3 -o m.plr"
    )
    flags = {"intervals": True, "drop_empty": False, "stream": True, "engine": "local", "workers": None}
    table = {"source": "d", "options": flags}
    assert command_of(table, ["y"], "m.plr") == "plr fit d --target y --stream --engine local -o m.plr"
    assert command_of({}, ["y"], "m.plr") == ""
    roles = {"row": "id", "candidate_features": "a,b", "match_score": "a", "record": "r", "prior": "p"}
    table = {"source": "d", "roles": roles, "prior_is": "probability", "known": ["first.csv", "my second.csv"]}
    columns = "--row id --prior p --candidate-features a,b"
    known = "--prior-is probability --known first.csv --known 'my second.csv'"
    assert command_of(table, ["y"], "m.plr") == (
        f"plr fit d --target y {columns} --match-score a --record r {known} -o m.plr"
    )
    table["options"] = {"prior_model": "learned", "match_score": "a", "one_to_one": True}
    assert command_of(table, ["y"], "m.plr") == (
        f"plr fit d --target y {columns} --record r {known} --prior-model learned --match-score a --one-to-one -o m.plr"
    )


def test_many_rows_are_thinned_and_counts_stay_right():
    random = np.random.default_rng(0)
    first = random.uniform(0.5, 1, 60_000)
    S = CandidateSets(np.arange(120_000.0), np.arange(0, 120_001, 2))
    probabilities = np.column_stack([first, 1 - first]).ravel()
    rows = make_rows(S, probabilities, np.arange(0, 120_000, 2.0), columns={"name": [f"r{n}" for n in range(60_000)]})
    assert len(rows) == 20_000
    assert rows.total == 60_000
    assert rows.top.min() == first.min()
    assert all(name == f"r{number}" for name, number in zip(rows.columns["name"], rows.number, strict=True))
    facts = find_facts(rows, None, new=True)
    assert facts["expected"] == pytest.approx(first.mean(), abs=0.002)
    assert facts["counts"]["settled"] == pytest.approx((first >= 0.95).sum(), rel=0.05)
    assert len(json.dumps(rows.to_dict())) < 4_000_000


def test_large_sets_keep_their_likeliest_candidates():
    share = np.r_[np.full(500, 0.001), 0.5]
    rows = make_rows(CandidateSets.from_lists([np.arange(501.0), [1.0]]), np.r_[share, 1.0], np.zeros(2))
    assert rows.sizes.tolist() == [100, 1]
    assert rows.given.tolist() == [501, 1]
    assert rows.values[rows.likeliest].tolist() == [500.0, 1.0]


def test_importance_finds_the_column_that_counts():
    X, _, _ = make_problem()
    found = measure_importance(
        lambda table: 5.0 * table["size"].to_numpy(), X, {name: (name,) for name in X.column_names}
    )
    assert found.names == ("size", HOSTILE)
    assert found.changes[0] > 1
    assert found.changes[1] == 0
    assert measure_importance(lambda table: np.zeros(1), X.slice(0, 1), {"size": ("size",)}) is None


def test_page_without_rows_says_how_to_get_them(content):
    bare = dataclasses.replace(content, rows=None, importance=None, manifest={"plr": "0", "extra": {}})
    page = render_model_page(bare)
    assert "Name a table with --data" in page
    assert 'id="rows-data"' not in page


@pytest.mark.parametrize(
    "sets", [[[1.0], [2.0], [4.0]], [[1.0, 1.0], [1.0], [1.0]], [[1e300, -1e300], [0.0], [1e-300]]]
)
def test_odd_rows_make_a_page(sets, content):
    S = CandidateSets.from_lists(sets)
    rows = make_rows(S, np.full(S.values.size, 0.5), np.array([float(values[0]) for values in sets]), truth=np.zeros(3))
    page = render_model_page(dataclasses.replace(content, rows=rows))
    assert "nan" not in re.sub(r"<style>.*?</style>|<script.*?</script>", "", page, flags=re.DOTALL).lower().split()


def test_candidates_from_several_columns_name_theirs(content):
    S = CandidateSets.from_padded(np.array([[1.0, 2.0, np.nan], [np.nan, 3.0, 4.0], [5.0, 6.0, 7.0]]))
    shares = np.array([0.1, 0.9, 0.2, 0.8, 0.7, 0.2, 0.1])
    rows = make_rows(S, shares, np.zeros(3))
    names = ("first", "second", "<third>")
    lines = first_rows(rows, None, "value", names)["lines"]
    assert [line["slot"] for line in lines] == ["first", "<third>", "second"]
    assert [line["values"] for line in lines] == [
        ["5 (70%)", "6 (20%)", "7 (10%)"],
        ["4 (80%)", "3 (20%)"],
        ["2 (90%)", "1 (10%)"],
    ]
    assert rows_data(rows, None, names)["slots"]["names"] == names
    assert rows_data(rows, None, ("one",))["slots"] is None
    page = render_model_page(
        dataclasses.replace(content, rows=rows, manifest={"extra": {"table": {"target": [*names]}}})
    )
    assert re.findall(r"<small> (.*?)</small>", page) == ["first", "&lt;third&gt;", "second"]


def test_model_that_was_never_asked_is_said_to_have_seen_the_rows(content):
    X, S, _ = make_problem(60)
    model = PartialLabelRegressor("linear").fit(X, S)
    rows = Rows.from_dict(training_rows(model, X, S)["training"])
    assert not rows.out_of_fold
    page = render_model_page(ModelContent("m", model, {"plr": "0", "extra": {}}, rows))
    assert "which was fitted to these rows and may be over-confident" in page
    assert "Intervals were not calibrated" in page


def with_intervals(noise, learner="linear", rows=300):
    """Return what the page of a model shows of rows that it was not fitted to."""
    random = np.random.default_rng(0)
    X = random.uniform(-2, 2, (2 * rows, 2))
    y = 4.0 * X[:, 1] + noise(random, X)
    S = make_candidates(y, 2, random_state=0)
    model = PartialLabelRegressor(learner, random_state=0).fit(X[:rows], S[:rows])
    model.calibrate()
    prediction, scale = model._predict_with_scale(X[rows:])
    probabilities = model.identify(X[rows:], S[rows:]).probabilities
    widths = widths_of(model, X[rows:], prediction, scale)
    shown = make_rows(S[rows:], probabilities, prediction, relative=widths, truth=y[rows:])
    return ModelContent("m", model, {"plr": "0", "extra": {}}, shown, new=True), X[rows:]


def test_intervals_of_rows_are_those_that_the_model_gives():
    content, X = with_intervals(lambda random, X: np.exp(X[:, 0]) * random.normal(size=len(X)))
    rows, model = content.rows, content.model
    assert rows.relative is not None
    ends = model.predict_interval(X)
    np.testing.assert_allclose(intervals_of(rows, model.calibration_).ends, ends)
    data = rows_data(rows, model.calibration_, ("y",))
    np.testing.assert_allclose(np.column_stack([data["lower"], data["upper"]]), ends[data["number"]], rtol=1e-5)
    # In a file, widths are in single precision.
    again = Rows.from_dict(json.loads(json.dumps(rows.to_dict())))
    np.testing.assert_allclose(intervals_of(again, model.calibration_).ends, ends, rtol=1e-4, atol=1e-5)
    page = render_model_page(content)
    check_policy(page)
    assert "by how wide these are" in page
    assert "of a typical row, wider where the model knows less" in page
    assert page.count("false labels are spread evenly over the range of the candidates") == 2
    checks = content.facts["checks"]["intervals"]
    assert 0.85 < checks["coverage"] < 0.98
    assert [level["asked"] for level in checks["levels"]] == [0.5, 0.8, 0.9]
    for level in checks["levels"]:
        share = np.mean(
            (content.rows.truth >= (held := model.predict_interval(X, level["asked"]))[:, 0])
            & (content.rows.truth <= held[:, 1])
        )
        assert level["coverage"] == pytest.approx(share)
        assert abs(level["coverage"] - level["asked"]) < 5 * level["coverage_error"]
    # A stroke for each tenth of the rows and each of these, and one for each bin of probabilities.
    strokes = len(checks["by_width"]) + len(checks["levels"]) + len(content.facts["checks"]["reliability"])
    assert page.count('class="spread"') == strokes
    assert len(checks["by_width"]) == 10
    # Without the rows' widths, which differ, nothing is drawn.
    bare = render_model_page(dataclasses.replace(content, rows=dataclasses.replace(rows, relative=None)))
    assert "by increasing prediction" not in bare


def test_pieces_are_drawn_where_labels_have_two_humps():
    content, _ = with_intervals(lambda random, X: random.choice([-3.0, 3.0], len(X)) + 0.2 * random.normal(size=len(X)))
    data = rows_data(content.rows, content.model.calibration_, ("y",))
    assert len(data["pieces"]) > 250
    for place, pieces in data["pieces"].items():
        assert len(pieces) >= 4
        assert data["lower"][place] <= pieces[-1]
    lines = first_rows(content.rows, content.model.calibration_, "y", ("y",))["lines"]
    bands = [sum(shape["attributes"]["class"] == "band" for shape in line["drawn"].shapes) for line in lines]
    assert np.median(bands) == 2
    page = render_model_page(content)
    check_policy(page)
    assert page.count('class="interval"') > 2 * 140


def test_rows_that_are_alike_have_no_chart_by_width():
    content, _ = with_intervals(lambda random, X: random.normal(size=len(X)))
    assert content.rows.relative is None
    page, calibration = render_model_page(content), content.model.calibration_
    assert "of a typical row" not in page
    assert "by increasing prediction" in page
    assert reach(calibration, 0.5) in page
    assert reach(calibration, 0.999) is None
    assert reach(None) is None


def test_written_whole_or_not_at_all(content, tmp_path):
    path = write_model_page(content, tmp_path / "new" / "page.html")
    assert path.read_text(encoding="utf-8") == render_model_page(content)
    with pytest.raises(ParameterError, match="is a folder; name the file"):
        write_model_page(content, tmp_path)
    assert [found.name for found in tmp_path.rglob("*")] == ["new", "page.html"]


def test_candidates_of_a_row_are_written_out():
    S = CandidateSets.from_lists([[1234.5, -2.0, 30000.25, 4.0, 5.0]])
    rows = make_rows(S, np.array([0.4, 0.3, 0.2, 0.1, 0.0]), np.array([1200.0]))
    (line,) = first_rows(rows, None, "value", ("y",))["lines"]
    assert line["values"] == ["1,234.5 (40%)", "−2 (30%)", "30,000.25 (20%)"]
    assert line["other_values"] == ["4 (10%)", "5 (0%)"]


def test_numbers_of_a_column_have_as_many_decimals():
    S = CandidateSets.from_lists([[1.0, 20.0], [2.5], [10.25]])
    rows = make_rows(S, np.array([0.5, 0.5, 1.0, 1.0]), np.array([1.0, 12.3456, 7.5]))
    lines = first_rows(rows, None, "value", ("y",))["lines"]
    assert [line["prediction"] for line in lines] == ["1.00", "12.35", "7.50"]
    assert rows_data(rows, None, ("y",))["decimals"] == 2


def test_all_columns_are_there_on_demand(content):
    columns = {f"column_{place}": [f"cell_{place}"] * len(content.rows) for place in range(9)}
    names = tuple(f"feature_{place}" for place in range(30))
    importance = Importance(names, tuple(float(30 - place) for place in range(30)), 100)
    rows = dataclasses.replace(content.rows, columns=columns, naming=1)
    page = render_model_page(dataclasses.replace(content, rows=rows, importance=importance))
    assert "Show 6 more columns" in page
    assert len(re.findall(r'<td class="text more">', page)) == 6 * 25
    assert len(re.findall(r'<td class="text">', page)) == 3 * 25
    assert "The other 10 of 30 columns" in page
    found = re.findall(r'<th scope="row">feature_(\d+)<svg', page)
    assert [int(place) for place in found] == list(range(30))


def test_texts_of_a_chart_stay_inside():
    for ends in ((-1_234_567.0, 7_654_321.0), (0.0, 1e-5), (-1.0, 1.0)):
        chart = Chart("c", ends, ends, x_label="predicted " + 30 * "x", y_label="y")
        texts = [shape for shape in chart.shapes if shape["tag"] == "text"]
        places = []
        for shape in texts:
            x, wide, anchor = (
                float(shape["attributes"]["x"]),
                text_width(shape["text"]),
                shape["attributes"]["text-anchor"],
            )
            left = x - {"start": 0.0, "middle": wide / 2, "end": wide}[anchor]
            assert left >= -0.1, shape
            assert left + wide <= chart.width + 0.1, shape
            if anchor == "middle" and not shape["attributes"]["class"]:
                places.append((left, left + wide))
        # Labels below the axis do not touch each other.
        assert len(places) > 1
        assert all(right < left for (_, right), (left, _) in itertools.pairwise(places))


def test_ticks_are_round_and_points_stay_inside():
    assert ticks(3.2, 51.0) == [10.0, 20.0, 30.0, 40.0, 50.0]
    assert ticks(-1e-7, 1e-7, 3) == [-1e-7, 0.0, 1e-7]
    assert ticks(1.0, 1.0) == [1.0]
    chart = Chart("c", (0, 1), (-1e308, 1e308), x_label="x")
    for y in (-1e308, 0.0, 1e308):
        across, up = chart.place(9.0, y)
        assert 0 <= across <= chart.width
        assert 0 <= up <= chart.height


def test_rows_worth_checking(tmp_path):
    content = make_content(tmp_path / "m.plr", with_review=True)
    page = render_model_page(content)
    check_policy(page)
    assert HOSTILE not in page
    assert ESCAPE not in page
    titles = re.findall(r'<section id="(\w+)"><h2>', page)
    assert titles.index("review") == titles.index("rows") - 1
    data = json.loads(re.search(r'id="review-data">(.*?)</script>', page, re.DOTALL)[1])
    assert data["row"] == content.review.row
    assert len(data["row"]) == 50
    assert all(len(candidates) > 1 for candidates in data["candidates"])
    empty = dataclasses.replace(content, review=content.review.first(0))
    assert 'id="review"' not in render_model_page(empty)
