"""What a model's name in a recipe means."""

import pytest

from schema.names import no_such_folder


@pytest.mark.parametrize("name", ["../x", "./x", ".x", "/x", "x/y/z", "recipes/x", "x y"])
def test_a_name_meant_as_a_folder_is_not_asked_of_the_hub(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipes").mkdir()
    assert no_such_folder(name).startswith(f"there is no folder {name}, and it is no Hub id")
    assert no_such_folder("someone/model") is None
    assert no_such_folder("gpt2") is None
