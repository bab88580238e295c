"""The report of an evaluation: its table, its verdicts, its picture; and the same again from the
answers alone."""

import json
from pathlib import Path

import pytest

from evaluation import report
from evaluation.report import compare, gain_lines
from tests.console.test_terminal import MARKDOWN, kinds
from tests.support import read_lines, refused, run_stage, write_lines
from tests.tables import cases, lacking


def write(folder: Path, labels: list[str]) -> str:
    return report.write(folder, compare(folder, labels))


def answers(folder, label, correct, samples=1, lenient=None, tokens=10, **terms):
    """Answers to problems 0, 1, …; `correct` has a truth a problem, or one a sample."""
    lines = [{"problems": "p", "samples": samples} | terms]
    for i, each in enumerate(correct):
        for sample, r in enumerate([each] * samples if isinstance(each, bool) else each):
            line = {"id": i, "sample": sample, "problem": f"{i} + 0?", "gold": str(i)}
            line |= {"level": "1" if i < 60 else "2", "correct": r, "strict": r and i > 0}
            line |= {"lenient": r if lenient is None else lenient[i], "truncated": False}
            lines.append(line | {"answer": str(i) if r else "-1", "tokens": tokens})
    write_lines(folder / f"{label}.jsonl", lines)


def test_the_table_says_by_which_tolerance_numbers_are_correct(tmp_path):
    answers(tmp_path, "base", [True] * 10, tolerance=0.01)
    answers(tmp_path, "grpo", [True] * 10, tolerance=0.01)
    assert "(n = 10, tolerance `0.01`) |" in write(tmp_path, ["base", "grpo"])
    answers(tmp_path, "grpo", [True] * 10)
    with pytest.raises(ValueError, match="tolerance"):
        write(tmp_path, ["base", "grpo"])


def test_the_report_says_when_nothing_is_significant(tmp_path):
    answers(tmp_path, "base", [True, False] * 50)
    answers(tmp_path, "sft", [True, False] * 49 + [True, True])
    answers(tmp_path, "grpo", [True] * 100)
    text = write(tmp_path, ["base", "sft", "grpo"])
    line = "base → sft: no significant change (+1.0 ± 2.0 points, n = 100, 1 won, 0 lost, p = 1)"
    assert line in text
    assert "sft → grpo: +49.0 ± 10.0 points (n = 100, 49 won, 0 lost, p = 3.6e-15)" in text
    assert "base → grpo: +50.0 ± 10.1 points (n = 100, 50 won, 0 lost" in text
    assert "| base | 50.0% | 40.4% to 59.6% | 100.0% | 0.0% | 10 |" in text
    written = (tmp_path / "report.md").read_text()
    assert "| base | 50.0% | 40.4% to 59.6% | 49.0% | 50.0% | 100.0% | 0.0% | 10 |" in written
    verdicts = text.partition("\n\n")[2]
    assert verdicts and verdicts in written
    assert "| 2 | 40 | 50.0% (35% to 65%) | 52.5% (37% to 67%) | 100.0% (91% to 100%) |" in written
    expected = "## sft → grpo: won, 3 of 49\n\n```\n1 + 0?\n```\n\ngold `1`, sft `-1`, grpo `1`"
    assert expected in written
    assert json.loads((tmp_path / "summary.json").read_text())["grpo"]["accuracy"] == 1.0


@cases(__file__, "a_stage_that_made_it_worse_is_named_with_what_to_look_at")
def test_a_stage_that_made_it_worse_is_named_with_what_to_look_at(tmp_path, correct, names):
    labels = ["base", *["sft"][: len(correct) - 2], "grpo"]
    for label, each in zip(labels, correct, strict=True):
        answers(tmp_path, label, [i < each for i in range(100)])
    told = [line for line in write(tmp_path, labels).split("\n") if "worse" in line]
    assert len(told) == bool(names) and all(lacking(names, line) == [] for line in told)


def test_models_are_compared_on_the_problems_all_have_answered(tmp_path):
    answers(tmp_path, "base", [True] * 10)
    answers(tmp_path, "sft", [True] * 4)
    assert "(n = 4)" in write(tmp_path, ["base", "sft"])


def test_what_of_a_gain_is_form(tmp_path):
    answers(tmp_path, "base", [False] * 100, lenient=[True] * 40 + [False] * 60)
    answers(tmp_path, "base+example", [True] * 45 + [False] * 55)
    answers(tmp_path, "grpo", [True] * 50 + [False] * 50)
    text = write(tmp_path, ["base", "base+example", "grpo"])
    # a control, not a stage
    assert "base → grpo: +50.0" in text and "base+example → grpo: " not in text
    assert (
        "format or reasoning? base → grpo, strict +49.0 ± 10.0; base → grpo, lenient +10.0 ± 6.0; "
        "base+example → grpo, lenient +5.0 ± 4.4 points" in text
    )


def test_several_samples_a_problem(tmp_path):
    sampled = {"samples": 4, "temperature": 0.6}
    answers(tmp_path, "base", [[True, False, False, False], [False] * 4] * 20, **sampled, top_p=1.0)
    # as once
    correct = [[True, True, True, False], [False, False, True, False]] * 20
    answers(tmp_path, "grpo", correct, **sampled)
    text = write(tmp_path, ["base", "grpo"])
    figures = json.loads((tmp_path / "summary.json").read_text())
    assert "(n = 40 × 4, temperature `0.6`) | avg@4 |" in text
    assert "| avg@4 | 95% interval | pass@4 | truncated | tokens |\n" in text
    assert "| pass@2 | pass@4 | maj@4 |" in (tmp_path / "report.md").read_text()
    assert figures["base"]["accuracy"] == 0.125 and figures["base"]["pass@4"] == 0.5
    assert figures["base"]["pass@2"] == pytest.approx(0.25) and figures["base"]["maj@4"] == 0.0
    assert figures["grpo"]["accuracy"] == 0.5
    assert figures["grpo"]["pass@4"] == 1.0
    assert figures["grpo"]["maj@4"] == 0.5
    low, high = figures["grpo"]["interval_95"]
    assert 0.4 < low < 0.5 < high < 0.6
    assert "base → grpo: +37.5" in text and "95% interval" in text
    accuracies, gain = gain_lines("", compare(tmp_path, ["base", "grpo"]))  # no first one was won
    assert accuracies.endswith(", avg@4: base 12.5% → grpo 50.0%")
    assert gain == "38 more of 100 completions correct; 95% interval +34 to +41"
    answers(tmp_path, "sft", [[True] * 4] * 40, **sampled, top_p=0.95)
    with pytest.raises(ValueError, match="sft and base cannot be compared: they differ in top_p"):
        write(tmp_path, ["base", "sft"])
    assert "(n = 40 × 4, temperature `0.6`, top_p `0.95`) | avg@4 |" in write(tmp_path, ["sft"])
    assert "base → grpo, pass@4: +50.0" in text and "20 won, 0 lost, p = 1.9e-06" in text


def test_a_problem_that_was_won_is_told_with_both_completions(tmp_path):
    """That which is read most quickly, and on which the earlier model had an answer."""
    answers(tmp_path, "sft", [False, False, False, True])
    answers(tmp_path, "grpo", [True, True, True, True])
    for label, texts in {"sft": ["so it is 9" * 9, "no\nanswer", "1"], "grpo": "abc"}.items():
        head, *lines = read_lines(tmp_path / f"{label}.jsonl")
        for line, text in zip(lines, texts, strict=False):
            line["completion"] = text
        if label == "sft":
            lines[2]["answer"] = None
            lines[1]["problem"] = "1 + 0,\nwhat is it?"
        write_lines(tmp_path / f"{label}.jsonl", [head, *lines])
    lines = gain_lines("", compare(tmp_path, ["sft", "grpo"]))
    assert lines[:4] == ["1 + 0, what is it?", "  sft   ✗  no answer", "  grpo  ✓  b", ""]
    assert lines[4].endswith("sft 25.0% → grpo 100.0%")
    assert lines[5].startswith("No sure change; 75 more of 100 problems correct; luck alone does")
    answers(tmp_path, "base", [True] * 4)
    assert len(gain_lines("", compare(tmp_path, ["base", "grpo"]))) == 2  # none was won


def test_what_a_stranger_wrote_is_only_text_in_the_report(tmp_path):
    """Problems, golds, answers, levels, subjects and the names of files; each level and subject is
    a row."""
    folder = tmp_path / "![x](y) $x|`"
    folder.mkdir()
    labels = ["base", "[x](y)|<b>"]
    texts = MARKDOWN * 2
    first = [i < len(MARKDOWN) for i in range(len(texts))]
    for label in labels:
        answers(folder, label, [correct ^ (label == "base") for correct in first])
        file = folder / f"{label}.jsonl"
        head, *lines = read_lines(file)
        for text, line in zip(texts, lines, strict=True):
            line |= dict.fromkeys(("gold", "answer", "level", "subject"), text)
            line["problem"] = f"{text}\x1b[2J"
        write_lines(file, [head, *lines])
    table = write(folder, labels)
    assert kinds(table)["tr_open"] == 3
    written = (folder / "report.md").read_text()
    found = kinds(written)
    groups = sum(bool(each) for each in MARKDOWN)
    assert (found["table_open"], found["tr_open"]) == (3, 3 + 2 * (1 + groups))
    assert (found["heading_open"], found["fence"]) == (2, 6)  # won and lost, three of each
    assert not found.keys() & {"image", "link_open", "html_inline", "html_block", "hr", "em_open"}
    assert "\x1b" not in written


def test_every_figure_is_made_again_from_the_answers_alone(tmp_path):
    answers(tmp_path, "base", [True, False] * 50)
    answers(tmp_path, "grpo", [True] * 100)
    timed = ['{"seconds": 2.0, "tokens": 600}', '{"seco', '{"seconds": 3.0, "tokens": 400}']
    timed += ['{"seconds": 9']
    # a full disk tore some
    (tmp_path / "base.seconds.jsonl").write_bytes("\n".join(timed).encode() + b"\n\xff")
    text = write(tmp_path, ["base", "grpo"])
    assert "| 10 | 200 |" in (tmp_path / "report.md").read_text()
    first = {name: (tmp_path / name).read_bytes() for name in ("report.md", "summary.json")}
    for name in first:
        (tmp_path / name).unlink()
    done = run_stage("report", tmp_path)
    assert done.stdout.startswith(text), done.stderr
    assert {name: (tmp_path / name).read_bytes() for name in first} == first


def test_what_is_not_there_or_cannot_be_compared_is_named(tmp_path):
    answers(tmp_path, "base", [True] * 4)
    answers(tmp_path, "grpo", [True] * 4, samples=2)
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty/base.jsonl").write_text("{}\n")
    assert "holds no completions" in refused("report", tmp_path / "empty")
    assert "gone: name the folder" in refused("report", tmp_path / "gone")
    # Not what lies beside it: /nope is in /, which has links of its own.
    nowhere = "report: /nope: name the folder of one benchmark's answers"
    assert nowhere in refused("report", "/nope")
    assert "cannot be compared: they differ in samples" in refused("report", tmp_path)


def test_a_response_may_hold_any_line_separator(tmp_path):
    answers(tmp_path, "base", [True] * 4)
    text = (tmp_path / "base.jsonl").read_text().replace('"0 + 0?"', '"0\u2028+\x85 0?"')
    (tmp_path / "base.jsonl").write_text(text)
    (tmp_path / "base.seconds.jsonl").write_text("")  # killed before the first batch
    assert "(n = 4)" in write(tmp_path, ["base"])
