"""What a person at a terminal sees."""

import json
import os
import pty
import shlex
import sys
import tty
from pathlib import Path

import pytest
from markdown_it import MarkdownIt  # which rich needs

from console.terminal import clean, code, fenced, inline, make_command, make_line, row
from schema.recipe import load_recipe
from tests.support import ROOT
from tests.tables import cases, rows
from tests.waits import capture, run_command

TABLE = (
    "from console.terminal import say_markdown; say_markdown('| GiB | full |\\n| --- | ---: |\\n|"
    " \\x1b[1m | 0.5 |')"
)


def drawn(program: str, terminal: str) -> str:
    """What a program of Python writes on a terminal of this kind."""
    leader, follower = pty.openpty()
    tty.setraw(follower)  # or it would wait for who reads
    streams = {"stdout": follower, "stderr": follower}
    environment = os.environ | {"TERM": terminal}
    run_command([sys.executable, "-c", program], cwd=ROOT, check=True, env=environment, **streams)
    return os.read(leader, 10_000).decode()


def test_a_table_is_drawn_on_a_terminal_and_left_as_it_is_in_a_file():
    line = "| --- | ---: |"
    assert line in capture([sys.executable, "-c", TABLE], check=True).stdout
    table = drawn(TABLE, "xterm")
    assert r"\x1b[1m" in table and "| ---" not in table and "──" in table


@pytest.mark.parametrize(("terminal", "plain"), [("xterm", False), ("dumb", True)])
def test_what_is_wrong_is_red_on_a_terminal(terminal, plain):
    text = drawn("from console.terminal import complain; complain('wrong')", terminal)
    assert "wrong" in text and ("\x1b[31mwrong" in text) is not plain


@cases(
    __file__,
    "what_a_reader_would_not_see_is_spelled_out",
    ("\udcff\ue000\U000f0000", "\\udcff\\ue000\\U000f0000"),
)
def test_what_a_reader_would_not_see_is_spelled_out(text, shown):
    assert clean(text) == shown
    clean(text).encode()


MARKDOWN = [case["text"] for case in rows(__file__, "what_another_wrote_is_only_text_in_markdown")]


def kinds(text: str) -> dict[str, int]:
    """How many of each kind of token a parser of Markdown finds."""
    found = {}
    for token in MarkdownIt("commonmark", {"html": True}).enable("table").parse(text):
        for each in [token, *(token.children or [])]:
            found[each.type] = found.get(each.type, 0) + 1
    return found


@pytest.mark.parametrize("text", MARKDOWN)
def test_what_another_wrote_is_only_text_in_markdown(text):
    table = [row(["a", "b"]), row(["---", "---"]), row([inline(text), code(text)])]
    counts = kinds("\n".join([*table, "", code(text), "", *fenced(text)]))
    expected = dict.fromkeys(("tr_open", "th_open", "td_open"), 2)
    expected |= dict.fromkeys(("table_open", "paragraph_open", "fence"), 1)
    assert counts.items() >= expected.items()
    markup = ["image", "link_open", "html_inline", "html_block", "heading_open", "hr", "em_open"]
    assert not counts.keys() & {*markup}
    assert "\n" not in code(text)


def test_a_bar_in_a_cell_begins_no_other():
    assert row(["a|b", "`c|d`"]) == r"| a\|b | `c\|d` |"


def test_a_plain_name_stays_as_it_is():
    plain = ["base", "Level 5", "validation", "base+example", "Counting & Probability", "a_b"]
    plain.append("数学")
    for name in plain:
        assert inline(name) == name
    assert inline("a\u3164b") == r"`a\u3164b`"  # a letter, to Python


@pytest.mark.parametrize(
    "name", ["$(shell touch x)", "a'b", 'a"b', "`x`", " lead", "a b", "#", "a\\", "!x", "-x"]
)
def test_the_next_command_asks_for_the_same_recipe(name, tmp_path, monkeypatch):
    """As the shell and stages/make.py part it again; test_makefile.py gives such commands to
    make."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "recipes/tiny-arithmetic.yaml").read_text()
    overrides = [f"prompt.system={json.dumps(name)}"]
    for folder in ("recipes", ".", name, str(tmp_path)):
        path = Path(folder) / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        recipe = load_recipe(path, overrides)
        make, target, *options = shlex.split(make_command("grpo", recipe))
        values = dict(option.split("=", 1) for option in options)
        named = values["RECIPE"]
        file = named if "/" in named else f"recipes/{named}.yaml"
        assert (make, target, Path(file)) == ("make", "grpo", path)
        assert not named[0].isspace()
        assert shlex.split(values["ARGS"]) == overrides


def test_a_command_reads_as_one_would_type_it():
    assert make_line("view", RUN=["outputs/x"]) == "make view RUN=outputs/x"
    assert make_line("grpo", ARGS=["a=1", "b=[c, d]"]) == "make grpo ARGS=\"a=1 'b=[c, d]'\""
