"""On a CPU that others use too, a run computes with as many threads as are fastest now, to the same bits."""

import os
import subprocess
import sys

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from schema import hardware
from tests.support import ROOT

SAYS = """
import subprocess, sys, torch
from schema.hardware import use_fastest_threads
torch.set_num_threads(2)
busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)]
try:
    print(use_fastest_threads(torch.float32) or "no change", torch.get_num_threads(), sep="|")
finally:
    for each in busy:
        each.kill()
"""


@pytest.fixture
def threads(monkeypatch):
    """As a user has it who has set no number of threads: torch begins with two, and none was timed."""
    before = torch.get_num_threads()
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(hardware, "_threads", {"next": 0.0})
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def timed(monkeypatch, **took):
    monkeypatch.setattr(hardware, "_seconds_by_threads", lambda most, dtype: {int(k[1:]): s for k, s in took.items()})
    return hardware.use_fastest_threads(torch.float32), torch.get_num_threads()


def test_a_busy_machine_makes_two_threads_one():
    environment = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    run = subprocess.run([sys.executable, "-c", SAYS], env=environment, cwd=ROOT, capture_output=True, text=True)
    said, threads = run.stdout.strip().rsplit("|", 1)
    assert threads == "1" and said.startswith("1 thread from here on, since 2 take "), run.stdout + run.stderr


def test_the_number_of_threads_follows_their_times(threads, monkeypatch):
    assert timed(monkeypatch, n2=1.0, n1=0.95) == ("", 2), "a tenth is noise"
    assert timed(monkeypatch, n2=9.0, n1=1.0) == ("", 2), "timed again within a minute"
    hardware._threads["next"] = 0.0
    assert timed(monkeypatch, n2=4.9, n1=1.0) == ("1 thread from here on, since 2 take 4.9 times as long now", 1)
    hardware._threads["next"] = 0.0
    assert timed(monkeypatch, n2=1.0, n1=1.6) == ("2 threads from here on, since 1 takes 1.6 times as long now", 2)
    hardware._threads["next"] = 0.0
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert timed(monkeypatch, n2=4.9, n1=1.0) == ("", 2), "the user has said how many"


def test_gradients_are_the_same_with_one_thread_and_with_two(threads):
    torch.manual_seed(0)
    sizes = {"hidden_size": 576, "intermediate_size": 1536, "num_attention_heads": 9, "num_key_value_heads": 3}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=8192, num_hidden_layers=2, **sizes))
    tokens = torch.randint(0, 8192, (8, 64))
    found = []
    for count in (1, 2):
        torch.set_num_threads(count)
        model.zero_grad()
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        found.append([loss.detach(), *(each.grad for each in model.parameters())])
    assert len(found[0]) > 20 and all(map(torch.equal, *found))
