import base64
import hashlib
import json
import re

import pandas as pd
import pytest

from schema.faults import RecipeError
from schema.terminal import UNSEEN
from stages import view
from tests.support import ROOT
from tests.viewer import made
from viewer import page


def data_of(text: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="answers">(.*?)</script>', text, re.S)[1])


def test_one_file_holds_all_and_nothing_in_it_breaks_out(tmp_path):
    text = page.whole([made.run(tmp_path, hostile=True)])
    # What ends a script element early, or begins a comment in it, stands only where the page itself has it.
    ours = sum(page.asset(name).count("</script") + page.asset(name).count("<!--") for name in page.SCRIPTS)
    assert ours == 0
    assert len(re.findall("</script", text, re.I)) == len(page.SCRIPTS) + 1
    answers = data_of(text)
    assert answers["0/group/1/0"]["rows"][2]["text"] == made.HOSTILE[2]
    assert answers["0/group/1/0"]["rows"][4]["length"] == 1_000_000
    assert answers["0/pair/held-out/sft/grpo/0"]["answers"][0]["text"] == made.HOSTILE[2]
    assert not re.search(r'(?:src|href)="(?!data:|#)', text)
    # And only the page's own scripts may run.
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[1]
    allowed = re.search(r"script-src ([^;]*);", policy)[1].split()
    scripts = re.findall(r"<script>(.*?)</script>", text, re.S)
    digests = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in scripts]
    assert allowed == [f"'sha256-{each}'" for each in digests] and len(scripts) == len(page.SCRIPTS)
    assert "default-src 'none'" in policy


def test_completions_that_no_run_wrote_are_one_message(tmp_path):
    run = made.run(tmp_path)
    file = run / "completions/completions_00001.parquet"
    pd.read_parquet(file).assign(tokens="many").to_parquet(file)
    with pytest.raises(RecipeError, match="a file is not what a run wrote"):
        view.main([str(run)], tmp_path / "page.html", "0", False)


def test_of_a_large_run_it_holds_an_even_sample_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "COMPLETIONS", 40)
    answers = data_of(page.whole([made.run(tmp_path, steps=10, groups=4, size=8)]))
    told = answers["0/groups"]
    assert told["of"] == 40 and len(told["groups"]) == 5
    assert [(each["step"], each["group"]) for each in told["groups"]] == [(1, 0), (3, 2), (6, 0), (8, 1), (10, 3)]
    assert sum(key.startswith("0/group/") for key in answers) == 5


@pytest.mark.parametrize(
    ("n", "most", "kept"), [(5, 9, [0, 1, 2, 3, 4]), (9, 3, [0, 4, 8]), (9, 1, [0]), (9, 0, []), (0, 3, [])]
)
def test_a_sample_is_even(n, most, kept):
    assert page.evenly(list(range(n)), most) == kept


def test_the_parts_of_the_page_are_there_and_none_is_left_over():
    folder = ROOT / "viewer/page"
    files = [each.relative_to(folder) for each in folder.rglob("*") if each.is_file()]
    there = {str(each) for each in files if each.parts[0] != "node_modules"}
    others = {"index.html", "package.json", "package-lock.json", "memory.json", "vendor/uPlot.LICENSE"}
    assert there == {*page.ASSETS, *others}


def test_the_vendored_library_is_the_locked_one():
    folder = ROOT / "viewer/page"
    locked = json.loads((folder / "package-lock.json").read_text(encoding="utf-8"))["packages"]["node_modules/uplot"]
    script = (folder / "vendor/uPlot.iife.min.js").read_text(encoding="utf-8")
    assert f"(v{locked['version']})" in script[:300] and "MIT" in (folder / "vendor/uPlot.LICENSE").read_text()


def test_the_page_marks_the_characters_that_the_terminal_spells_out():
    as_javascript = re.sub(r"\\U000?([0-9a-f]{5,6})", r"\\u{\1}", UNSEEN)
    assert f"const UNSEEN = /{as_javascript}/gu;\n" in page.asset("text.js")
