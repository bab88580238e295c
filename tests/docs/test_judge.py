"""docs/examples/judge.py, copied as a user's own reward, asks a stand-in on this
machine: correct, slow, failing, quoting, gone; and one whom the completion talks to."""

import contextlib
import http.server
import json
import re
import threading
import time
from collections import Counter
from types import SimpleNamespace

import pytest

from console.faults import RunStopped
from rewards import verifier
from schema.recipe import load_recipe
from tests.support import FEW_PROBLEMS, ROOT, read_lines, run_stage, serving
from tests.tables import rows, yaml_text
from tests.waits import until
from training.scoring import guarded_rewards

EXAMPLE = (ROOT / "docs/examples/judge.py").read_text(encoding="utf-8")
REWARD = "rewards.my_judge.judge={weight: 0.25, rubric: Is it correct?}"
NOT_TOLD = "s3cret-schlüssel"


def chat(content: object) -> dict:
    return {"choices": [{"message": {"content": content}, "finish_reason": "stop"}]}


class Endpoint(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        system, user = (message["content"] for message in body["messages"])
        mark = re.search(r"Verdict (\w+): N$", system)[1]
        question, text, _ = re.split(f"\n{mark}(?:\n|$)", user)
        gold = question.rpartition("Correct answer: ")[2].strip()
        request = SimpleNamespace(mark=mark, text=text, gold=gold, system=system, path=self.path)
        request.key = self.headers.get("Authorization")
        self.server.requests.append(request)
        answer = self.server.answer(request)
        answer = chat(answer) if isinstance(answer, str) else answer
        with contextlib.suppress(OSError):  # of a client that waits no longer
            if isinstance(answer, int):  # an HTTP status, beside which it quotes the key
                self.send_response(answer)
                content = f"{self.headers}"
            else:
                self.send_response(200)
                content = json.dumps(answer)
            self.end_headers()
            self.wfile.write(content.encode())


@contextlib.contextmanager
def stand_in(answer):
    """An endpoint that answers what `answer` makes of a request."""
    with serving(Endpoint) as server:
        server.answer, server.requests = answer, []
        server.url = f"http://127.0.0.1:{server.server_port}/v1"
        yield server


def correct(request) -> str:
    verdict = 4 * bool(verifier.judge(request.text, request.gold, reading="lenient").correct)
    return f"It adds up.\nVerdict {request.mark}: {verdict}"


@pytest.fixture
def copied_judge(own_file):
    """Copies the example as a user does, who sets what stands in capitals, and scores with it."""

    def copy(server, **constants):
        text = EXAMPLE
        for name, value in ({"URL": server.url, "WAITS": (0.0, 0.0, 0.0)} | constants).items():
            text, count = re.subn(rf"^{name} = .*$", f"{name} = {value!r}", text, flags=re.M)
            assert count == 1, name
        own_file("my_judge.py", text)

    def scored(server, texts: list[str], **constants) -> list[float | None]:
        copy(server, **constants)
        recipe = load_recipe("recipes/tiny-arithmetic.yaml", [REWARD])
        reward = guarded_rewards(recipe)[-1]
        columns = {"problem": ["6 * 7?"] * len(texts), "solution": ["42"] * len(texts)}
        completions = [[{"role": "assistant", "content": text}] for text in texts]
        return reward(completions=completions, **columns)

    scored.copy = copy
    return scored


VERDICTS = {row["text"]: row["score"] for row in rows(__file__, "verdicts")}
NO_VERDICT = [chat(None), ["Verdict"], {"choices": []}, {"error": "no"}, 404, 302]


def test_a_verdict_is_the_last_line_in_its_form_or_there_is_none(copied_judge):
    answers = [*VERDICTS, *NO_VERDICT]

    def answer(request):
        content = answers[int(request.text)]
        return content.replace("M", request.mark) if isinstance(content, str) else content

    with stand_in(answer) as server:
        scores = copied_judge(server, [str(number) for number in range(len(answers))])
    assert scores == [*VERDICTS.values(), *[None] * len(NO_VERDICT)]


HOSTILE = yaml_text(__file__, "hostile")


def test_what_a_completion_says_is_not_taken_for_a_verdict(copied_judge):
    with stand_in(lambda request: f"{request.text}\nVerdict {request.mark}: 1") as server:
        assert copied_judge(server, HOSTILE) == [0.25] * 4  # it quotes, and then judges
        assert {request.text for request in server.requests} == {*HOSTILE}
        assert len({request.mark for request in server.requests}) == 4
    with stand_in(lambda request: request.text) as server:  # it only quotes
        assert copied_judge(server, HOSTILE) == [None] * 4


@pytest.mark.parametrize(
    "token", ["<|im_end|>", "<｜User｜>", "</s>", "[/INST]", "<end_of_turn>", "<|turn>", "<turn|>"]
)
def test_a_completion_ends_no_turn_of_the_judges(token, copied_judge):
    with stand_in(correct) as server:
        copied_judge(server, [f"0 < x\n{token}"])
        assert server.requests[0].text == f"0 < x\n{token[0]} {token[1:]}"
        assert "problem. Is it correct?\n" in server.requests[0].system


def test_a_failure_is_tried_again_and_a_lasting_one_is_none(copied_judge):
    tries = Counter()

    def answer(request):
        tries[request.text] += 1
        return 500 if request.text == "1" or tries[request.text] < 3 else correct(request)

    with stand_in(answer) as server:
        assert copied_judge(server, ["42", "1", "2"]) == [1.0, None, 0.0]
    assert tries == {"42": 3, "1": 3, "2": 3}


def test_a_slow_answer_is_none_and_only_so_many_are_asked_for_at_once(copied_judge):
    busy, most = set(), []

    def answer(request):
        busy.add(request.mark)
        most.append(len(busy))
        until(lambda: len(most) >= 3, 30)  # or a busy machine might ask one after another
        time.sleep(0.6 if request.text == "slow" else 0.02)
        busy.discard(request.mark)  # a request that is tried again has the same
        return correct(request)

    numbers = [str(number) for number in range(35, 45)]
    with stand_in(answer) as server:
        scores = copied_judge(server, numbers, CONCURRENCY=3)
        assert scores == [float(number == "42") for number in numbers]
        assert max(most) == 3
        assert copied_judge(server, ["slow", "42"], SECONDS=0.3) == [None, 1.0]


def test_an_endpoint_that_answers_nothing_ends_the_run_and_its_key_is_not_told(
    copied_judge, monkeypatch, capsys
):
    monkeypatch.setenv("JUDGE_KEY", NOT_TOLD)
    with (
        stand_in(lambda request: 401) as server,
        pytest.raises(RunStopped, match="answered none of 2 requests: HTTP status 401") as ended,
    ):
        copied_judge(server, ["1", "2"])
    assert server.requests[0].path == "/v1/chat/completions"
    assert server.requests[0].key.encode("latin-1").decode() == f"Bearer {NOT_TOLD}"
    assert ended.value.exit_code == 75
    with pytest.raises(RunStopped, match=f"my_judge.judge: {server.url} .*: ConnectError; once it"):
        copied_judge(server, ["1"])
    monkeypatch.setenv("JUDGE_KEY", f"{NOT_TOLD}\n")  # which httpx quotes: it is no header
    with stand_in(correct) as server, pytest.raises(RunStopped, match="LocalProtocol") as quoted:
        copied_judge(server, ["1"])
    assert NOT_TOLD not in str(ended.value) + str(quoted.value) + "".join(capsys.readouterr())


@pytest.mark.train
def test_a_run_is_paid_by_it_and_one_whose_judge_goes_away_is_resumed(copied_judge, tmp_path):
    words = ["recipes/tiny-arithmetic.yaml", "sft=null", REWARD, f"output_dir={tmp_path}/run"]
    words += [*FEW_PROBLEMS, "grpo.per_device_train_batch_size=16", "grpo.max_steps=3"]
    words += ["grpo.num_iterations=1", "grpo.logging_steps=1", "grpo.save_steps=1"]
    words += ["grpo.max_completion_length=16"]
    metrics = tmp_path / "run/grpo/metrics.jsonl"
    gone = threading.Event()

    def answer(request):
        if metrics.is_file() and len(read_lines(metrics)) >= 2 and not gone.is_set():
            return 503
        return f"Verdict {request.mark}: {len(request.text) % 5}"

    with stand_in(answer) as server:
        copied_judge.copy(server)
        stopped = run_stage("grpo", *words, check=False, JUDGE_KEY=NOT_TOLD)
        assert stopped.returncode == 75 and "Traceback" not in stopped.stderr
        assert "rewards.my_judge.judge: " in stopped.stderr
        assert "HTTP status 503; once it answers, the same command goes on" in stopped.stderr
        gone.set()
        done = run_stage("grpo", *words, JUDGE_KEY=NOT_TOLD)
    lines = [line for line in read_lines(metrics) if "rewards/judge/mean" in line]
    assert [line["step"] for line in lines] == [1, 2, 3]
    assert all(0 < line["rewards/judge/mean"] < 1 for line in lines)
    assert NOT_TOLD not in stopped.stdout + stopped.stderr + done.stdout + done.stderr
    for file in (tmp_path / "run").rglob("*"):
        assert file.is_dir() or NOT_TOLD.encode() not in file.read_bytes()
