"""The numpy twin of docs/lab/bandit.js: the lab's bandit, computed a second time.

The product computes in JavaScript alone, whose first lines state the problem, the loss and what
each algorithm does. Tests compare this twin with trl's own loss, gradient and advantages, and with
exact expectations; then, in a browser, the page's numbers with the twin's.
"""

import json
import re

import numpy as np

from tests.support import ROOT

LAB_PAGE = (ROOT / "docs/lab/index.html").read_text(encoding="utf-8")
LAB = json.loads(re.search(r'id="settings">(.*?)</script>', LAB_PAGE, re.S)[1])

ALGORITHMS = LAB["algorithms"]
LANDSCAPES = LAB["landscapes"]
DEFAULTS = LAB["defaults"]
ACTIONS = 10
CLIPS = ("grpo", "ppo", "reinforce_plus_plus")
CRITIC_RATE = 0.1
DRAWS = 3 * 64  # of uniform numbers a step, at most


@np.errstate(over="ignore", invalid="ignore")
def run(algorithm: str = "grpo", landscape: str = "one peak", **settings) -> dict:
    """Train the policy as `train` of bandit.js does, and return what it returns, and the landscape:
    plain lists and numbers."""
    settings = DEFAULTS | settings
    action_rewards = rewards_of(landscape, settings["peak"])
    logits = np.array(settings["logits"], dtype=float)
    temperature = settings["temperature"]
    clip = settings["epsilon"] if algorithm in CLIPS else None
    now = reference = log_policy(logits, temperature)
    learning_rate, beta = matched(algorithm, settings, action_rewards)
    beta_in_reward = beta if algorithm == "reinforce_plus_plus" else 0.0
    rates = {"beta": beta - beta_in_reward, "temperature": temperature}
    rates["learning_rate"] = learning_rate
    steps = []
    curve = [_outcome(now, reference, action_rewards)]
    diverged = None
    reward_sum = 0.0
    value = 0.0
    while len(steps) < settings["max_steps"] and diverged is None:
        actions, noise = _sample(now, len(steps), settings)
        kl_penalty = beta_in_reward * (now - reference)[actions]
        rewards = action_rewards[actions] + settings["offset"] + noise - kl_penalty
        mean_before = reward_sum / max(1, len(steps) * len(actions))
        estimate = {"reinforce_baseline": mean_before, "ppo": value}.get(algorithm, 0.0)
        baselines, gains = advantages(algorithm, rewards, estimate, settings["scale_rewards"])
        reward_sum += rewards.sum()
        updates = []
        for _ in range(settings["num_iterations"]):
            numbers = update(logits, actions, gains, now, reference, clip, **rates)
            if not np.isfinite([numbers["loss"], *numbers["logits_after"]]).all():
                diverged = len(steps)
                break
            updates.append(_plain(numbers))
            logits = numbers["logits_after"]
            value -= CRITIC_RATE * (value - rewards.mean())
        else:
            step = {"actions": actions, "rewards": rewards, "mean": rewards.mean()}
            step |= {"std": rewards.std(ddof=1), "baselines": baselines, "advantages": gains}
            step["old_probabilities"] = np.exp(now[actions])
            steps.append(_plain(step) | {"updates": updates})
            now = log_policy(logits, temperature)
            curve.append(_outcome(now, reference, action_rewards))
    result = {"algorithm": algorithm, "landscape": landscape, "settings": settings}
    result |= {"diverged": diverged, "learning_rate": learning_rate, "beta": beta, "steps": steps}
    result |= {"action_rewards": action_rewards, "reference": np.exp(reference)}
    result["probabilities"] = np.exp(now)
    for name in curve[0]:
        result[name] = [outcome[name] for outcome in curve]
    return _plain(result)


def uniform(seed: int, place: int, count: int) -> np.ndarray:
    """Numbers (count,) between 0 and 1 from a place of the seed's sequence: mulberry32, which
    JavaScript can do."""
    places = np.arange(place + 1, place + count + 1, dtype=np.uint64)
    t = (places * 0x6D2B79F5 + seed * 0x9E3779B9).astype(np.uint32)
    t = (t ^ t >> 15) * (t | 1)
    t ^= t + (t ^ t >> 7) * (t | 61)
    return ((t ^ t >> 14) + 0.5) / 2**32


def rewards_of(landscape: str, peak: int) -> np.ndarray:
    """The reward (10,) of each action of a landscape."""
    places = np.arange(ACTIONS)
    if landscape == "linear":
        return places / (ACTIONS - 1)
    if landscape == "plateau":
        return ((places >= 3) & (places <= 6)).astype(float)
    if landscape == "one peak":
        return np.maximum(0, 1 - abs(places - peak) / 5)
    return np.where(places == 8, 1, np.maximum(0, 0.7 * (1 - abs(places - 3) / 4)))


def log_policy(logits: np.ndarray, temperature: float) -> np.ndarray:
    """Log-probabilities (10,) of the softmax of logits ÷ temperature, with which trl samples and
    trains alike."""
    scaled = logits / temperature
    scaled = scaled - scaled.max()
    return scaled - np.log(np.exp(scaled).sum())


def divides(algorithm: str, scale_rewards: str) -> bool:
    """Whether it divides by the standard deviation of the group."""
    return algorithm == "reinforce_plus_plus" or (algorithm == "grpo" and scale_rewards == "group")


def matched(algorithm: str, settings: dict, action_rewards: np.ndarray) -> tuple[float, float]:
    """(learning rate, β): where `matched` asks for it, of what divides by σ times σ and, in GRPO, ÷
    σ. σ is that of the first policy's rewards, with their noise."""
    if not settings["matched"] or not divides(algorithm, settings["scale_rewards"]):
        return settings["learning_rate"], settings["beta"]
    policy = np.exp(log_policy(np.array(settings["logits"]), settings["temperature"]))
    variance = policy @ (action_rewards - policy @ action_rewards) ** 2
    deviation = np.sqrt(variance + settings["noise"] ** 2)
    beta = settings["beta"] / (deviation if algorithm == "grpo" else 1.0)
    return settings["learning_rate"] * deviation, beta


def advantages(
    algorithm: str, rewards: np.ndarray, estimate: float = 0.0, scale_rewards: str = "group"
):
    """(baselines, advantages), each (G,), of a group with these rewards (G,).

    Args:
        estimate: what was known before the group: the mean of earlier rewards, or the critic's
            value.
    """
    baselines = np.full(len(rewards), estimate)
    if algorithm in ("grpo", "reinforce_plus_plus"):
        baselines = np.full(len(rewards), rewards.mean())
    elif algorithm == "rloo":
        baselines = (rewards.sum() - rewards) / (len(rewards) - 1)
    gains = rewards - baselines
    if divides(algorithm, scale_rewards):
        gains = gains / (rewards.std(ddof=1) + 1e-4)
    return baselines, gains


def update(
    logits, actions, gains, old, reference, clip=None, beta=0.0, temperature=1.0, learning_rate=0.0
) -> dict:
    """One step of SGD on a group, and the numbers that lead to it, as `update` of bandit.js names
    them: of the policy (10,), of the sampled actions (G,).

    Args:
        logits: (10,), of the policy as it is now; `actions`, `gains`: (G,), what was sampled and
            its advantages.
        old, reference: log-probabilities (10,) of the policy that sampled, and of the reference.
        clip: epsilon, or None where nothing is clipped.
    """
    now = log_policy(logits, temperature)
    ratios = np.exp(now[actions] - old[actions])
    unclipped = ratios * gains
    clipped = unclipped if clip is None else np.clip(ratios, 1 - clip, 1 + clip) * gains
    is_clipped = clipped < unclipped
    log_ratio = reference[actions] - now[actions]
    kl = np.exp(log_ratio) - log_ratio - 1
    policy_loss = -np.minimum(unclipped, clipped).mean()
    # By logp_i: the ratio is its own derivative, and a clipped ratio is constant. By the logits:
    # the softmax's.
    by_logp = (-np.where(is_clipped, 0, unclipped) + beta * (1 - np.exp(log_ratio))) / len(actions)
    pushed = np.bincount(actions, by_logp, len(logits))
    gradient = (pushed - by_logp.sum() * np.exp(now)) / temperature
    numbers = {"logits": logits, "probabilities": np.exp(now), "ratios": ratios, "kl": kl}
    numbers |= {"new_probabilities": np.exp(now[actions]), "is_clipped": is_clipped}
    numbers |= {"unclipped": unclipped, "clipped": clipped, "policy_loss": policy_loss}
    numbers |= {"exact_kl": np.exp(now) @ (now - reference), "gradient": gradient}
    numbers["loss"] = policy_loss + beta * kl.mean()
    return numbers | {"logits_after": logits - learning_rate * gradient}


def _sample(now: np.ndarray, step: int, settings: dict) -> tuple[np.ndarray, np.ndarray]:
    """(actions, noise), each (G,): what the policy answers in a step, and what is added to the
    rewards. The same seed draws the same uniform numbers for every algorithm."""
    draws = uniform(settings["seed"], DRAWS * step, 3 * settings["num_generations"]).reshape(3, -1)
    actions = np.searchsorted(np.cumsum(np.exp(now))[:-1], draws[0], side="right")
    normal = np.sqrt(-2 * np.log(draws[1])) * np.cos(2 * np.pi * draws[2])
    return actions, settings["noise"] * normal


def _outcome(
    now: np.ndarray, reference: np.ndarray, action_rewards: np.ndarray
) -> dict[str, float]:
    """What a step leaves: the policy's expected reward, its KL to the reference, its entropy, its
    largest probability."""
    policy = np.exp(now)
    outcome = {"expected_reward": policy @ action_rewards, "kl": policy @ (now - reference)}
    return outcome | {"entropy": -policy @ now, "largest": policy.max()}


def _plain(numbers: dict) -> dict:
    """What JSON can hold of arrays and numpy's numbers."""
    return {
        name: value.tolist() if hasattr(value, "tolist") else value
        for name, value in numbers.items()
    }
