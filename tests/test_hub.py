"""A Hub that answers, and one that does not."""

import http.server
import subprocess
import sys
import threading

import pytest
from conftest import ROOT, run_stage

ASK = "from data import hub; hub.reach(); hub.reach(); import huggingface_hub as h; print(h.constants.HF_HUB_OFFLINE)"


@pytest.fixture
def hub():
    """Its address, the status it answers with, and what it was asked."""

    class Hub(http.server.BaseHTTPRequestHandler):
        status, asked = 503, []

        def do_HEAD(self):
            self.asked.append(self.path)
            self.send_response(self.status)
            self.end_headers()

        do_GET = do_HEAD

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Hub.environment = {
        "HF_HUB_OFFLINE": "0",
        "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
        "no_proxy": "127.0.0.1",
    }
    yield Hub
    server.shutdown()


@pytest.mark.parametrize(("status", "offline", "asked"), [(503, "True", 3), (429, "True", 3), (404, "False", 1)])
def test_a_hub_that_does_not_answer_is_not_asked_again(hub, status, offline, asked, monkeypatch):
    hub.status = status
    for key, value in hub.environment.items():
        monkeypatch.setenv(key, value)
    done = subprocess.run([sys.executable, "-c", ASK], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == offline
    assert ("does not answer" in done.stderr) == (offline == "True")
    assert len(hub.asked) == asked


def test_what_is_not_in_the_cache_is_one_line(hub, tmp_path):
    overrides = ["model.build=null", "model.name_or_path=a/model", "sft=null", f"output_dir={tmp_path / 'out'}"]
    environment = hub.environment | {"HF_HOME": str(tmp_path)}
    done = run_stage("grpo", "recipes/tiny-arithmetic.yaml", *overrides, check=False, **environment)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("model a/model: ")
    assert "Traceback" not in done.stderr
    assert len(hub.asked) == 3
    assert not (tmp_path / "out").exists()
