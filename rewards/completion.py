"""What a completion and a prompt say: TRL passes each as a string or as a list of messages."""

Messages = list[dict[str, str]]


def content(completion: str | Messages) -> str:
    """What the model itself wrote: the messages of a tool between its turns are not its text."""
    if isinstance(completion, str):
        return completion
    return "".join(_text(message) for message in completion if message.get("role", "assistant") == "assistant")


def question(prompt: str | Messages) -> str:
    """The last user message, or the whole of a plain prompt."""
    if isinstance(prompt, str):
        return prompt
    return next((_text(message) for message in reversed(prompt) if message.get("role") == "user"), "")


def instructions(prompt: str | Messages) -> str:
    """Everything the prompt says, whoever says it."""
    return prompt if isinstance(prompt, str) else "\n".join(map(_text, prompt))


def _text(message: dict) -> str:
    """The text of a message; "" for one that has none (a call of a tool) or has parts instead (images)."""
    text = message.get("content")
    return text if isinstance(text, str) else ""
