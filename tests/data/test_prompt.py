"""One prompt: SFT, GRPO and evaluation see the same tokens, and a policy can be seen to stop."""

import json

import pytest
from tokenizers import processors
from transformers import AutoTokenizer

from console.faults import RecipeError
from data import prompt
from evaluation.findings import _prompt_findings
from schema.recipe import load_recipe
from stages.sft import tokenised
from tests.support import ROOT, TEMPLATES
from tests.tables import cases
from training import tiny_models
from training.chat_templates import template_of, with_arguments
from training.model import load_tokenizer
from training.tiny_models import built_model

SYSTEM = "Think."
OPENING = (
    "{% for m in messages %}{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<think>\n{%"
    " endif %}"
)

# As Qwen3's: without thinking, the answer begins after an empty thought.
WITHOUT_THOUGHT = "{% if not enable_thinking|default(true) %}<|empty thought|>{% endif %}"
THINKS = (
    "{% for m in messages %}{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}"
    + WITHOUT_THOUGHT
    + "{% endif %}"
)


@pytest.fixture(
    scope="module",
    params=["tiny-qwen3", "tiny-qwen2", "no template", "opens the thought", "an argument"],
)
def tokenizer(request, tmp_path_factory, tiny_qwen2):
    if request.param == "tiny-qwen3":
        return AutoTokenizer.from_pretrained(
            built_model("tiny-qwen3", 1, tmp_path_factory.mktemp("built"))
        )
    tokenizer = AutoTokenizer.from_pretrained(tiny_qwen2)
    if request.param == "no template":
        tokenizer.chat_template = prompt.PLAIN_CHAT_TEMPLATE
    if request.param == "an argument":
        tokenizer.chat_template = with_arguments(THINKS, {"enable_thinking": False})
    if request.param == "opens the thought":
        tokenizer.chat_template = OPENING
    return tokenizer


def test_sft_learns_after_the_very_tokens_that_grpo_and_evaluation_prompt_with(tokenizer):
    conversation = prompt.messages("What is 1 + 1?", SYSTEM)
    row = {"problem": "What is 1 + 1?", "solution": "2", "reasoning": "1+1=2."}
    example = tokenised([row], tokenizer, SYSTEM, 512)[0]
    completion_starts = example["completion_mask"].index(1)
    # As GRPOTrainer does it (a batch of one).
    sampled_from = tokenizer.apply_chat_template(
        [conversation], add_generation_prompt=True, return_dict=True
    )
    assert example["input_ids"][:completion_starts] == sampled_from["input_ids"][0]
    assert prompt.prompt_ids(tokenizer, conversation) == sampled_from["input_ids"][0]
    assert example["input_ids"][-1] == tokenizer.eos_token_id
    assert set(example["completion_mask"][completion_starts:]) == {1}
    learned = tokenizer.decode(example["input_ids"][completion_starts:-1])
    opened = prompt.think_opened(tokenizer)
    assert learned == ("" if opened else "<think>") + "1+1=2.</think>\n<answer>2</answer>"
    whole = tokenizer.decode(example["input_ids"])
    assert whole.count("<think>") == 1


def test_rows_too_long_or_without_a_worked_solution_are_left_out(tokenizer, capsys):
    rows = [
        {"problem": "short", "solution": "2", "reasoning": "ok"},
        {"problem": "long", "solution": "2", "reasoning": "x" * 600},
        {"problem": "none", "solution": "2", "reasoning": None},
    ]
    assert len(tokenised(rows, tokenizer, None, 256)) == 1
    line = "left out 1 rows without a worked solution and 1 with more than 256 tokens"
    assert line in capsys.readouterr().out


def test_think_opened_and_end_of_turn(tiny_qwen2):
    tokenizer = AutoTokenizer.from_pretrained(tiny_qwen2)
    assert tokenizer.eos_token == "<|endoftext|>"
    assert prompt.end_of_turn(tokenizer) == "<|im_end|>"
    assert not prompt.think_opened(tokenizer)
    tokenizer.chat_template = OPENING
    assert prompt.think_opened(tokenizer)
    assert prompt.end_of_turn(tokenizer) is None


R1 = "<｜{}｜>".format


@cases(__file__, "the_templates_of_known_models")
def test_the_templates_of_known_models(template, arguments, tail, end, opened, dated, tiny_qwen2):
    """Where a completion starts, and what ends it."""
    tokenizer = AutoTokenizer.from_pretrained(tiny_qwen2)
    file = TEMPLATES / f"{template[:40]}.jinja"
    ends = ["<|im_end|>", "<|eot_id|>", R1("end▁of▁sentence")]
    tokenizer.add_special_tokens({"additional_special_tokens": ends})
    written = file.read_text() if file.is_file() else template
    tokenizer.chat_template = with_arguments(written, arguments)
    text = opening(tokenizer)
    assert text.endswith(tail)
    assert tokenizer.decode(prompt.prompt_ids(tokenizer, prompt.messages("?", None))) == text
    assert prompt.end_of_turn(tokenizer) == end
    assert (prompt.think_opened(tokenizer), prompt.tells_the_day(tokenizer)) == (opened, dated)


def opening(tokenizer, **arguments) -> str:
    conversation = prompt.messages("?", None)
    options = {"add_generation_prompt": True, "tokenize": False} | arguments
    return tokenizer.apply_chat_template(conversation, **options)


def test_a_recipe_gives_its_template_arguments():
    recipe, own = ROOT / "recipes/tiny-arithmetic.yaml", f"model.chat_template={json.dumps(THINKS)}"
    for thinks, thought in ("false", "<|empty thought|>"), ("true", ""):
        argument = f"model.chat_template_kwargs={{enable_thinking: {thinks}}}"
        tokenizer = load_tokenizer(load_recipe(recipe, [own, argument]))
        assert opening(tokenizer) == f"?\n{thought}"
    # A model that was merged has the argument in its template: a later recipe changes it, and so
    # does who applies it.
    template = with_arguments(tokenizer.chat_template, {"enable_thinking": False})
    tokenizer.chat_template = with_arguments(template, {"enable_thinking": True})
    assert opening(tokenizer) == "?\n"
    tokenizer.chat_template = template
    assert opening(tokenizer, enable_thinking=True) == "?\n"
    # `m` is a variable of its own, and a key of the recipe gives the tools
    with pytest.raises(ValueError, match="reads no argument 'm', but enable_thinking"):
        with_arguments(THINKS, {"m": True})
    with pytest.raises(ValueError, match="reads no argument 'tools', but none"):
        with_arguments("{% for tool in tools %}{% endfor %}", {"tools": "calculator"})
    kinds = {"no": False, "number": 2, "text": 'a "quoted" %} {{ text }} 😀'}
    tokenizer.chat_template = with_arguments("{{ [no, number, text] | tojson }}", kinds)
    assert json.loads(opening(tokenizer)) == list(kinds.values())


def test_a_tokenizer_comes_back_from_disk_as_it_was(tmp_path):
    folder = built_model("tiny-qwen3", 1, tmp_path)
    first = AutoTokenizer.from_pretrained(folder)
    first.save_pretrained(tmp_path / "again")
    text = "What is 1 + 1?\n<think>1+1=2.</think>\n<answer>2</answer>"
    again = AutoTokenizer.from_pretrained(tmp_path / "again")
    assert again(text)["input_ids"] == first(text)["input_ids"]
    assert first.decode(first(text)["input_ids"]) == text


def test_a_model_built_twice_from_a_seed_is_the_same(tmp_path):
    first, second, other = (
        (built_model("tiny-qwen3", seed, tmp_path / name) / "model.safetensors").read_bytes()
        for name, seed in (("a", 7), ("b", 7), ("c", 8))
    )
    assert first == second != other


def test_of_two_first_starts_both_have_the_built_model_complete(tmp_path, monkeypatch):
    starts = iter(["second"])

    def build(folder, seed):
        (folder / "config.json").touch()
        if next(starts, None):  # another, meanwhile
            built_model("tiny", 1, tmp_path)
        (folder / "model.safetensors").touch()

    monkeypatch.setitem(tiny_models.BUILDERS, "tiny", build)
    folder = built_model("tiny", 1, tmp_path)
    assert sorted(file.name for file in folder.iterdir()) == ["config.json", "model.safetensors"]
    assert list(tmp_path.iterdir()) == [folder]


BOS = "<|im_start|>"  # tiny-qwen2's tokenizer has none, so that one of its tokens stands for it


def with_bos(folder):
    """A tokenizer that begins every text with a BOS token, as Llama's and Gemma's do."""
    tokenizer = AutoTokenizer.from_pretrained(folder, bos_token=BOS)
    begin = [(BOS, tokenizer.bos_token_id)]
    added = processors.TemplateProcessing(single=f"{BOS} $A", special_tokens=begin)
    tokenizer.backend_tokenizer.post_processor = added
    return tokenizer


def test_a_base_model_without_a_template_begins_as_its_tokenizer_does(tiny_qwen2):
    tokenizer = with_bos(tiny_qwen2)
    tokenizer.chat_template = None
    tokenizer.chat_template = template_of(tokenizer, None, {})
    ids = prompt.question_ids(tokenizer, "What is 7 + 5?", None)
    assert tokenizer.decode(ids) == f"{BOS}Problem: What is 7 + 5?\n\nSolution:\n"
    plain = AutoTokenizer.from_pretrained(tiny_qwen2)
    plain.chat_template = None
    assert template_of(plain, None, {}) == prompt.PLAIN_CHAT_TEMPLATE


@cases(__file__, "templates_that_harm")
def test_what_a_template_does_to_a_prompt_is_said(template, message, tiny_qwen2):
    tokenizer = with_bos(tiny_qwen2)
    tokenizer.chat_template = template
    recipe = load_recipe(ROOT / "recipes/tiny-arithmetic.yaml", [])
    turns = [{"role": "user", "content": "x = 7."}, {"role": "assistant", "content": "Yes."}]
    row = {"problem": "What is x + 5?", prompt.TURNS: turns}
    faults = list(_prompt_findings(recipe, tokenizer, row))
    assert [message in fault.message for fault in faults] == [True] * bool(message)


def test_a_template_that_leaves_the_system_prompt_out_is_refused():
    own = "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}"
    changes = [f"model.chat_template={json.dumps(own)}", "prompt.system=Think."]
    with pytest.raises(RecipeError, match=r"does not write prompt\.system"):
        load_tokenizer(load_recipe(ROOT / "recipes/tiny-arithmetic.yaml", changes))
