"""Reading a completion or a prompt, which TRL passes as a string or as a list of messages."""

Messages = list[dict[str, str]]


def content(completion: str | Messages) -> str:
    """What the model itself wrote: messages of a tool between its turns are not its text."""
    if isinstance(completion, str):
        return completion
    return "".join(
        message.get("content") or "" for message in completion if message.get("role", "assistant") == "assistant"
    )


def question(prompt: str | Messages) -> str:
    """The last user message, or a plain prompt whole."""
    if isinstance(prompt, str):
        return prompt
    return next((message.get("content") or "" for message in reversed(prompt) if message.get("role") == "user"), "")


def instructions(prompt: str | Messages) -> str:
    """Everything the prompt says, whoever says it."""
    return prompt if isinstance(prompt, str) else "\n".join(message.get("content") or "" for message in prompt)
