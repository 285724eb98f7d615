"""The sections of the page of a model."""

from __future__ import annotations

import numpy as np

from plr.identification import DOUBTFUL, SETTLED
from plr.report.charts import shown
from plr.report.facts import Checks, Facts, half_width
from plr.report.html import Markup, element, join
from plr.report.importance import Importance
from plr.report.model_charts import (
    candidates_chart,
    coverage_chart,
    doubt_bar,
    importance_bars,
    probability_chart,
    reliability_chart,
    rounds_chart,
    stages_bars,
    truth_chart,
)
from plr.report.model_made import made
from plr.report.model_page import ModelContent
from plr.report.model_table import rows_section
from plr.report.truths import NEVER_AMONG, promises_too_much

__all__ = ["sections_of"]


def sections_of(content: ModelContent) -> list[tuple[str, str, Markup]]:
    """Return the name, title and content of each section that there is something for."""
    found = [("summary", "In short", summary(content))]
    if content.rows is not None:
        found.append(("candidates", "Predictions and candidates", predictions(content)))
    found.append(("training", "How it found out", training(content)))
    found.append(("belief", "How far to believe it", belief(content)))
    if content.rows is not None:
        found.append(("rows", "The rows, the most doubtful first", rows(content)))
    if content.importance is not None:
        found.append(("importance", "What the prediction hangs on", importance(content.importance)))
    found.append(("made", "What was done, and how to repeat it", made(content)))
    return found


def summary(content: ModelContent) -> Markup:
    """Return the headline figures and what to do next."""
    facts = content.facts
    cards = [] if facts is None else _row_cards(facts)
    cards.append(_distance_card(content))
    if facts is not None and facts.checks is not None:
        cards.append(_truth_card(facts.checks, content))
    caution = "" if content.model.diagnosis_ is None else content.model.diagnosis_.caution
    verdict = [element("p", element("strong", "Caution: "), caution, class_="caution")] if caution else []
    return join([*verdict, _lead(content, facts), element("div", *cards, class_="cards"), _next_steps(content, facts)])


def _lead(content: ModelContent, facts: Facts | None) -> Markup:
    if facts is None:
        words = (
            "This file holds a model and nothing about single rows. Name a table with --data, and the page shows its "
            "rows and what the model says about them."
        )
        return element("p", words, class_="lead")
    rows = f"{facts.rows:,} rows of {content.source}" if content.source else f"{facts.rows:,} rows"
    if not facts.several:
        return element("p", f"{rows}, each with one candidate: there was nothing to identify.", class_="lead")
    sure = facts.counts["settled"]
    which = "were shown to it after training" if content.new else "it was trained on"
    words = (
        f"{content.predicted} Of the {rows} that {which}, {facts.several:,} have several candidates, "
        f"of which one is true. It is settled which for {sure:,} of them ({sure / facts.several:.0%})."
    )
    return element("p", words, class_="lead")


def _card(title: str, number: str, *words: str) -> Markup:
    lines = [element("p", part, class_="muted") for part in words if part]
    return element("div", element("p", title), element("p", number, class_="number"), *lines)


def _row_cards(facts: Facts) -> list[Markup]:
    cards = [
        _card(
            "Rows",
            f"{facts.rows:,}",
            f"{facts.several:,} with several candidates; {facts.candidates:.3g} candidates a row on average",
        )
    ]
    if facts.several:
        title = element("p", "Rows with several candidates")
        cards.append(
            element(
                "div",
                title,
                element(
                    "p", f"{facts.counts['doubtful']:,} ", element("span", "in doubt", class_="unit"), class_="number"
                ),
                doubt_bar(facts),
            )
        )
        assert facts.expected is not None
        assert facts.chance is not None
        cards.append(
            _card(
                "Choices that should be right",
                f"{facts.expected:.0%}",
                f"about {facts.expected * facts.several:,.0f} of {facts.several:,}, by the model's own probabilities; "
                f"guessing would give {facts.chance:.0%}",
            )
        )
    return cards


def _distance_card(content: ModelContent) -> Markup:
    calibration, noise = content.model.calibration_, content.model.noise_scale_
    half, most = half_width(calibration, 0.5), half_width(calibration, 0.9)
    if half is None or most is None:
        return _card(
            "Typical distance", f"±{shown(noise)}", "how far true values scatter around predictions, estimated"
        )
    unit = ", times the row's own noise" if calibration is not None and calibration.by_row else ""
    return _card(
        "Nine of ten true values are within",
        f"±{shown(most)}",
        f"of the prediction{unit}, and half of them within ±{shown(half)}; measured on candidate sets alone",
    )


def _truth_card(checks: Checks, content: ModelContent) -> Markup:
    kind = "new" if content.new else "training"
    rows = f"{checks.rows:,} {kind} rows have a known true value"
    errors = f"root mean squared error {shown(checks.rmse)}" + ("" if checks.r2 is None else f", R² {checks.r2:.3f}")
    if checks.right is None:
        why = "" if checks.judged else f"choices {NEVER_AMONG}"
        return _card("Against the truth", f"±{shown(checks.mae)}", f"mean absolute error; {errors}", rows, why)
    judged = f"of {checks.several:,} rows with several candidates that have the true value among them; {rows}"
    return _card("Choices that are right in fact", f"{checks.right:.0%}", judged, errors)


def _next_steps(content: ModelContent, facts: Facts | None) -> Markup:
    steps: list[str] = []
    if facts is not None and facts.several:
        doubtful = facts.counts["doubtful"]
        if doubtful:
            link = element("a", "the rows in doubt", href="#rows")
            steps.append(
                join(
                    [
                        "Look at ",
                        link,
                        f", all {doubtful:,} of them or the first few: each that a person can settle, by leaving "
                        "only the right candidate in the data, helps the others too.",
                    ]
                )
            )
        wrong = (
            facts.checks is not None
            and facts.checks.right is not None
            and promises_too_much(facts.expected or 0.0, facts.checks.right, facts.checks.several)
        )
        if wrong:
            steps.append(
                "The choices are right far less often than their probabilities say, as the known true values show: do "
                "not take them as labels."
            )
        diagnosis = content.model.diagnosis_
        if diagnosis is not None and diagnosis.caution:
            steps.append(diagnosis.advice)
        elif doubtful > facts.several / 2:
            steps.append(
                "Most rows cannot be told. See with plr check whether this data can tell at all; other columns, or "
                "fewer candidates, might help."
            )
        if not doubtful and not wrong and not (diagnosis is not None and diagnosis.caution):
            steps.append("No row is left in doubt: the likeliest candidates can be taken as labels.")
    if content.rows is not None and not (content.rows.unseen or content.new):
        steps.append(
            "The probabilities here are by the model itself, which has seen these rows, and may be too sure. "
            "plr fit with --identified OUT asks models that have not."
        )
    if facts is None or facts.checks is None:
        steps.append(
            "Where some true values are known, put them into a column and name it with --truth: this page, with --data "
            "DATA, and plr evaluate then say how good the model really is."
        )
    if content.model.calibration_ is None:
        steps.append("Intervals were not prepared. plr fit does so unless told not to with --no-intervals.")
    return element(
        "div", element("h3", "What to do next"), element("ul", *(element("li", step) for step in steps)), class_="next"
    )


def predictions(content: ModelContent) -> Markup:
    """Return candidates over predictions."""
    rows = content.rows
    assert rows is not None
    drawn, many = candidates_chart(rows, content.half, content.label)
    part = f"{many:,} of {rows.total:,} rows, drawn at random" if many < rows.total else "all rows"
    band = " The band holds nine of ten true values." if content.half is not None else ""
    keys = [
        ("settled", "likeliest candidate, settled"),
        ("likely", "likely"),
        ("doubtful", "in doubt"),
        ("other", "other candidates"),
    ]
    legend = element(
        "ul",
        *(element("li", element("span", "", class_=f"key {kind}"), words) for kind, words in keys),
        class_="legend",
    )
    caption = (
        f"Each row stands over the value predicted for it, with all its candidates above one another ({part}). Where "
        f"the model is right, the likeliest candidates lie along the diagonal and the others anywhere.{band}"
    )
    first = element("figure", element("div", drawn, legend, class_="panel"), element("figcaption", caption))
    if rows.truth is None or not np.isfinite(rows.truth).any():
        return element("div", first, class_="wide")
    other = element(
        "figure",
        element("div", truth_chart(rows, content.label), class_="panel"),
        element("figcaption", "The same with the true values, where they are known." + _seen(content)),
    )
    return element("div", first, other, class_="pair")


def _seen(content: ModelContent) -> str:
    if content.new or content.rows is None:
        return ""
    if content.rows.unseen_prediction and content.rows.unseen:
        return " Each row was predicted by models that were not fitted to it."
    return " The model has seen these rows, which flatters it."


def training(content: ModelContent) -> Markup:
    """Return how the weights of the candidates became sharper."""
    parts: list[str] = []
    rows, report = content.trained if content.new else content.rows, content.model.model_.report
    if rows is not None and rows.several.any():
        who = "by models that have not seen the row" if rows.unseen else "by the model itself"
        parts += [
            element(
                "p",
                f"In the beginning all candidates of a row count alike, or as the prior says. Training shifts the "
                f"weight to those that agree with what other rows say. A row counts as settled from a probability of "
                f"{SETTLED} on, and as in doubt below {DOUBTFUL}; the last bar is {who}.",
            ),
            element("div", stages_bars(rows), class_="wide"),
        ]
    charts = [
        (
            report.noise_scale,
            "Noise scale",
            "noise scale",
            "How far true values seem to scatter around the predictions. It shrinks as false ones lose their say.",
        ),
        (
            report.movement,
            "Moved weight",
            "share of weight moved",
            "Which share of the weight each round moved to other candidates. Near zero, nothing changes any more.",
        ),
        (report.loss, "Loss", "loss", "The loss that is minimised."),
    ]
    figures = [
        element(
            "figure",
            element("div", rounds_chart(np.asarray(values), title, label), class_="panel"),
            element("figcaption", element("strong", f"{title}. "), words),
        )
        for values, title, label, words in charts
        if len(values) > 1 and np.isfinite(values).all()
    ]
    if figures:
        parts += [element("h3", "Round by round"), element("div", *figures, class_="pair")]
        if hasattr(content.model.model_, "process"):
            parts.append(
                element(
                    "p",
                    "These rounds are those of the boosted trees, which begin where the Gaussian process ended.",
                    class_="muted",
                )
            )
    if not parts:
        parts.append(element("p", "The model was fitted in one go, and there are no rounds to show."))
    return join(parts)


def belief(content: ModelContent) -> Markup:
    """Return what can be said about probabilities and intervals, with and without the truth."""
    figures: list[Markup] = []
    words: list[Markup] = []
    facts, rows = content.facts, content.rows
    checks = None if facts is None else facts.checks
    if facts is not None and rows is not None and facts.several:
        assert facts.expected is not None
        caption = (
            f"How sure the choices are. If the probabilities can be believed, {facts.expected:.0%} of the choices are "
            f"right, and {1 - facts.expected:.0%} wrong."
        )
        figures.append(_figure(probability_chart(rows), caption))
    if checks is not None and checks.reliability:
        caption = (
            f"Of candidates with a probability of 80 %, about 80 % should be true: dots on the diagonal. Here the two "
            f"are apart by {checks.calibration_error:.3f} on average. Larger dots stand for more candidates."
        )
        figures.append(_figure(reliability_chart(checks), caption + _seen(content)))
    elif checks is not None and facts is not None and facts.several:
        words.append(element("p", f"Whether the probabilities are right {NEVER_AMONG}."))
    elif facts is not None and facts.several:
        words.append(
            element(
                "p",
                "Whether the probabilities are right cannot be seen without true values. What can be seen is how sure "
                "the model is, and how far candidates are from predictions of models that do not know them.",
            )
        )
    calibration = content.model.calibration_
    if calibration is not None:
        caption = (
            f"How far true values are from predictions, learned from {calibration.rows:,.0f} candidate sets, each "
            "against a model fitted without it. It is measured, not guaranteed; a standard error is taken off, to be "
            "careful."
        )
        lower = content.model.learner_.effort_of_folds(content.model.model_)
        if lower is not None:
            caption += f" These models are fitted with less effort than the one here: {lower}."
        if checks is not None and checks.covered is not None:
            caption += f" Of the true values known here, {checks.covered:.1%} are within their 90 % interval."
        figures.append(_figure(coverage_chart(calibration, content.label), caption))
    if not figures and not words:
        words.append(element("p", "Nothing in the file tells: no rows, and no intervals. Name a table with --data."))
    return join([*words, element("div", *figures, class_="pair")])


def _figure(drawn: Markup, caption: str) -> Markup:
    return element("figure", element("div", drawn, class_="panel"), element("figcaption", caption))


def rows(content: ModelContent) -> Markup:
    """Return the table of rows."""
    found = content.rows
    assert found is not None
    words = [
        "Each row's candidates on one line, the larger the likelier, the likeliest in colour. The upright stroke is "
        "the prediction" + (", the band its 90 % interval." if content.half is not None else ".")
    ]
    if len(found) < found.total:
        words.append(
            f" Of {found.total:,} rows, {len(found):,} are here: the most doubtful, and a sample of the others. Counts "
            "on this page are estimated from them."
        )
    if (found.given > found.sizes).any():
        words.append(f" Of sets with very many candidates, the {int(found.sizes.max())} likeliest are shown.")
    words.append(" Rows are counted from 0.")
    return join([element("p", *words), rows_section(found, content.half, content.label, content.target)])


def importance(found: Importance) -> Markup:
    """Return which columns matter most."""
    shown_columns = min(len(found.names), 20)
    words = (
        f"Each column was shuffled among {found.rows:,} rows in turn, the others left as they are; the bar is how far "
        f"predictions move on average. It says what the model looks at, not what causes what, and columns that say the "
        f"same share their importance."
    )
    more = (
        []
        if shown_columns == len(found.names)
        else [element("p", f"The {shown_columns} most important of {len(found.names):,} columns.", class_="muted")]
    )
    return join([element("p", words), *more, importance_bars(found)])
