"""The pictures, by the data that matplotlib is handed."""

import pytest

from evaluation import pictures
from evaluation.statistics import wilson
from schema.configs import ACCURACY, RIGHT, WITHOUT_SIGNAL


@pytest.fixture
def drawn(monkeypatch) -> list:
    """The figures that are drawn; none is written."""
    figures = []
    monkeypatch.setattr(pictures, "save", lambda figure, *_: figures.append(figure))
    return figures


def test_curves_have_the_values_of_their_metrics(drawn):
    keys = {
        "reward": ["reward"],
        "rewards, unweighted": ["rewards/a/mean", "rewards/b/mean"],
        "held-out accuracy (n = 4)": [ACCURACY],
        "completion length (tokens)": ["completions/mean_length", "completions/max_length"],
        "truncated completions": ["completions/clipped_ratio"],
        "groups without signal": [WITHOUT_SIGNAL],
        "entropy (nats a token)": ["entropy"],
        "KL to the reference": ["kl"],
        "learning rate": ["learning_rate"],
    }
    all_keys = [key for names in keys.values() for key in names]
    values = {key: (0.01 * i, 0.5 + 0.01 * i) for i, key in enumerate(all_keys)}
    metrics = []
    for i, right in enumerate(("0001", "0111")):
        metrics.append({"step": 10 * (i + 1)} | {key: values[key][i] for key in all_keys})
        metrics[-1][RIGHT] = right
    assert pictures.curves("unused", metrics)
    panels = {axes.get_title(): axes for axes in drawn[0].axes}
    assert panels.keys() == keys.keys()
    for title, names in keys.items():
        lines = panels[title].lines
        assert [list(line.get_xdata()) for line in lines] == [[10, 20]] * len(names), title
        assert [tuple(line.get_ydata()) for line in lines] == [values[key] for key in names], title
    legend = [text.get_text() for text in panels["rewards, unweighted"].get_legend().get_texts()]
    assert legend == ["a", "b"]
    legend = panels["completion length (tokens)"].get_legend().get_texts()
    assert [text.get_text() for text in legend] == ["mean", "longest"]
    [band] = panels["held-out accuracy (n = 4)"].collections
    corners = {tuple(point) for point in band.get_paths()[0].vertices}
    bounds = {10: wilson(1, 4), 20: wilson(3, 4)}
    assert corners == {(step, bound) for step, pair in bounds.items() for bound in pair}
    assert not pictures.curves("unused", [{"step": 1}])


def test_bars_are_accuracies_with_their_intervals(drawn):
    groups = [("all", 9, [(0.5, (0.4, 0.7)), (0.25, (0.2, 0.5))])]
    pictures.accuracies("unused", "sums", ["base", "grpo"], groups)
    [axes] = drawn[0].axes
    base, grpo = [container for container in axes.containers if len(container) == 1]
    assert (base[0].get_height(), grpo[0].get_height()) == (0.5, 0.25)
    assert (base.get_label(), grpo.get_label()) == ("base", "grpo")
    assert base[0].get_x() < grpo[0].get_x()
    intervals = []
    for bars in (base, grpo):
        [segment] = bars.errorbar[2][0].get_segments()
        intervals.append(tuple(segment[:, 1]))
    assert intervals == [pytest.approx((0.4, 0.7)), pytest.approx((0.2, 0.5))]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["all\nn = 9"]


def test_a_histogram_has_the_numbers_of_its_bins(drawn):
    pictures.histogram("unused", "pass rates", [("0 of 1", 3), ("1 of 1", 5)])
    [axes] = drawn[0].axes
    assert [bar.get_height() for bar in axes.patches] == [3, 5]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0 of 1", "1 of 1"]
