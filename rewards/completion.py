"""The texts of completions and prompts, which TRL passes as strings or as lists of messages."""

Messages = list[dict[str, str]]


def content(completion: str | Messages) -> str:
    """Return the text that the model wrote, tool calls as code; the messages of tools between its
    turns are not its text."""
    if isinstance(completion, str):
        return completion
    text = ""
    for message in completion:
        if message.get("role", "assistant") != "assistant":
            continue
        text += _text(message)
        for call in message.get("tool_calls") or []:
            text += f"\n```\n{call}\n```\n"
    return text


def question(prompt: str | Messages) -> str:
    """Return the last user message, or all of a plain prompt."""
    if isinstance(prompt, str):
        return prompt
    for message in reversed(prompt):
        if message.get("role") == "user":
            return _text(message)
    return ""


def instructions(prompt: str | Messages) -> str:
    """Return the text of all messages of a prompt."""
    return prompt if isinstance(prompt, str) else "\n".join(map(_text, prompt))


def _text(message: dict) -> str:
    """Return the text of a message; "" if it has none (a call of a tool) or has parts instead
    (images)."""
    text = message.get("content")
    return text if isinstance(text, str) else ""
