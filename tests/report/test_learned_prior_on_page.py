"""The page says when false labels depend on the features, and what was learned from checked rows."""

from dataclasses import replace

import pytest

from plr import PartialLabelRegressor
from plr.learners.starts import DensityStart
from plr.report.model_page import render_model_page
from support.candidate_mechanisms import guesses
from support.made_models import make_content


@pytest.mark.filterwarnings("ignore::plr.errors.PlrWarning")
def test_false_labels_that_depend_on_the_features(tmp_path):
    content, problem = make_content(tmp_path / "model.plr", rows=30), guesses(80)
    model = PartialLabelRegressor("linear", start=DensityStart(models="neighbours"), random_state=0)
    without = render_model_page(replace(content, model=model.fit(problem.X, problem.S)))
    assert "<strong>Caution:</strong> This data cannot tell" in without
    assert "False candidates depend on the features" in without
    assert "Look up the true labels" in without
    known = problem.known(25)
    checked = render_model_page(replace(content, model=model.fit(problem.X, problem.S, known=known)))
    assert "False candidates depend on the features" in checked
    assert "What makes a candidate believable, learned from 25 checked rows" in checked
    assert "Caution" not in checked
