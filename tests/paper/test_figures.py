"""Figures: drawn from what is there, the same bytes each time, told apart without colour."""

import builtins
import sys

import pytest

from plr.errors import DependencyError
from plr.paper.figures import draw_fractions, draw_sizes, look_of, require_matplotlib, to_png, to_svg
from plr.paper.methods import METHODS


def row(method, size, error, **more):
    return {
        "dataset": "concrete",
        "model": "mlp",
        "method": method,
        "false_labels": size,
        "fraction": 1.0,
        "test_mse": error,
        "test_mse_std": 1.0,
        "published_mse": 41.0,
        **more,
    }


TABLE = [
    row("Supervised", 0, 36.0),
    *(row("IDent", size, 40.0 + size) for size in (2, 4, 8, 16)),
    row("PIDent", 2, None),
]
FRACTIONS = [
    row(method, 2, 40.0 / share, fraction=share) for method in ("IDent", "PIDent") for share in (0.2, 0.6, 1.0)
]


def test_sizes_has_a_panel_for_each_data_set_and_a_legend():
    figure = draw_sizes([*TABLE, row("IDent", 2, 9.0, dataset="housing")], "mlp")
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["Housing", "Concrete", ""]
    labels = [text.get_text() for text in figure.axes[2].get_legend().get_texts()]
    assert labels == ["Supervised", "IDent", "published"]


def test_fractions_has_a_panel_for_each_data_set_and_size():
    figure = draw_fractions([*FRACTIONS, *({**row, "false_labels": 4} for row in FRACTIONS)])
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["Concrete, |S̄| = 2", "Concrete, |S̄| = 4"]


def test_nothing_to_draw_is_no_figure():
    assert draw_fractions(TABLE) is None
    assert draw_sizes(TABLE, "linear") is None
    assert draw_sizes([row("IDent", None, 3.0)], "mlp") is None
    assert draw_fractions([]) is None


def test_same_numbers_same_bytes():
    for save in (to_svg, to_png):
        assert save(draw_sizes(TABLE, "mlp")) == save(draw_sizes(TABLE, "mlp"))
    svg = to_svg(draw_sizes(TABLE, "mlp")).decode()
    assert "<dc:date>" not in svg
    assert "Concrete" in svg


def test_methods_differ_without_colour():
    names = [*METHODS, "a", "b", "c"]
    looks = [look_of(name, names) for name in names]
    assert len({look.marker for look in looks}) == len(looks)


def test_missing_matplotlib_names_the_extra(monkeypatch):
    monkeypatch.delitem(sys.modules, "matplotlib", raising=False)
    real = builtins.__import__

    def without(name, *arguments, **options):
        if name.partition(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(DependencyError, match=r'pip install "plr\[report\]"'):
        require_matplotlib()
