"""What a look at candidate sets came to, as figures and in words."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from plr.diagnosis.ambiguity import OutlyingValue, Relation, ValuePair
from plr.diagnosis.signal import CLEAR, Signal
from plr.priors.dependence import Dependence

__all__ = ["CANNOT_TELL", "ENOUGH_ROWS", "NOT_MEASURED", "Diagnosis"]

CANNOT_TELL = "cannot tell"
"""The verdict on data that does not say which candidates are true."""

NOT_MEASURED = "not measured"
"""What a fit says, which looks only for what makes it impossible to tell."""

ENOUGH_ROWS = 200
"""With fewer rows, a quick look that finds nothing in the features has perhaps only overlooked it."""

# A gain of so many times its error may be an accident; and a gain in log likelihood that is enough to begin with.
_FAINT, _GOOD = 1.5, 0.15
# From this lift on, values tell candidates apart where features say nothing: nearly all labels may be one value.
_BY_VALUE = 0.25
# Checked rows that are enough to learn from where false candidates depend on the features.
_ENOUGH_CHECKED = 20
_FEW_ROWS, _LEAST_MEASURED, _FEW_LABELLED = 50, 20, 0.02
_HEADLINES = {
    "fine": "Fine: a model can learn from this data.",
    "thin": "Thin: a model can be fitted, but check its answers.",
    CANNOT_TELL: "This data cannot tell you which candidates are true.",
    NOT_MEASURED: "Nothing was found that would make it impossible to learn from this data.",
}


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """What a look at candidate sets came to.

    Attributes
    ----------
    rows, candidates : int
    sizes : dict
        Least, median, mean and most candidates of a row, and how many rows have one.
    labelled_rows : int
        Rows that are as good as labelled: one candidate, or several within a hundredth of the spread of all.
    rows_with_duplicates, rows_all_equal : int
        Rows that name a value more than once; and those whose candidates are all the same value.
    all_alike : bool
        Whether all rows have the same candidates, and more than one.
    spread : float
        How far apart the middle nine tenths of all candidates are.
    ambiguity_degree : float
        The paper's γ, estimated: the largest probability that a certain false label comes with a true one. At 1 the two
        cannot be told apart.
    recurring_values : int
        How many values come in 20 rows or more; without any, γ goes by relations alone.
    together : tuple of ValuePair
        Values, and what comes with them most often.
    always_together : tuple of ValuePair
        Values that never come without each other.
    relations : tuple of Relation
        Ratios, differences, lines and digits that tie candidates of a row to each other.
    twins : Relation or None
        A relation by which every row has two candidates that fit equally well.
    further_twins : tuple of Relation
        More such relations, where a row has more than two candidates that do.
    telling_rows : int
        Of the rows that are as good as labelled, those that say which of the twins is true.
    odd_values : tuple of OutlyingValue
        Values that recur far from all others.
    has_prior : bool
        Whether candidates come with priors that make some likelier than others.
    plain : bool
        Whether features go with the candidates so plainly that a parabola through them shows it.
    signal : Signal or None
        What features say about which candidate is true; None where it could not be measured, or where a fit had no need
        to: there, it is measured only if nothing simpler shows that features say something.
    dependence : Dependence or None
        Whether false candidates depend on the features; None where that was not looked for.
    checked_rows : int
        Rows of several candidates of which the true one is known.
    has_score : bool
        Whether a match score makes some candidates likelier than others.
    """

    rows: int
    candidates: int
    sizes: dict[str, float]
    labelled_rows: int
    rows_with_duplicates: int
    rows_all_equal: int
    all_alike: bool
    spread: float
    ambiguity_degree: float
    recurring_values: int
    together: tuple[ValuePair, ...]
    always_together: tuple[ValuePair, ...]
    relations: tuple[Relation, ...]
    twins: Relation | None
    further_twins: tuple[Relation, ...]
    telling_rows: int
    odd_values: tuple[OutlyingValue, ...]
    has_prior: bool
    plain: bool
    signal: Signal | None
    dependence: Dependence | None = None
    checked_rows: int = 0
    has_score: bool = False

    @property
    def verdict(self) -> str:
        """Whether a model can find out which candidates are true: ``"fine"``, ``"thin"`` or ``"cannot tell"``.

        After a fit, which only looks for what makes it impossible, it may be ``"not measured"``.
        """
        return self._judge()[0]

    @property
    def tied(self) -> tuple[Relation, ...]:
        """The relations that tie candidates between which nothing in the data can tell; none where something can."""
        unresolved = self.twins is not None and not (self._can_tell_twins or self.dependent)
        return (self.twins, *self.further_twins) if self.twins is not None and unresolved else ()

    @property
    def dependent(self) -> bool:
        """Whether false candidates depend on the features, so that agreement with a model proves little."""
        return self.dependence is not None and self.dependence.found

    @property
    def headline(self) -> str:
        """The verdict in a sentence."""
        return _HEADLINES[self.verdict]

    def brief(self) -> dict[str, str]:
        """Return the verdict, the reason and the advice as plain values."""
        return {"verdict": self.verdict, "reason": self.reason, "advice": self.advice}

    @property
    def caution(self) -> str:
        """What to know about a model that was fitted to data that cannot tell; empty where it can."""
        if self.verdict != CANNOT_TELL:
            return ""
        found = f"{self.headline} {self.reason}"
        if self.tied:
            found += " The model has taken one of them: all its predictions and intervals may be those of the other."
        if self.dependent:
            found += " The model was fitted to the mean of each row's candidates."
        return f"{found} {self.advice}"

    @property
    def reason(self) -> str:
        """Why, in words."""
        return self._judge()[1]

    @property
    def advice(self) -> str:
        """What to do next, in words."""
        return self._judge()[2]

    def summary(self) -> str:
        """Return all of it in words."""
        return "\n".join([self.headline, self.reason, self.advice, "", *self._facts()])

    __str__ = summary

    def __repr__(self) -> str:
        return f"Diagnosis({self.rows} rows, verdict {self.verdict!r})"

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return {**self.brief(), **asdict(self)}

    @property
    def _weighed_by(self) -> str:
        """What makes some candidates likelier than others before any row is checked, in words; empty where nothing."""
        given = ("the priors" if self.has_prior else "", "the match score" if self.has_score else "")
        return " and ".join(filter(None, given))

    @property
    def _can_tell_twins(self) -> bool:
        return bool(self._weighed_by) or self.telling_rows >= _FEW_LABELLED * self.rows

    def _judge(self) -> tuple[str, str, str]:
        labelled = self.labelled_rows / self.rows
        signal = self.signal
        if self.spread == 0 and signal is None and labelled == 1 and self.rows >= _FEW_ROWS:
            return (
                CANNOT_TELL,
                "Nearly all candidates of all rows are the same value, so there is nothing to predict.",
                "Check that this is the right column.",
            )
        if self.dependent:
            return self._judge_dependent()
        if self.twins is not None and not self._can_tell_twins:
            return (
                CANNOT_TELL,
                f"In {self.twins.share:.0%} of the rows {self.twins.words}, and both follow from the features equally "
                "well: always taking the one or always the other fits the same.",
                "Label some rows for certain (one in twenty helps), or say how likely each candidate is (a prior).",
            )
        if self.all_alike and self.rows >= _FEW_ROWS and not self._weighed_by:
            return (
                CANNOT_TELL,
                "All rows have the same candidates, so nothing tells which of them goes with which features.",
                "Label some rows for certain, or say how likely each candidate is (a prior).",
            )
        if signal is None and self.rows >= _LEAST_MEASURED and self.spread > 0 and self.twins is None:
            return (
                NOT_MEASURED,
                "Features go with the candidates; how well they tell them apart was not measured."
                if self.plain
                else f"With {_counted(self.rows)} a quick look could not tell whether features say nothing.",
                "plr.check, or plr check, measures what features say.",
            )
        if signal is None and self.twins is None:
            return (
                "thin",
                f"With {_counted(self.rows)} nothing can be said about whether features tell the candidates apart.",
                "Collect more rows; some hundreds are a beginning.",
            )
        if signal is not None and not self.plain and signal.gain <= _FAINT * signal.gain_error:
            if signal.lift >= _BY_VALUE:
                return (
                    "thin",
                    "Features seem to say nothing about the true values, but some values are likelier than others.",
                    "Fit it, and trust no answer that you have not checked; more columns would help.",
                )
            if self.rows < ENOUGH_ROWS:
                return (
                    "thin",
                    "A quick look finds nothing that features say about the true values; with "
                    f"{_counted(self.rows)}, it may have overlooked it.",
                    "Fit it, and trust no answer that you have not checked; more rows or features would help.",
                )
            return (
                CANNOT_TELL,
                "Knowing the features of a row does not make its candidates any likelier: they seem to say nothing "
                "about the true values.",
                "Add columns that have to do with the value, or more rows; more fitting will not help.",
            )
        if labelled == 1:
            return (
                "fine",
                "Every row is as good as labelled, so this is ordinary regression.",
                "Fit it as it is.",
            )
        if self.twins is not None:
            labelled_rows = f"{_counted(self.telling_rows, 'row that is', 'rows that are')} as good as labelled"
            held = self._weighed_by or labelled_rows
            return (
                "thin",
                f"In {self.twins.share:.0%} of the rows {self.twins.words}, and only {held} can tell which is true.",
                "Fit it, and compare some answers with what you know for certain.",
            )
        assert signal is not None
        found = (
            f"Features say something about the true values: on rows it had not seen, a quick estimate expects to be "
            f"right in {signal.expected_right:.0%} of the rows with several candidates (by chance {signal.chance:.0%})"
        )
        if signal.gain < CLEAR * signal.gain_error:
            return (
                "thin",
                "Features go with the candidates, but a quick estimate cannot make much of it."
                if self.plain
                else "If features say anything about the true values, so little that a quick look may be mistaken.",
                "Fit it, and trust no answer that you have not checked; more rows or features would help.",
            )
        if signal.gain < _GOOD or signal.lift < 0.1 or self.rows < _FEW_ROWS:
            return (
                "thin",
                f"{found}, which is little to begin with.",
                "Fit it, look at the probabilities, and trust those near 1 only; more rows or features would help.",
            )
        return "fine", f"{found}; a fitted model does better.", "Fit it: plr fit, or PartialLabelRegressor().fit(X, S)."

    def _judge_dependent(self) -> tuple[str, str, str]:
        alike = "the candidates of a row are alike, and those near what other rows predict do not stand out"
        if self.twins is not None:
            share = f"{self.twins.share:.0%}"
            alike = f"in {share} of the rows {self.twins.words}, and both follow from the features equally well"
        found = f"False candidates depend on the features: {alike}, so that agreement with a model proves little"
        advice = (
            f"Look up the true labels of {_ENOUGH_CHECKED} to 50 rows, drawn at random or chosen by review, and give "
            "them as known, with NaN elsewhere (at the command line, --known): they teach what makes a candidate "
            "believable. Features of the candidates, such as a match score, or a prior make them count for more."
        )
        if not (self.checked_rows or self._weighed_by):
            return CANNOT_TELL, f"{found}.", advice
        checked = _counted(self.checked_rows, "checked row", "checked rows")
        held = checked if self.checked_rows else self._weighed_by
        reason = f"{found}; which are true is learned from {held}."
        if self.checked_rows >= _ENOUGH_CHECKED:
            return "fine", reason, "Fit it with the known labels; checking more rows helps where probabilities are low."
        return "thin", reason, advice

    def _facts(self) -> list[str]:
        sizes = self.sizes
        lines = [
            f"{_counted(self.rows)} with {self.candidates:,} candidates: {sizes['least']:g} to {sizes['most']:g} a "
            f"row, {sizes['mean']:.2f} on average; {_counted(int(sizes['one']), 'row has', 'rows have')} one.",
            f"As good as labelled: {_counted(self.labelled_rows)} ({self.labelled_rows / self.rows:.0%}), with one "
            "candidate or several that are nearly equal.",
        ]
        stated = None
        degree = f"Ambiguity degree about {self.ambiguity_degree:.2f} of 1"
        if self.always_together:
            pair = self.always_together[0]
            lines.append(f"{degree}: {pair.value:g} and {pair.other:g} always come together ({pair.rows} rows).")
        elif tie := next((relation for relation in self.relations if relation.kind != "digit"), None):
            stated = tie
            lines.append(
                f"{degree}: in {tie.share:.0%} of the rows with several candidates {tie.words} "
                f"(by chance {tie.by_chance:.0%})."
            )
        elif self.together:
            pair = self.together[0]
            lines.append(
                f"{degree}: {pair.value:g} and {pair.other:g} share {pair.share:.0%} of the rows with the commoner."
            )
        else:
            lines.append(f"{degree}: no two values come together time and again.")
        lines += [
            f"In {relation.share:.0%} of {'the pairs' if relation.kind == 'digit' else 'these rows'} {relation.words} "
            f"(by chance {relation.by_chance:.0%})."
            for relation in self.relations
            if relation is not stated
        ]
        if self.rows_all_equal:
            named = _counted(self.rows_all_equal, "row names", "rows name")
            lines.append(f"{named} one value several times and nothing else.")
        elif self.rows_with_duplicates:
            named = _counted(self.rows_with_duplicates, "row names", "rows name")
            lines.append(f"{named} a value more than once; it counts as often.")
        lines += [
            f"{odd.value:g} comes {odd.rows} times and lies far from all else: does it stand for a missing value?"
            for odd in self.odd_values
        ]
        if self.dependence is not None and self.dependence.explained is not None:
            explained = max(self.dependence.explained, 0.0)
            lines.append(
                f"Candidates of a row are alike (intraclass correlation {self.dependence.correlation:.2f}); believing "
                f"those near predictions takes away {explained:.0%} of the spread within rows."
            )
        if self.checked_rows:
            lines.append(f"The true candidate is known in {_counted(self.checked_rows)} with several candidates.")
        if self.signal is not None:
            signal = self.signal
            part = f", measured on {signal.rows:,} rows drawn at random" if signal.rows < self.rows else ""
            lines.append(
                "Gain in log likelihood by knowing a row's features: "
                f"{signal.gain:.3f} ± {signal.gain_error:.3f}{part}."
            )
            if self.sizes["most"] > 1:
                lines.append(
                    f"At this first glance, {signal.sure:.0%} of the rows with several candidates have one with a "
                    "probability of 0.8 or more."
                )
        return lines


def _counted(rows: int, one: str = "row", several: str = "rows") -> str:
    return f"{rows:,} {one if rows == 1 else several}"
