"""On a CPU that others use too, a run computes with as many threads as are fastest now, to the same bits."""

import subprocess
import sys

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from schema import hardware


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
    monkeypatch.setattr(
        hardware, "_seconds_by_threads", lambda numbers, dtype: {int(k[1:]): s for k, s in took.items()}
    )
    return hardware.use_fastest_threads(torch.float32), torch.get_num_threads()


def test_a_busy_machine_has_the_number_that_was_fastest(threads, monkeypatch):
    """Often one; which it is, other processes decide."""
    found = {}
    measure = hardware._seconds_by_threads
    monkeypatch.setattr(hardware, "_seconds_by_threads", lambda *given: found.update(measure(*given)) or found)
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)]
    try:
        said = hardware.use_fastest_threads(torch.float32)
    finally:
        for each in busy:
            each.kill()
    assert found.keys() == {1, 2} and min(found.values()) > 0
    chosen = torch.get_num_threads()
    assert found[chosen] <= min(found.values()) / 0.9 and bool(said) == (chosen == 1)


def test_a_library_that_sets_another_number_stops_no_run(threads, monkeypatch):
    torch.set_num_threads(3)
    hardware._threads["most"] = 2
    hardware.use_fastest_threads(torch.float32)
    assert torch.get_num_threads() in (1, 3)
    hardware._threads["next"] = 0.0
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)  # as vLLM's build for CPUs has it
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert hardware.use_fastest_threads(torch.float32) == ""


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
