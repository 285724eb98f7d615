"""Small stores made by hand: no training."""

import dataclasses

from plr.paper import Store, expand, get_preset
from plr.paper.execution import Fit, dump
from plr.paper.published import published_cells
from plr.paper.selection import EPOCH_RULES


def fill(folder, protocol, error_of, skip=()):
    """Finish all cells but some with ``error_of(cell, place of the setting, rule)``; None is a fit that diverged."""
    with Store.create(folder, protocol) as store:
        store.begin("plr benchmark --out <here> & 'there'")
        for cell in expand(protocol):
            if cell in skip:
                continue
            key = cell.key(protocol)
            assert store.claim(key)
            fits = []
            for place, setting in enumerate(cell.settings(protocol)):
                for rule in EPOCH_RULES:
                    error = error_of(cell, place, rule)
                    scores = (None,) * 4 if error is None else (error,) * 4
                    epoch, problem = (None, "the loss became nan") if error is None else (7, None)
                    fits.append(Fit(dump(setting), rule, epoch, *scores, problem))
            assert store.finish((key, fits, 1.5))
    return folder


def published_error(cell, place, rule):
    """Return the published mean, a little more or less in each trial, more for later settings and for one rule."""
    found = published_cells().get((cell.dataset, cell.model, cell.false_labels, cell.method))
    mean = 20.0 if found is None else found.mse
    shift = {"last": 1.0, "loss": 1.02, "evidence": 2.0, "truth": 0.98}[rule]
    return mean * shift * (1 + 0.01 * (cell.trial - 1) + 0.1 * place) * (2.0 - cell.fraction)


SMALL = dataclasses.replace(
    get_preset("paper"),
    datasets=("concrete", "housing"),
    sizes=(2, 4),
    trials=3,
    methods=("Supervised", "AVGL-MSE", "IDent", "PIDent", "Posterior"),
    learning_rates=(0.01,),
    beta2s=(10.0, 100.0),
    figure_fractions=(0.2, 0.6),
)
