"""What the names in a recipe mean: a model's, and a benchmark's folder."""

import pytest

from schema.names import benchmark_labels, no_such_folder


@pytest.mark.parametrize("name", ["../x", "./x", ".x", "/x", "x/y/z", "recipes/x", "x y"])
def test_a_name_meant_as_a_folder_is_not_asked_of_the_hub(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipes").mkdir()
    assert no_such_folder(name).startswith(f"there is no folder {name}, and it is no Hub id")
    assert no_such_folder("someone/model") is None
    assert no_such_folder("gpt2") is None


def test_a_benchmark_named_twice_has_one_short_label():
    assert benchmark_labels(["gsm8k", "gsm8k"]) == ["gsm8k", "gsm8k"]
    first, second, third = benchmark_labels(["a/exam.csv", "b/exam.csv", "b/exam.csv"])
    assert len({first, second}) == 2
    assert second == third != "exam"
