import copy
import json
from contextlib import nullcontext
from functools import partial

import pytest
import torch

from console.faults import RecipeError
from data import prompt
from data.made import products
from data.problems import load
from evaluation import engines
from evaluation.audit import score_completions, with_incorrect_answers
from machine.launch import on_this_machine
from rewards.completion import content
from rewards.tools import calculator
from rewards.verifier.hosts import judged_text
from runs.records import completion_files
from runs.state import RunState
from schema.names import tools_of
from schema.recipe import load_recipe
from schema.sections import Sampling
from schema.settings import training_config
from stages import chat
from stages.sft import tokenised
from tests.support import TEMPLATES
from tests.tables import cases
from training import chat_templates, memory
from training.model import load_tokenizer
from training.tiny_models import _TINY_CHAT_TEMPLATE
from training.tools import (
    answer_calls,
    message_of,
    result_ids,
    sample_in_turns,
    tokenise_solution,
    use_tools,
)
from training.trainer import grpo_trainer
from viewer import groups
from viewer.runs import describe

TINY = "recipes/tiny-tools.yaml"
FEW = ["data.train=[products: {digits: 2, rows: 60, calls: 1.0}]", "sft=null"]
FEW += ["grpo.per_device_train_batch_size=8", "grpo.num_generations=4", "grpo.max_steps=2"]
FEW += ["grpo.num_iterations=1", "grpo.logging_steps=1"]
BAD = "error: not an expression of numbers, + - * / and brackets that has a value"


def call(text: str, name: str = "calculator", key: str = "expression") -> str:
    return f'<tool_call>{{"name": "{name}", "arguments": {json.dumps({key: text})}}}</tool_call>'


@cases(__file__, "calculator")
def test_the_calculator_is_exact_or_says_why_not(expression, said):
    assert calculator(expression) == (said or BAD)


def test_the_calculator_reads_no_expression_without_end():
    assert calculator("(" * 150) == calculator("9" * 201) == BAD


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer(load_recipe(TINY))


@pytest.mark.parametrize(
    ("text", "said", "told"),
    [
        (f"<think>{call('2*3')}<eos>", "<think>", ["6"]),
        (f"{call('2*3')} and {call('1/0')}<eos>", " and ", ["6", BAD]),
        (f"{call('2*3', 'abacus')}<eos>", "", ["{'error': 'Tool abacus not found.'}"]),
        ("a<eos>", "a", []),
        # What is no call is text.
        (call("2*3")[:-1], call("2*3")[:-1], []),
        (call("2*3", key="formula"), call("2*3", key="formula"), []),
        (call("2").replace('"2"', "2"), call("2").replace('"2"', "2"), []),
        (call("2").replace('"2"', "[" * 5000), call("2").replace('"2"', "[" * 5000), []),
        (call("\\q").replace("\\\\", "\\"), call("\\q").replace("\\\\", "\\"), []),
        (call("\ud800"), call("\ud800"), []),
    ],
)
def test_a_call_is_answered_and_anything_else_is_text(tokenizer, text, said, told):
    tools = tools_of(load_recipe(TINY))
    message = message_of(tokenizer, tokenizer(text)["input_ids"])
    assert message["content"] == said
    assert [each["content"] for each in answer_calls(message, tools)] == told
    assert ("tool_calls" in message) == bool(told)


@pytest.mark.parametrize(
    ("turns", "opened"),
    [
        (["<think>a", "b</think><answer>6</answer>"], "<think>"),
        (["<answer>5</answer>", "<answer>6</answer>"], ""),
        (["<think>a</think>", "<think>b</think>6"], ""),
    ],
)
def test_the_last_turn_is_judged_and_the_form_is_that_of_all(turns, opened):
    first, last = turns
    function = {"name": "calculator", "arguments": {"expression": "2*3"}}
    tool_call = {"type": "function", "function": function}
    completion = [
        {"role": "assistant", "content": first, "tool_calls": [tool_call]},
        {"role": "tool", "name": "calculator", "content": "<answer>6</answer>"},
        {"role": "assistant", "content": last},
    ]
    assert content(completion) == f"{first}\n```\n{tool_call}\n```\n{last}"
    assert judged_text(completion) == opened + last
    call_and_result = "→ calculator: 2*3\n← calculator: <answer>6</answer>"
    assert prompt.transcript(completion) == f"{first}\n{call_and_result}\n{last}"
    assert prompt.transcript(completion[2:]) == last


@pytest.mark.parametrize(
    "strange", [None, 5, [5], [{"role": "tool"}], [{"content": "x", "tool_calls": [3, {}]}]]
)
def test_a_strangers_completion_can_be_read(strange):
    assert isinstance(prompt.transcript(strange), str)


def test_a_warm_start_learns_the_calls_and_not_what_tools_say(tokenizer):
    [row] = products("train", digits=3, rows=1, calls=1.0)
    [made] = tokenised([row], tokenizer, None, None, {"calculator": calculator})
    learned = [i for i, of in zip(made["input_ids"], made["completion_mask"], strict=True) if of]
    answer = row["solution"]
    text = f"<think>{row['reasoning']}<eos></think>\n<answer>{answer}</answer><eos>"
    assert tokenizer.decode(learned) == text
    assert f"<eos>\n{answer}\n</think>" in tokenizer.decode(made["input_ids"])
    # A call that cannot be read ends no turn, and without tools all is text.
    assert tokenizer.decode(tokenise_solution(tokenizer, {}, text.removesuffix("<eos>"))[0]) == text
    broken = "x</tool_call>y"
    ids, *_ = tokenise_solution(tokenizer, {"calculator": calculator}, broken)
    assert tokenizer.decode(ids) == f"{broken}<eos>"


@pytest.fixture(scope="module")
def calling(tmp_path_factory):
    """(recipe, trainer, rows): the tiny model after a few steps on worked solutions, so that it
    calls."""
    torch.manual_seed(0)
    recipe = load_recipe(TINY, [*FEW, f"output_dir={tmp_path_factory.mktemp('tools')}"])
    tokenizer = load_tokenizer(recipe)
    rows = load("products", "train", {"digits": 2, "rows": 60, "calls": 1.0})[0]
    args = training_config(on_this_machine(recipe), "grpo")
    trainer = grpo_trainer(recipe, args, tokenizer, rows, [], None)
    solved = tokenised(rows[:8], tokenizer, None, None, tools_of(recipe))
    optimizer = torch.optim.AdamW(trainer.model.parameters(), 3e-3)
    for _ in range(80):
        ids = {"input_ids": list(solved["input_ids"])}
        batch = tokenizer.pad(ids, padding_side="right", return_tensors="pt")
        labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
        trainer.model(**batch, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return recipe, trainer, rows[:8]


@pytest.mark.parametrize("most", [None, 1])
@pytest.mark.parametrize("longest", [64, 17, 15, 14, 9, 5])
def test_evaluation_has_the_turns_of_trls_trainer(calling, longest, most, monkeypatch):
    """Token for token, also where a completion ends in a tool's turn, or before it."""
    _, trainer, rows = calling
    tokenizer = trainer.processing_class
    asked = [prompt.messages(row["problem"], None) for row in rows]
    monkeypatch.setattr(trainer, "max_completion_length", longest)
    monkeypatch.setattr(trainer.generation_config, "max_new_tokens", longest)
    monkeypatch.setattr(trainer, "max_tool_calling_iterations", most or 10**6)
    monkeypatch.setattr(trainer.generation_config, "do_sample", False)
    trainer.generation_kwargs["do_sample"] = False
    tools = {each.__name__: each for each in trainer.tools}
    trainer._sync_tool_dicts, trainer._async_tool_dicts = [tools] * len(rows), [{}] * len(rows)
    _, theirs, mask, said, *_ = trainer._generate(asked)
    model = trainer.model.eval()
    settings = {"max_new_tokens": longest, "sampling": Sampling()}
    sample = partial(engines.generate, model, tokenizer, **settings)
    prompts = [prompt.prompt_ids(tokenizer, each) for each in asked]
    ours = sample_in_turns(sample, tokenizer, tools, prompts, longest, most)
    trainer.model.train()
    assert [tokens for tokens, _ in ours] == theirs
    assert [messages for _, messages in ours] == said
    if longest < 14:  # not even the shortest product finds room
        assert all(all(each) for each in mask)
    if longest == 64:
        assert all(tokenizer.decode(tokens).count("<eos>") == 2 for tokens in theirs)
        assert {len(messages) for messages in said} == {3}


def test_what_a_tool_says_has_no_part_in_the_loss(calling, monkeypatch):
    _, trainer, _ = calling
    trainer.model.train()
    given = next(iter(trainer.get_train_dataloader()))
    batch = trainer._generate_and_score_completions(given)
    batch["advantages"] = torch.linspace(-1, 1, len(batch["advantages"])) + 0.1
    own = batch["completion_mask"] * batch["tool_mask"]
    told = (batch["completion_mask"] - own).bool()
    assert told.any(1).all() and own.any(1).all()
    changed = copy.deepcopy(batch)
    tokenizer, first = trainer.processing_class, told[0].nonzero()[1, 0]  # its first digit
    digit = tokenizer.decode([batch["completion_ids"][0, first]])
    assert digit.isdigit()
    another = tokenizer.convert_tokens_to_ids(str((int(digit) + 1) % 10))
    changed["completion_ids"][0, first] = another
    inner, seen = trainer._get_per_token_logps_and_entropies, []

    def leaf(*args, **kwargs):
        logps, *others = inner(*args, **kwargs)
        seen.append(logps.detach().requires_grad_())
        return seen[-1], *others

    monkeypatch.setattr(trainer, "_get_per_token_logps_and_entropies", leaf)
    trainer.current_gradient_accumulation_steps = 1
    for each in (batch, changed):
        inputs = each | {"num_items_in_batch": own.sum()}
        super(type(trainer), trainer)._compute_loss(trainer.model, inputs).backward()
    found = [(each.detach(), each.grad) for each in seen]
    (before, of_before), (after, of_after) = found
    assert before.isfinite().all() and (before <= 0).all()
    for gradient in (of_before, of_after):
        assert (gradient[told] == 0).all() and (gradient[own.bool()] != 0).all()
    assert before[0, first] != after[0, first]  # it is another token, and only the loss looks away
    torch.testing.assert_close(before[1:], after[1:])
    torch.testing.assert_close(of_before[1:], of_after[1:])
    assert torch.equal(before[0, :first], after[0, :first])


def test_a_run_writes_the_turns_and_the_page_shows_them(calling):
    recipe, trainer, _ = calling
    trainer.train()
    log = [line for line in trainer.state.log_history if "tools/call_frequency" in line]
    assert log and log[0]["tools/call_frequency"] > 0.5 and log[0]["completions/mean_length"] > 9
    path = recipe.stage_dir("grpo")
    file, *_ = completion_files(path)
    (_, group), *_ = groups.of_step(file, describe(RunState(path, recipe=recipe.resolved())))
    texts = [row["text"] for row in group["rows"]]
    assert any("→ calculator: " in text and "\n← calculator: " in text for text in texts)


def test_an_evaluation_judges_the_last_turn(calling):
    recipe, trainer, rows = calling
    model, tokenizer = trainer.model.eval(), trainer.processing_class
    prompts = [prompt.prompt_ids(tokenizer, prompt.messages(row["problem"], None)) for row in rows]
    made = engines.answering(recipe, model, tokenizer)(prompts, 0, Sampling())
    for row, each in zip(rows, made, strict=True):
        assert [turn["role"] for turn in each.turns] == ["assistant", "tool", "assistant"]
        assert each.text == "<think>" + each.turns[-1]["content"] and not each.truncated
        assert each.tokens > 12 and "<answer>" in each.text and row
    trainer.model.train()


@cases(__file__, "templates")
def test_a_template_that_does_not_know_tools_is_refused_in_one_line(template, fault):
    template = template.replace("TINY", _TINY_CHAT_TEMPLATE)
    with pytest.raises(RecipeError) as refused:
        load_tokenizer(load_recipe(TINY, [f"model.chat_template={json.dumps(template)}"]))
    start = "recipes/tiny-tools.yaml:8: tools: the model's chat template "
    assert str(refused.value).startswith(start + fault)
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize(("longest", "room"), [(4, False), (12, False), (13, True)])
def test_a_completion_without_room_for_a_call_is_refused(longest, room):
    recipe = load_recipe(TINY, [f"grpo.max_completion_length={longest}"])
    fault = f"^override grpo.max_.*: {longest} tokens hold no call .* more than 12$"
    with nullcontext() if room else pytest.raises(RecipeError, match=fault):
        load_tokenizer(recipe)


@pytest.mark.parametrize(
    "name", ["qwen2_5", "qwen3", "qwen3 without it", "qwen3_instruct_2507", "qwen3_training"]
)
def test_a_template_of_qwens_is_known(name):
    """As trl has them, or patches them; what stands between two turns is what the template writes
    there."""
    name, without, _ = name.partition(" without")
    tokenizer = load_tokenizer(load_recipe("recipes/tiny-arithmetic.yaml"))
    special = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"]
    tokenizer.add_special_tokens({"additional_special_tokens": special})
    tokenizer.eos_token = "<|im_end|>"
    given = ["tools=[calculator]", "grpo.max_completion_length=256"]
    given += ["model.chat_template_kwargs.enable_thinking=false"] if without else []
    recipe, template = load_recipe(TINY, given), (TEMPLATES / f"{name}.jinja").read_text()
    arguments = recipe.model.chat_template_kwargs or {}
    tokenizer.chat_template = chat_templates.with_arguments(template, arguments)
    use_tools(tokenizer, recipe, chat_templates.arguments_set(arguments))
    asked = tokenizer.decode(prompt.prompt_ids(tokenizer, prompt.messages("?", None)))
    begun = "<|im_start|>assistant\n" + ("<think>\n\n</think>\n\n" if without else "")
    assert '"name": "calculator"' in asked and asked.endswith(begun)
    said = [{"role": "tool", "name": "calculator", "content": "6"}]
    between = f"\n<|im_start|>user\n<tool_response>\n6\n</tool_response><|im_end|>\n{begun}"
    assert tokenizer.decode(result_ids(tokenizer, said)) == between
    message = message_of(tokenizer, tokenizer(f"so\n{call('2*3')}<|im_end|>")["input_ids"])
    assert message["content"] == "so\n"
    assert answer_calls(message, {"calculator": calculator}) == said
    assert message_of(tokenizer, tokenizer("so<|endoftext|>")["input_ids"])["content"] == "so"


def test_the_audit_pays_no_answer_that_a_tool_gave():
    recipe = load_recipe(TINY)
    rows = load("products", "train", {"digits": 2, "rows": 8})[0]
    table = score_completions(with_incorrect_answers(rows), rows, recipe)
    [of_tool] = [pay for pay in table if pay.name == "correct only in what a tool says"]
    assert not of_tool.beats and not [pay.name for pay in table if pay.beats]


def test_the_memory_of_a_tools_turn_is_estimated():
    """trl gives it the whole length again."""
    ours = memory.estimate(load_recipe(TINY))
    without = memory.estimate(load_recipe(TINY, ["tools=null"]))
    assert ours.kv_cache * (256 + 48) == without.kv_cache * (256 + 2 * 48)


def test_a_chat_shows_the_turns(calling, monkeypatch, capsys):
    recipe, trainer, rows = calling
    monkeypatch.setattr("training.model.load_for_sampling", lambda *given: trainer.model.eval())
    said = chat.answering(recipe, None)(rows[0]["problem"])
    trainer.model.train()
    assert "<answer>" in said and "← calculator: " in capsys.readouterr().out


def test_the_tiny_models_share_all_but_two_tokens():
    ours = load_tokenizer(load_recipe(TINY))
    theirs = load_tokenizer(load_recipe("recipes/tiny-arithmetic.yaml"))
    assert len(ours) == len(theirs) + 2
    assert ours.decode(prompt.prompt_ids(ours, prompt.messages("?", None))) == "calculator\n?\n"
