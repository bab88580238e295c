"""A stand-in for vLLM where there is no GPU, for the server mode of trl, whose client is the real
one. What `vllm serve` runs is this module, which samples with transformers. `install` makes a
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
import sys
import time
import zlib
from pathlib import Path

from tests.tables import yaml_text


def install(folder: Path) -> dict[str, str]:
    """Write the packages; the environment in which they are found."""
    packages = folder / "site-packages"
    for name, text in yaml_text(__file__, "packages").items():
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
    _, model, *words = sys.argv[1:]
    options = dict(word.split("=", 1) for word in words)
    address = (options["--host"], int(options["--port"]))
    serve(Path(os.environ["STAND_IN"]), model, address, options["--logprobs-mode"])
