"""What a completion and a prompt say: TRL passes each as a string or as a list of messages."""

from rewards.verifier.extract import last_turn

Messages = list[dict[str, str]]


def content(completion: str | Messages) -> str:
    """What the model itself wrote, calls as code: the messages of a tool between its turns are not
    its text."""
    calls = [
        [f"\n```\n{call}\n```\n" for call in each.get("tool_calls") or []]
        for each in _own(completion)
    ]
    return "".join(
        _text(each) + "".join(of) for each, of in zip(_own(completion), calls, strict=True)
    )


def answered(completion: str | Messages) -> str:
    """What is judged of a completion: the model's last turn, see `last_turn`."""
    return last_turn(list(map(_text, _own(completion))))


def _own(completion: str | Messages) -> Messages:
    messages = [{"content": completion}] if isinstance(completion, str) else completion
    return [each for each in messages if each.get("role", "assistant") == "assistant"]


def question(prompt: str | Messages) -> str:
    """The last user message, or the whole of a plain prompt."""
    if isinstance(prompt, str):
        return prompt
    return next(
        (_text(message) for message in reversed(prompt) if message.get("role") == "user"), ""
    )


def instructions(prompt: str | Messages) -> str:
    """Everything the prompt says, whoever says it."""
    return prompt if isinstance(prompt, str) else "\n".join(map(_text, prompt))


def _text(message: dict) -> str:
    """The text of a message; "" for one that has none (a call of a tool) or has parts instead
    (images)."""
    text = message.get("content")
    return text if isinstance(text, str) else ""
