"""The page of `make view`: what stands in the file, and where the file stands."""

import json
import os
import re
import shutil
import webbrowser
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from console.terminal import UNSEEN
from runs import state
from runs.state import RunState
from stages import view
from tests import made_runs
from tests.support import ROOT, far_below_quadratic, refused, run_stage, write_lines
from tests.tables import cases, lacking
from tests.viewer.browser import data, data_of
from viewer import page, runs
from viewer.callback import WritePage


def test_it_holds_all_that_it_shows(tmp_path):
    answers = data(made_runs.run(tmp_path / "a"), made_runs.run(tmp_path / "b", hostile=True))
    assert [run["finished"] for run in answers["runs"]] == [True, True]
    assert answers["0/curves"]["step"] == [1, 2, 3, 4]
    assert answers["0/groups"]["of"] == len(answers["0/groups"]["groups"]) == 12
    assert len(answers["1/group/1/0"]["rows"]) == 8
    assert answers["0/changed/validation/sft/grpo"]["counts"]["won"] == 1
    assert answers["0/pair/validation/base/sft/3"]["answers"][1]["text"] == "sft says 3"


def test_nothing_in_it_breaks_out_or_is_loaded(tmp_path):
    run = made_runs.run(tmp_path, hostile=True)
    made_runs.evaluation(tmp_path / "eval/<!--<script>", hostile=True)
    text = page.standalone_page([RunState.read(run)])
    # What ends a script element early, or begins a comment in it, stands only where the page itself
    # has it.
    scripts = "".join(map(page.asset, page.SCRIPTS))
    assert "</script" not in scripts and "<!--" not in scripts
    assert len(re.findall("</script", text, re.I)) == len(page.SCRIPTS) + 1
    assert "<!--" not in text
    data_line = re.search('id="answers">(.*?)</script>', text, re.S)[1]
    assert data_line.isascii() and "<" not in data_line
    assert not any(words in text for words in made_runs.HOSTILE if "<" in words)
    answers = data_of(text)
    assert answers["0/group/1/0"]["rows"][2]["text"] == made_runs.HOSTILE[2]
    assert answers["0/group/1/0"]["rows"][4]["length"] == 1_000_000
    assert answers["0/pair/validation/sft/grpo/0"]["answers"][0]["text"] == made_runs.HOSTILE[2]
    assert not re.search(r'(?:src|href)="(?!data:|#)', text)
    assert "default-src 'none'" in text


def test_half_a_character_and_a_line_separator_are_text(tmp_path):
    run = made_runs.run(tmp_path)
    answers = tmp_path / "eval/validation/grpo.jsonl"
    made_runs.replace_text(answers, "grpo says 0", "\\ud800 \u2028 \u2029")
    text = page.standalone_page([RunState.read(run)])
    assert "\u2028" not in text and text.encode("utf-8")
    written = data_of(text)
    assert written["0/pair/validation/sft/grpo/0"]["answers"][1]["text"] == "\ud800 \u2028 \u2029"
    assert written["0/results"][0]["models"]


def test_it_names_no_folder_above_the_run(tmp_path, monkeypatch):
    """Neither in a path of its own nor at the start of a line."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    run = made_runs.run(tmp_path)
    made_runs.replace_text(run / "recipe.yaml", "seed: 1", "seed: 1\noutput_dir: /data/ann/x")
    lines = f"see\n{tmp_path}/home/customer/data.csv and {run}/a.txt"
    made_runs.change_table(run, 1, lambda frame: frame.assign(completion=lines))
    text = page.standalone_page([RunState.read(run)])
    assert "/data/ann" not in text and str(tmp_path) not in text and "customer" in text
    answers = data_of(text)
    written = "see\ncustomer/data.csv and " + f"{tmp_path.name}/grpo/a.txt"
    assert answers["0/group/1/0"]["rows"][0]["text"] == written


def test_what_cannot_be_read_hides_nothing_else(tmp_path):
    run = made_runs.run(tmp_path)
    (run / made_runs.TABLE.format(1)).write_bytes(b"torn")
    made_runs.replace_text(tmp_path / "eval/validation/sft.jsonl", '"tokens": 5', '"token": 5')
    answers = data(run)
    assert "completions_00001.parquet cannot be read" in answers["0/groups"]["why"]
    assert "0/group/2/0" in answers
    assert (
        "sft.jsonl is not what an evaluation wrote"
        in answers["0/changed/validation/base/sft"]["error"]
    )
    assert answers["0/changed/validation/base/grpo"]["counts"]["won"] == 2
    made_runs.replace_text(tmp_path / "eval/validation/sft.jsonl", '"token": 5', '"tokens": 5')
    grpo = tmp_path / "eval/validation/grpo.jsonl"
    made_runs.replace_text(grpo, '"truncated": false', '"cut": false')
    [result] = data(run)["0/results"]
    assert "is not what an evaluation wrote" in result["why"]


def test_the_recipe_is_parsed_once(tmp_path, monkeypatch):
    run = made_runs.run(tmp_path)
    parsed = []

    def saved(file: Path) -> dict:
        parsed.append(file)
        return {"rewards": {"correct_answer": {}, "format_tags": {}}, "grpo": {}}

    monkeypatch.setattr(state, "saved", saved)
    assert data(run)["0/groups"]["of"] == 12
    assert parsed == [run / "recipe.yaml"]


def test_spaces_without_end_are_read_in_time(tmp_path):
    run = made_runs.run(tmp_path)
    made_runs.change_table(run, 1, lambda frame: frame.assign(completion=" " * 300_000))
    with far_below_quadratic():
        assert data(run)["0/group/1/0"]["rows"][0]["flags"] == []


def test_of_a_large_run_it_holds_an_even_sample_and_says_so(tmp_path, monkeypatch):
    run = made_runs.run(tmp_path, steps=40, groups=20, size=2)
    made_runs.same_questions(run, dict.fromkeys(range(1, 41), 1))
    whole = data(run)["0/groups"]
    assert whole["of"] == len(whole["groups"]) == 40 * 20 + 40 * 8
    monkeypatch.setattr(page, "LARGEST", 200_000)
    text = page.standalone_page([RunState.read(run)])
    assets = sum(len(page.asset(name)) for name in (*page.SCRIPTS, *page.STYLES))
    assert 150_000 < len(text) - assets < 230_000
    answers = data_of(text)
    groups = answers["0/groups"]["groups"]
    assert answers["0/groups"]["of"] == whole["of"]
    assert sum(key.startswith("0/group/") for key in answers) == len(groups)
    trained = [group["group"] for group in groups if group["group"] >= 0 and group["step"] == 1]
    assert trained == [0, 3, 5, 8, 11, 14, 16, 19]  # of 20, evenly
    for is_repeated in (False, True):
        steps = sorted({group["step"] for group in groups if (group["group"] < 0) == is_repeated})
        distances = {after - before for before, after in pairwise(steps)}
        assert (steps[0], steps[-1]) == (1, 40)
        assert 3 < len(steps) < 40 and max(distances) - min(distances) <= 1


def test_of_a_large_evaluation_it_holds_what_was_won_and_lost_first(tmp_path, monkeypatch):
    run = made_runs.run(tmp_path)
    for label in ("base", "sft", "grpo"):
        file = tmp_path / f"eval/validation/{label}.jsonl"
        settings, *lines = map(json.loads, file.read_text().splitlines())
        more = [lines[3] | {"id": number, "completion": "x" * 5000} for number in range(4, 100)]
        write_lines(file, [settings, *lines, *more])
    monkeypatch.setattr(page, "LARGEST", 500_000)
    answers = data(run)
    rows = answers["0/changed/validation/sft/grpo"]["rows"]
    assert [row["kind"] for row in rows[:2]] == ["won", "lost"] and 2 < len(rows) < 20
    assert rows[-1]["id"] == 99
    assert sum(answers["0/changed/validation/sft/grpo"]["counts"].values()) == 100
    for row in rows:
        assert f"0/pair/validation/sft/grpo/{row['id']}" in answers


def test_of_many_steps_the_curves_have_an_even_sample(tmp_path, monkeypatch):
    run = made_runs.run(tmp_path)
    lines = [{"step": step, "reward": 1.0, "seconds/update": 2.0} for step in range(1, 101)]
    lines.insert(50, {"step": 50, "eval_rewards/correct_answer/mean": 0.5, "eval_correct": "01"})
    write_lines(run / "metrics.jsonl", lines)
    monkeypatch.setattr(runs, "MOST_NUMBERS", 60)
    curves = data(run)["0/curves"]
    assert curves["step"][0] == 1 and curves["step"][-1] == 100 and 50 in curves["step"]
    assert len(curves["step"]) < 15 and sum(curves["seconds/update"]) == 200


@cases(__file__, "mistakes")
def test_a_mistake_is_one_message(tmp_path, arguments, names):
    run = made_runs.run(tmp_path)
    message = refused("view", *(word.format(run=run) for word in arguments))
    assert len(message.strip().splitlines()) == 1
    assert lacking(names, message) == []


@pytest.mark.parametrize("stage", ["view", "report", "compare"])
def test_a_run_that_rloo_trained_is_left_to_the_version_that_trained_it(stage, tmp_path):
    run = made_runs.run(tmp_path / "old")
    made_runs.replace_text(run / "recipe.yaml", "seed: 1", "seed: 1\nalgorithm: rloo")
    another = made_runs.run(tmp_path / "new")
    words = {"view": [run], "report": [run], "compare": [run, another]}
    message = refused(stage, *words[stage])
    assert lacking([str(run), "algorithm: rloo", "before-the-cuts"], message) == []


def test_it_is_written_into_the_runs_folder_and_its_path_is_printed(tmp_path, monkeypatch):
    run = made_runs.run(tmp_path)
    (run / "page.html").symlink_to(tmp_path / "another.txt")
    (run / "page.html.partial").symlink_to(tmp_path / "another.txt")
    (tmp_path / "another.txt").write_text("another file")
    output = run_stage("view", run, DISPLAY=":0").stdout
    assert f"written to {run}/page.html (" in output and "open it in any browser" in output
    assert data_of((run / "page.html").read_text())["runs"][0]["stage"] == "grpo"
    assert (tmp_path / "another.txt").read_text() == "another file"
    # what an older version left
    assert run_stage("view", tmp_path, f"--html={tmp_path}/b.html").stdout.count("b.html") == 1


def test_without_a_name_all_runs_are_listed(tmp_path, monkeypatch, capsys):
    """Each with a link to its own page, where it has one, and the newest page is written anew."""
    monkeypatch.chdir(tmp_path)
    older, newer = (made_runs.run(Path(f"outputs/{name}").absolute()) for name in ("a b", "c"))
    made_runs.warm_start(newer.parent)  # a part of its run
    alone = made_runs.warm_start(Path("outputs/d").absolute())
    os.utime(older / "metrics.jsonl", (1, 1))
    page.write_beside(RunState.read(older))
    view.main([], None, False)
    answers = data_of(Path("outputs/runs.html").read_text())
    listed = {run["name"]: run["page"] for run in answers["runs"]}
    assert listed == {"c": "c/grpo/page.html", "a b": "a%20b/grpo/page.html", "d/sft": None}
    assert list(listed) == ["c", "a b", "d/sft"] and (newer / "page.html").is_file()
    assert answers["1/results"][0]["story"] and not any("group/" in name for name in answers)
    assert "view: 3 runs; RUN=outputs/c shows the newest alone" in capsys.readouterr().out
    shutil.rmtree(older.parent)
    shutil.rmtree(alone.parent)
    view.main([], None, False)
    assert "view: c, written to outputs/c/grpo/page.html" in capsys.readouterr().out


def test_several_runs_and_the_lab_have_places_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    several = [made_runs.run(tmp_path / name) for name in "ab"]
    view.main(list(map(str, several)), None, False)
    view.main([], None, True)
    assert len(data_of(Path("outputs/compare/page.html").read_text())["runs"]) == 2
    lab = Path("outputs/lab.html").read_text()
    assert "<title>The lab</title>" in lab and not re.search(r'(?:src|href)="(?!data:|#)', lab)
    assert not (several[0] / "page.html").exists()


@pytest.mark.parametrize("display", ["", ":0"])
@pytest.mark.parametrize("is_terminal", [False, True])
def test_it_is_opened_where_somebody_sits_before_a_screen(
    tmp_path, monkeypatch, capsys, display, is_terminal
):
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda address: opened.append(address) or True)
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal, raising=False)
    monkeypatch.setenv("DISPLAY", display)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    run = made_runs.run(tmp_path / "a b")
    view.main([str(run)], None, False)
    expected = [(run / "page.html").as_uri()] if display and is_terminal else []
    assert opened == expected
    assert str(run / "page.html") in capsys.readouterr().out


def test_what_the_system_refuses_is_one_line_and_ends_nothing(tmp_path, capsys):
    run = made_runs.run(tmp_path)
    (run / "page.html").mkdir()
    assert page.write_beside(RunState.read(run)) is None
    output = capsys.readouterr()
    assert (
        output.out.count("\n") == 1 and "page.html was not written (Is a directory)" in output.out
    )
    assert output.err == "" and not (run / "page.html.partial").exists()
    (run / "page.html").rmdir()
    assert page.write_beside(RunState.read(run)) == run / "page.html"


def test_a_mistake_of_ours_has_its_trace_and_ends_nothing(tmp_path, monkeypatch, capsys):
    run = made_runs.run(tmp_path)
    monkeypatch.setattr(page, "curves", lambda *arguments: {}["a key that is not there"])
    assert page.write_beside(RunState.read(run)) is None
    output = capsys.readouterr()
    assert "KeyError: 'a key that is not there'" in output.err
    assert "was not written, for the reason above" in output.out
    with pytest.raises(KeyError):
        page.standalone_page([RunState.read(run)])


def test_only_the_first_process_writes_it_while_it_trains(tmp_path):
    run = made_runs.run(tmp_path)
    callback = WritePage(RunState.read(run))
    callback.on_evaluate(None, SimpleNamespace(is_world_process_zero=False), None)
    assert not (run / "page.html").exists()
    callback.on_evaluate(None, SimpleNamespace(is_world_process_zero=True, log_history=[]), None)
    assert (run / "page.html").is_file()


@pytest.mark.parametrize(
    ("n", "most", "kept"),
    [(5, 9, [0, 1, 2, 3, 4]), (9, 3, [0, 4, 8]), (9, 1, [0]), (9, 0, []), (0, 3, [])],
)
def test_a_sample_is_even(n, most, kept):
    assert runs.evenly(list(range(n)), most) == kept


def test_the_parts_of_the_page_are_there_and_none_is_left_over():
    folder = ROOT / "viewer/page"
    files = [each.relative_to(folder) for each in folder.rglob("*") if each.is_file()]
    tracked = {str(file) for file in files if file.parts[0] != "node_modules"}
    apart = {"page.html", "package.json", "package-lock.json"}
    assert tracked == {*page.SCRIPTS, *page.STYLES, *apart, "vendor/uPlot.LICENSE"}


def test_no_name_of_the_page_is_given_twice():
    """Its scripts share their names: a function that is declared again silently takes the place of
    the first."""
    declared = r"^(?:async )?(?:function|const|let|class) (\w+)"
    lab = [path.read_text("utf-8") for path in (ROOT / "docs/lab").glob("*.js")]
    for scripts in (list(map(page.asset, page.SCRIPTS[1:])), lab):
        names = [name for script in scripts for name in re.findall(declared, script, re.M)]
        assert len(names) > 40 and sorted(set(names)) == sorted(names)


def test_the_vendored_library_is_the_locked_one():
    folder = ROOT / "viewer/page"
    locked = json.loads((folder / "package-lock.json").read_text(encoding="utf-8"))
    version = locked["packages"]["node_modules/uplot"]["version"]
    script = (folder / "vendor/uPlot.iife.min.js").read_text(encoding="utf-8")
    assert f"(v{version})" in script[:300]
    assert "MIT" in (folder / "vendor/uPlot.LICENSE").read_text()


def test_the_page_marks_the_characters_that_the_terminal_spells_out():
    as_javascript = re.sub(r"\\U000?([0-9a-f]{5,6})", r"\\u{\1}", UNSEEN)
    parts = re.findall(r"String\.raw`([^`]*)`", page.asset("text.js"))
    assert "".join(parts) == as_javascript
