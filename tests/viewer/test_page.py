"""The page of `make view`: what its server answers, really started, and the one file that holds it
all."""

import base64
import hashlib
import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import urllib.parse

import pytest

from console.faults import RecipeError
from console.terminal import UNSEEN
from stages import view
from tests import made_runs
from tests.support import ROOT, refused
from tests.tables import cases, lacking
from tests.viewer.browser import served
from tests.waits import run_command, start_command
from viewer import page


def ask(place: str, path: str, method: str = "GET"):
    port, _, token = place.partition("/")
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=20)
    connection.request(method, f"/{token}{path}" if token else path)
    answer = connection.getresponse()
    return answer.status, dict(answer.getheaders()), answer.read()


def told(port: str, question: str):
    """(status, answer) to a question of the page."""
    status, _, body = ask(port, f"/api/{urllib.parse.quote(question)}")
    return status, json.loads(body)


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    folder = tmp_path_factory.mktemp("outputs")
    (folder / "secret.txt").write_text("secret", encoding="utf-8")
    with served(made_runs.run(folder / "a"), made_runs.run(folder / "b", hostile=True)) as port:
        yield port


def test_it_answers_what_the_page_asks(port):
    assert [run["finished"] for run in told(port, "runs")[1]] == [True, True]
    assert told(port, "0/curves")[1]["step"] == [1, 2, 3, 4]
    assert told(port, "0/groups")[1]["of"] == 12
    assert len(told(port, "1/group/1/0")[1]["rows"]) == 8
    assert told(port, "0/search/IS 2 + 1")[1] == [[2, 1]]
    assert told(port, "1/search/onerror=")[1][:1] == [[1, 0]]
    assert told(port, "0/search/a/../nowhere")[1] == []
    assert told(port, "0/changed/held-out/sft/grpo")[1]["counts"]["won"] == 1
    page = ask(port, "/")[2].decode()
    for asset in re.findall(r'(?:src|href)="([^"#:]+)"', page):
        assert ask(port, f"/{asset}")[0] == 200, asset


@cases(__file__, "unanswered")
def test_what_it_cannot_answer_is_told_in_a_line(port, question, said):
    status, answer = told(port, question)
    assert status == 404 and said in answer["error"]


@cases(__file__, "judged")
def test_an_answer_that_a_reader_types_is_judged_as_in_training(port, text, right, reason):
    assert told(port, f"judge/{text}") == (200, {"right": right, "reason": reason})


@pytest.mark.parametrize("path", ["", "/", "/api/runs", "/other/api/runs", "//token/api/runs"])
def test_who_does_not_know_the_token_reads_and_starts_nothing(port, path):
    for method in ("GET", "POST"):
        status, _, body = ask(port.partition("/")[0], path, method)
        assert status == 403 and b"complete address that `make view` has printed" in body


@cases(__file__, "outside")
def test_no_path_leads_outside_the_run(port, path):
    status, _, body = ask(port, path)
    assert status == 404
    assert not any(text in body for text in (b"secret\n", b"root:", b"[project]"))


def test_it_only_reads_and_nothing_may_be_loaded_from_elsewhere(port):
    assert ask(port, "/api/runs", "POST")[0] == 405
    for path in ("/", "/app.js", "/api/runs", "/api/0/nothing"):
        headers = ask(port, path)[1]
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers


def test_it_listens_on_this_machine_alone_and_stops_on_a_signal(tmp_path):
    command = [sys.executable, "-m", "stages.view", str(made_runs.run(tmp_path)), "--port", "0"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    process = start_command(command, cwd=ROOT, **pipes)
    line = process.stdout.readline()
    place = re.search(r"http://127\.0\.0\.1:(\d+/[\w-]{20,})/ ", line)[1]
    assert [ask(place, path)[0] for path in ("/", "/api/runs")] == [200, 200]
    with pytest.raises(ConnectionRefusedError):  # at another address of this machine
        socket.create_connection(("127.0.0.2", int(place.partition("/")[0])), timeout=20)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0
    assert process.stdout.read() == "view: stopped\n"


def test_ctrl_c_while_its_loop_is_made_is_no_stack_trace(tmp_path):
    program = (
        "import runpy, signal, socket\npair = socket.socketpair\n"
        "socket.socketpair = lambda: signal.raise_signal(signal.SIGINT) or pair()\n"
        "runpy.run_module('stages.view', run_name='__main__')\n"
    )
    command = [sys.executable, "-c", program, str(made_runs.run(tmp_path)), "--port", "0"]
    done = run_command(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.endswith("view: stopped\n")


def test_a_run_that_goes_on_is_read_again(tmp_path):
    run = made_runs.run(tmp_path)
    with served(run) as port:
        assert told(port, "0/curves")[1]["step"] == [1, 2, 3, 4]
        with (run / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write('{"step": 5, "reward": 1.0}\n')
        assert told(port, "0/curves")[1]["step"] == [1, 2, 3, 4, 5]


@cases(__file__, "mistakes")
def test_a_mistake_is_one_message(tmp_path, arguments, names):
    run = made_runs.run(tmp_path)
    message = refused("view", *(word.format(run=run) for word in arguments))
    assert len(message.strip().splitlines()) == 1
    assert lacking(names, message) == []


def data_of(text: str) -> dict:
    script = r'<script type="application/json" id="answers">(.*?)</script>'
    return json.loads(re.search(script, text, re.S)[1])


def test_one_file_holds_all_and_nothing_in_it_breaks_out(tmp_path):
    run = made_runs.run(tmp_path, hostile=True)
    made_runs.replace_text(run / "recipe.yaml", "seed: 1", "seed: 1\noutput_dir: /data/ann/x")
    text = page.standalone_page([run])
    assert str(tmp_path) not in text and "/data/ann" not in text
    # What ends a script element early, or begins a comment in it, stands only where the page itself
    # has it.
    ours = "".join(map(page.asset, page.SCRIPTS))
    assert "</script" not in ours and "<!--" not in ours
    assert len(re.findall("</script", text, re.I)) == len(page.SCRIPTS) + 1
    answers = data_of(text)
    assert answers["0/group/1/0"]["rows"][2]["text"] == made_runs.HOSTILE[2]
    assert answers["0/group/1/0"]["rows"][4]["length"] == 1_000_000
    assert answers["0/pair/held-out/sft/grpo/0"]["answers"][0]["text"] == made_runs.HOSTILE[2]
    assert not re.search(r'(?:src|href)="(?!data:|#)', text)
    # And only the page's own scripts may run.
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[1]
    allowed = re.search(r"script-src ([^;]*);", policy)[1].split()
    scripts = re.findall(r"<script>(.*?)</script>", text, re.S)
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()) for text in scripts]
    assert allowed == [f"'sha256-{digest.decode()}'" for digest in digests]
    assert len(scripts) == len(page.SCRIPTS)
    assert "default-src 'none'" in policy


def test_completions_that_no_run_wrote_are_one_message(tmp_path):
    run = made_runs.run(tmp_path)
    made_runs.change_table(run, 1, lambda frame: frame.assign(tokens="many"))
    assert "completions_00001.parquet cannot be read" in page.answer([run], "0/groups")["why"]
    answers = tmp_path / "eval/held-out/grpo.jsonl"
    made_runs.replace_text(answers, '"truncated": false', '"truncated": "no"')
    with pytest.raises(RecipeError, match="a file is not what a run wrote"):
        view.main([str(run)], tmp_path / "page.html", "0", False)


def test_of_a_large_run_it_holds_an_even_sample_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "COMPLETIONS", 40)
    run = made_runs.run(tmp_path, steps=10, groups=4, size=8)
    answers = data_of(page.standalone_page([run]))
    groups = answers["0/groups"]["groups"]
    assert answers["0/groups"]["of"] == 40
    places = [(group["step"], group["group"]) for group in groups]
    assert places == [(1, 0), (3, 2), (6, 0), (8, 1), (10, 3)]
    assert sum(key.startswith("0/group/") for key in answers) == 5
    made_runs.same_questions(run, dict.fromkeys(range(1, 10), 4))
    groups = data_of(page.standalone_page([run]))["0/groups"]["groups"]
    places = [(group["step"], group["group"]) for group in groups]
    assert places == [(1, 0), (1, -2), (6, 0), (9, -1), (10, 3)]


@pytest.mark.parametrize(
    ("n", "most", "kept"),
    [(5, 9, [0, 1, 2, 3, 4]), (9, 3, [0, 4, 8]), (9, 1, [0]), (9, 0, []), (0, 3, [])],
)
def test_a_sample_is_even(n, most, kept):
    assert page.evenly(list(range(n)), most) == kept


def test_the_parts_of_the_page_are_there_and_none_is_left_over():
    folder = ROOT / "viewer/page"
    files = [each.relative_to(folder) for each in folder.rglob("*") if each.is_file()]
    tracked = {str(file) for file in files if file.parts[0] != "node_modules"}
    apart = {"index.html", "package.json", "package-lock.json", "lab.json", "memory.json"}
    assert tracked == {*page.ASSETS, *apart, "vendor/uPlot.LICENSE"}


def test_no_name_of_the_page_is_given_twice():
    """Its scripts share their names: a function that is declared again silently takes the place of
    the first."""
    declared = r"^(?:async )?(?:function|const|let|class) (\w+)"
    names = [name for each in page.OURS for name in re.findall(declared, page.asset(each), re.M)]
    assert len(names) > 80 and sorted(set(names)) == sorted(names)


def test_the_vendored_library_is_the_locked_one():
    folder = ROOT / "viewer/page"
    locked = json.loads((folder / "package-lock.json").read_text(encoding="utf-8"))
    version = locked["packages"]["node_modules/uplot"]["version"]
    script = (folder / "vendor/uPlot.iife.min.js").read_text(encoding="utf-8")
    assert f"(v{version})" in script[:300]
    assert "MIT" in (folder / "vendor/uPlot.LICENSE").read_text()


def test_the_page_marks_the_characters_that_the_terminal_spells_out():
    as_javascript = re.sub(r"\\U000?([0-9a-f]{5,6})", r"\\u{\1}", UNSEEN)
    assert f"const UNSEEN = /{as_javascript}/gu;\n" in page.asset("text.js")
