"""A stand-in for vLLM where there is no GPU, for the server mode of trl, whose client is the real
one. What `trl vllm-serve` runs is this module, which samples with transformers. `install` makes a
folder of what the client imports, in which

- the weights reach the server through a file: vLLM sends them over NCCL, which a CPU has not
- a CPU passes for a GPU, which the client asks for
- `requests`, which comes with vLLM, is a few lines of urllib that ask once, and not again for a
  minute

The environment's STAND_IN is a folder of the test's. While it has a file `hold`, the server keeps a
request for completions waiting, and writes `held`. DIES_AFTER: so many of these requests it
answers, and then it is gone.
"""

import http.server
import json
import os
import re
import sys
import time
import zlib
from pathlib import Path

PACKAGES = """
=== vllm/__init__.py
__version__, LLM, RequestOutput, SamplingParams = '0.31.0', None, None, None
=== vllm/entrypoints/cli/main.py
import runpy
runpy.run_module('tests.vllm_stand_in', run_name='__main__')
=== vllm/sampling_params.py
StructuredOutputsParams = None
=== vllm/utils/network_utils.py
import sys, torch
class GPU:
    type, index = "cuda", None
    def __init__(self, *_):
        pass
class Torch:
    device = GPU
    def __getattr__(self, name):
        return getattr(torch, name)
sys.modules["trl.generation.vllm_client"].torch = Torch()
def get_ip():
    return "127.0.0.1"
=== vllm/distributed/__init__.py
def model_parallel_is_initialized():
    return False
=== vllm/distributed/weight_transfer/nccl_common.py
from types import SimpleNamespace
def trainer_init(info):
    return SimpleNamespace(group=SimpleNamespace())
=== vllm/distributed/weight_transfer/packed_tensor.py
import os
from safetensors.torch import save_file
def packed_nccl_broadcast_producer(iterator, group, src, post_iter_func):
    file = os.path.join(os.environ["STAND_IN"], "weights")
    save_file({name: tensor.detach().clone() for name, tensor in iterator}, file + ".part")
    os.replace(file + ".part", file)
=== requests/__init__.py
import json, urllib.request
from types import SimpleNamespace
from requests import exceptions
from requests.exceptions import ConnectionError
def get(url, body=None, params=None):
    data = body if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data)) as answer:
            text = answer.read().decode()
    except OSError as error:
        raise ConnectionError(error) from None
    return SimpleNamespace(status_code=200, headers={}, text=text, json=lambda: json.loads(text))
class Session:
    get = staticmethod(get)
    def post(self, url, json=None):
        return get(url, json or {})
    def mount(self, *_):
        pass
=== requests/exceptions.py
class RequestException(OSError):
    pass
class ConnectionError(RequestException):
    pass
=== requests/adapters.py
HTTPAdapter = dict
=== urllib3/util/retry.py
Retry = dict
"""


def install(folder: Path) -> dict[str, str]:
    """Write the packages; the environment in which they are found."""
    packages = folder / "site-packages"
    _, *parts = re.split(r"^=== (.*)\n", PACKAGES, flags=re.M)
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        (packages / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / name).write_text(text)
    return {"PYTHONPATH": str(packages), "STAND_IN": str(folder)}


def serve(folder: Path, model: str, address: tuple[str, int], mode: str):
    from transformers import AutoModelForCausalLM

    policy = AutoModelForCausalLM.from_pretrained(model).eval()
    answered = 0

    def update(asked: dict) -> dict:
        from safetensors.torch import load_file

        while not (folder / "weights").is_file():
            time.sleep(0.01)
        weights = load_file(folder / "weights")
        (folder / "weights").unlink()
        assert list(weights) and set(weights) == set(asked["update_info"]["names"])
        assert not policy.load_state_dict(weights, strict=False).unexpected_keys
        return {}

    def complete(asked: dict) -> dict:
        nonlocal answered
        if answered == int(os.environ.get("DIES_AFTER", -1)):
            os._exit(9)
        while (folder / "hold").is_file():
            (folder / "held").touch()
            time.sleep(0.1)
        answered += 1
        return {"choices": choices(policy, asked)}

    config = {"weight_transfer_config": {}, "model_config": {"logprobs_mode": mode}}
    get = {"/health": {}, "/v1/models": {"data": [{"id": model}]}}
    get |= {"/server_info": {"vllm_config": config}, "/get_world_size": {"world_size": 1}}
    post = {"/update_weights": update, "/v1/completions": complete}

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.answer(get[self.path.partition("?")[0]])

        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.answer(post.get(self.path, lambda _: {})(asked))

        def answer(self, value: dict):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(value).encode())

        def log_message(self, *_):
            pass

    http.server.HTTPServer(address, Answer).serve_forever()


def choices(policy, asked: dict) -> list[dict]:
    """Completions as vLLM answers them. The same question to the same weights has the same
    answer."""
    import torch

    prompts = [prompt for prompt in asked["prompt"] for _ in range(asked["n"])]
    width, stops = max(map(len, prompts)), asked["stop_token_ids"]
    torch.manual_seed(zlib.crc32(json.dumps(prompts).encode()))
    ids = [[stops[0]] * (width - len(prompt)) + prompt for prompt in prompts]
    mask = [[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts]
    settings = {"do_sample": True, "temperature": asked["temperature"], "top_k": 0}
    settings |= {"max_new_tokens": asked["max_tokens"], "attention_mask": torch.tensor(mask)}
    settings |= {"eos_token_id": stops, "pad_token_id": stops[0]}
    settings |= {"output_scores": True, "return_dict_in_generate": True}
    out = policy.generate(torch.tensor(ids), **settings)
    logprobs = torch.stack(out.scores, 1).log_softmax(-1)
    sampled = out.sequences[:, width:].tolist()
    completions = []
    for prompt, row, scores in zip(prompts, sampled, logprobs, strict=True):
        ends = [place for place, token in enumerate(row) if token in stops]
        tokens = row[: ends[0] + 1 if ends else None]
        chances = [float(scores[place, token]) for place, token in enumerate(tokens)]
        said = {"tokens": [f"token_id:{token}" for token in tokens], "token_logprobs": chances}
        said["top_logprobs"] = [None] * len(tokens)
        completions.append({"prompt_token_ids": prompt, "token_ids": tokens, "logprobs": said})
    return completions


if __name__ == "__main__":
    options = dict(zip(sys.argv, sys.argv[1:], strict=False))
    address, mode = (options["--host"], int(options["--port"])), options["--logprobs-mode"]
    name = sys.argv[-1].removeprefix("--served-model-name=")
    serve(Path(os.environ["STAND_IN"]), name, address, mode)
