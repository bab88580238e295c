"""The one place where a problem becomes a prompt: SFT, GRPO and evaluation all call it, so they
cannot disagree."""

# For a base model whose tokenizer has no chat template of its own. Plain text on purpose: a base
# model has never seen special tokens for turns, and would have to learn them before anything else.
PLAIN_CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message.role == 'system' %}{{ message.content }}\n\n"
    "{% elif message.role == 'user' %}Problem: {{ message.content }}\n\nSolution:\n"
    "{% else %}{{ message.content }}{{ eos_token }}\n\n{% endif %}"
    "{% endfor %}"
)

# The key of a row's messages before its problem; no parameter of a reward can have it.
TURNS = "the turns before"


def messages(
    problem: str | dict, system: str | None, example: dict | None = None
) -> list[dict[str, str]]:
    """The conversation that asks for a solution of `problem`, a text or a row, after a worked
    `example` (a row) where one is given. The row's own turns stand before it; its system message
    follows the recipe's.

    The example is part of the question and not a turn of its own, because the templates of
    reasoning models cut the thoughts out of past turns.
    """
    turns_before = []
    if isinstance(problem, dict):
        turns_before = list(problem.get(TURNS) or [])
        problem = problem["problem"]
    if turns_before and turns_before[0]["role"] == "system":
        texts = [system, turns_before.pop(0)["content"]]
        system = "\n\n".join(filter(None, texts))
    if example:
        worked = completion(
            example["reasoning"], example.get("answer") or example["solution"], opened=False
        )
        problem = f"{example['problem']}\n\n{worked}\n\n{problem}"
    turns = [{"role": "system", "content": system}] if system else []
    return [*turns, *turns_before, {"role": "user", "content": problem}]


def prompt_ids(tokenizer, conversation: list[dict[str, str]]) -> list[int]:
    """Token ids of the conversation up to where the completion starts; the same call GRPOTrainer
    makes."""
    return tokenizer.apply_chat_template(
        conversation, add_generation_prompt=True, tokenize=True, return_dict=True
    )["input_ids"]


def question_ids(tokenizer, problem: str | dict, system: str | None) -> list[int]:
    """`prompt_ids` of a problem, or of a row with the turns before it."""
    return prompt_ids(tokenizer, messages(problem, system))


def think_opened(tokenizer) -> bool:
    """Whether the chat template itself opens the thought, so that a completion starts inside
    `<think>`."""
    text = tokenizer.apply_chat_template(
        messages("?", None), add_generation_prompt=True, tokenize=False
    )
    return text.rstrip().endswith("<think>")


def completion(reasoning: str, answer: str, opened: bool) -> str:
    """The worked solution an SFT warm start learns to write, in the format the rewards ask for."""
    text = f"{reasoning}</think>\n<answer>{answer}</answer>"
    if opened:
        return text
    return f"<think>{text}"


def question_text(conversation: object) -> str:
    """What a conversation asks, to read: its question, or where it has several turns, all of them
    but the system's, with their roles. It may be a stranger's."""
    if isinstance(conversation, str):
        return conversation
    if not isinstance(conversation, list):
        return ""
    turns = []
    for message in conversation:
        if isinstance(message, dict) and message.get("role") != "system":
            turns.append((message.get("role"), str(message.get("content") or "")))
    if len(turns) == 1:
        return turns[0][1]
    return "\n\n".join(f"{role}: {text}" for role, text in turns)


def transcript(completion: object) -> str:
    """A completion to read, which may be a stranger's: the model's text, and on lines of their own
    each call of a tool and what the tool said. One without calls is its text."""
    if not isinstance(completion, list):
        completion = [{"content": completion}]
    lines = []
    for message in completion:
        lines += _lines(message)
        if isinstance(message, dict):
            for call in message.get("tool_calls") or []:
                lines += _lines(call)
    return "\n".join(lines)


def _lines(message: object) -> list[str]:
    match message:
        case {"role": "tool", "name": name, "content": content}:
            return [f"← {name}: {content}"]
        case {"content": content} if not content:
            return []
        case {"content": content}:
            return [str(content)]
        case {"function": {"name": name, "arguments": dict(arguments)}}:
            values = [str(value) for value in arguments.values() if value is not None]
            return [f"→ {name}: {' '.join(values)}"]
        case _:
            return [str(message)]


def end_of_turn(tokenizer) -> str | None:
    """The special token the chat template writes after an assistant's text, or None where it writes
    none.

    Base models of the Qwen family stop at `<|endoftext|>`, but their template ends a turn with
    `<|im_end|>`: a policy that learned the template would otherwise never seem to stop.
    """
    turn = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "@@"}]
    tail = tokenizer.apply_chat_template(turn, tokenize=False).rpartition("@@")[2].lstrip()
    special = {token.content for token in tokenizer.added_tokens_decoder.values()}
    return max((token for token in special if tail.startswith(token)), key=len, default=None)


def begins_with_bos(tokenizer) -> bool:
    """Whether the tokenizer by itself begins every text with a token for that."""
    return tokenizer.bos_token_id is not None and (
        tokenizer("?")["input_ids"][:1] == [tokenizer.bos_token_id]
    )


def writes_no_header(tokenizer) -> bool:
    """Whether the chat template leaves out what it writes before an assistant's text elsewhere."""
    turn = messages("?", None)
    text = tokenizer.apply_chat_template(turn, add_generation_prompt=True, tokenize=False)
    turn.append({"role": "assistant", "content": "@@"})
    before, _, _ = tokenizer.apply_chat_template(turn, tokenize=False).partition("@@")
    return before != text and before.startswith(text)


def tells_the_day(tokenizer) -> bool:
    """Whether the chat template writes today's date: the prompts of another day are then others."""
    text = tokenizer.apply_chat_template(
        messages("?", None),
        add_generation_prompt=True,
        tokenize=False,
        strftime_now=lambda form: "@@",
    )
    return "@@" in text
