"""The picture of a run, by the data that matplotlib is handed."""

from matplotlib.figure import Figure

from evaluation import pictures
from evaluation.statistics import wilson
from schema.configs import ACCURACY, EVAL_CORRECT, ZERO_VARIANCE


def test_curves_have_the_values_of_their_metrics(tmp_path, monkeypatch):
    figures = []
    save = Figure.savefig

    def savefig(figure, *arguments, **options):
        figures.append(figure)
        save(figure, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", savefig)
    keys = {
        "reward": ["reward"],
        "rewards, unweighted": ["rewards/a/mean", "rewards/b/mean"],
        "validation accuracy (n = 4)": [ACCURACY],
        "completion length (tokens)": ["completions/mean_length", "completions/max_length"],
        "truncated completions": ["completions/clipped_ratio"],
        "zero-variance groups": [ZERO_VARIANCE],
        "entropy (nats a token)": ["entropy"],
        "KL to the reference": ["kl"],
        "learning rate": ["learning_rate"],
    }
    all_keys = [key for names in keys.values() for key in names]
    values = {key: (0.01 * i, 0.5 + 0.01 * i) for i, key in enumerate(all_keys)}
    metrics = []
    for i, correct in enumerate(("0001", "0111")):
        metrics.append({"step": 10 * (i + 1)} | {key: values[key][i] for key in all_keys})
        metrics[-1][EVAL_CORRECT] = correct
    assert pictures.curves(tmp_path / "curves.png", metrics)
    panels = {axes.get_title(): axes for axes in figures[0].axes}
    assert panels.keys() == keys.keys()
    for title, names in keys.items():
        lines = panels[title].lines
        assert [list(line.get_xdata()) for line in lines] == [[10, 20]] * len(names), title
        assert [tuple(line.get_ydata()) for line in lines] == [values[key] for key in names], title
    legend = [text.get_text() for text in panels["rewards, unweighted"].get_legend().get_texts()]
    assert legend == ["a", "b"]
    legend = panels["completion length (tokens)"].get_legend().get_texts()
    assert [text.get_text() for text in legend] == ["mean", "longest"]
    [band] = panels["validation accuracy (n = 4)"].collections
    corners = {tuple(point) for point in band.get_paths()[0].vertices}
    bounds = {10: wilson(1, 4), 20: wilson(3, 4)}
    assert corners == {(step, bound) for step, pair in bounds.items() for bound in pair}
    assert not pictures.curves(tmp_path / "none.png", [{"step": 1}])
