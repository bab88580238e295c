"""`make trust`: a line of `.trusted` for each file, and one message where there is no such file."""

import shlex
import sys
from fnmatch import fnmatch

import pytest

from console.faults import RecipeError
from data import imports
from schema.recipe import load_recipe
from stages import frame
from stages.trust import main
from tests.stages.test_makefile import checkout, stages_run  # noqa: F401
from tests.support import ROOT
from tests.tables import cases


@pytest.fixture
def root(tmp_path, monkeypatch):
    """In place of the repository, whose own `.trusted` is the user's."""
    folder = tmp_path / "root"
    (folder / "a folder").mkdir(parents=True)
    for file in ("mine.py", "a folder/x.py", "words.txt", "../elsewhere.py", "line\nbreak.py"):
        (folder / file).write_text("def f(completions):\n    pass\n")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(imports, "ROOT", folder)
    monkeypatch.setattr(imports, "TRUSTED", folder / ".trusted")
    monkeypatch.delitem(sys.modules, "mine", raising=False)  # of another test
    return folder


def test_a_file_is_named_once_and_found_wherever_the_clone_lies(root, capsys):
    (root / "link.py").symlink_to("a folder/x.py")
    main(shlex.split("mine.py"))
    wanted = f"recipes may now run mine.py; to take it back, remove the line from {root}/.trusted\n"
    assert capsys.readouterr().out == wanted
    main(shlex.split("./mine.py link.py 'a folder/x.py' ../elsewhere.py"))
    expected = f"mine.py\na folder/x.py\n{root.parent}/elsewhere.py\n"
    assert (root / ".trusted").read_text() == expected
    capsys.readouterr()
    (root / "mine.yaml").touch()
    main(["mine.yaml"])
    assert capsys.readouterr().out.startswith(
        "mine.yaml may now send its runs to a tracker; to take it back, "
    )
    assert imports.is_trusted(root / "mine.yaml")
    assert imports.named_function("mine.f", "completions")


def test_an_image_has_what_git_tracks_and_no_key_and_no_data():
    patterns = (ROOT / ".dockerignore").read_text().splitlines()[1:]

    def is_ignored(name: str) -> bool:
        verdict = False
        for line in patterns:  # the last that matches decides
            if fnmatch(f"/{name}", f"/{line.lstrip('!').replace('**/', '*')}"):
                verdict = not line.startswith("!")
        return verdict

    for name in (".trusted", ".git/config", ".git/hooks/x", ".env", "wandb", "mine.csv", "outputs"):
        assert is_ignored(name), name
    assert not any(map(is_ignored, ["Makefile", "data/own.py", ".git/HEAD", ".git/refs"]))


def test_a_line_that_was_written_by_hand_stays(root):
    (root / ".trusted").write_text("old.py")  # without the end of a line
    main(shlex.split("mine.py"))
    assert (root / ".trusted").read_text() == "old.py\nmine.py\n"


@cases(__file__, "what_cannot_be_trusted_is_one_message")
def test_what_cannot_be_trusted_is_one_message(root, given, message):
    with pytest.raises(RecipeError) as refused:
        main(shlex.split(given))
    assert message in str(refused.value) and len(refused.value.faults) == 1
    assert not (root / ".trusted").exists()


def test_the_command_that_a_refusal_prints_trusts_those_files(root, stages_run):  # noqa: F811
    """Through the shell and make, whatever the names hold."""
    folder = root / "$(touch x) $$(shell touch x) 'y' \"z\""
    (root / "a folder").rename(folder)
    (folder / "__init__.py").touch()
    (root / "pack").symlink_to(folder)
    with pytest.raises(ImportError) as refused:
        imports.named_function("pack.x.f", "completions")
    command = str(refused.value).partition("read what is there: make ")[2]
    [[_, *files]] = stages_run(command)
    main(files)
    assert imports.named_function("pack.x.f", "completions")
    assert not (root / "x").exists()


def test_a_run_that_is_sent_elsewhere_says_so_first(tmp_path, monkeypatch, capsys):
    """wandb need not be there for that."""

    def enough():
        raise KeyboardInterrupt

    monkeypatch.setattr(frame, "require", lambda *given: None)
    monkeypatch.setattr(frame, "quiet_libraries", enough)
    given = [f"output_dir={tmp_path}", "sft.report_to=[tensorboard, wandb]"]
    with pytest.raises(KeyboardInterrupt):
        frame.train_stage("sft", load_recipe("recipes/tiny-arithmetic.yaml", given, check=()), None)
    assert capsys.readouterr().out.splitlines()[-1] == "sft: this run is sent to wandb"
