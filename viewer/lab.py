"""The lab: the smallest problem that GRPO solves, a bandit with ten actions, with every number of every step.

An action is a completion of one token, the policy is the softmax of ten logits, and a reward is read off a landscape.
So nothing is hidden: the gradient is exact, by hand, and an update is plain SGD on the logits, without momentum, weight
decay or gradient clipping. The settings have the names that they have in a recipe's `grpo` section, and the loss is
that of trl 1.16 (`loss_type: grpo`; with completions of one token `dapo`, `bnpo` and `dr_grpo` are the same). For the
completions i = 1 … G of a group:

    ratio_i = exp(logp_i − old_logp_i)
    kl_i    = exp(ref_logp_i − logp_i) − (ref_logp_i − logp_i) − 1
    loss    = mean over i of: −min(ratio_i A_i, clip(ratio_i, 1 − ε, 1 + ε) A_i) + β kl_i

trl also multiplies kl_i by ratio_i, unless `use_bias_correction_kl` is false, as it is here and in the paper.

The algorithms differ in the advantage A_i = reward_i − baseline_i, and in whether they clip:

- grpo (Shao et al. 2024, arXiv:2402.03300): the mean of the group; divided by its standard deviation + 1e-4, unless
  `scale_rewards` is none. Clips.
- reinforce (Williams 1992): none, 0.
- reinforce_baseline (Sutton and Barto 2018, section 2.8): the mean of all rewards of earlier groups, at first 0.
- rloo (Kool et al. 2019; Ahmadian et al. 2024, arXiv:2402.14740): the mean of the other completions of the group.
- ppo (Schulman et al. 2017, arXiv:1707.06347): the critic's value. There is one state, so the critic is one learned
  number, at first 0, and takes an SGD step on the mean of (value − reward_i)² / 2 with each update. Clips.

Those that do not clip have ratio_i A_i in place of the min, which in the first update, where each ratio is 1, has the
gradient of A_i logp_i. All may have the KL term.
"""

import numpy as np

from schema.values import Each, Keys, Number, OneOf, count

ACTIONS = 10
ALGORITHMS = ("grpo", "reinforce", "reinforce_baseline", "rloo", "ppo")
CLIPS = ("grpo", "ppo")
LANDSCAPES = ("peak", "two peaks", "linear")
CRITIC_RATE = 0.1
SETTINGS = {  # what each may be, and its default
    "num_generations": (count(2, 64), 8),
    "num_iterations": (count(1, 8), 2),
    "max_steps": (count(1, 200), 200),
    "learning_rate": (Number(0, 10), 0.5),
    "temperature": (Number(0.1, 10), 1.0),
    "epsilon": (Number(0, 1), 0.2),
    "beta": (Number(0, 1), 0.0),
    "scale_rewards": (OneOf(("group", "none")), "group"),
    "noise": (Number(0, 1), 0.0),  # standard deviation of what is added to each reward
    "peak": (count(0, ACTIONS - 1), 5),  # of the landscape "peak"
    "logits": (Each(Number(-10, 10)), [0.0] * ACTIONS),  # to start from; this policy is the reference too
    "seed": (count(0, 2**32 - 1), 0),
}
MOST = 40_000  # completions × updates: what a run's answer may hold


@np.errstate(over="ignore", invalid="ignore")
def run(algorithm: str = "grpo", landscape: str = "peak", **settings) -> dict:
    """Train the policy, and say everything: a dict of plain lists and numbers.

    The same seed draws the same uniform numbers for every algorithm, so all start with the same group.

    Returns:
        algorithm, landscape and all settings; action_rewards (10,); reference (10,), its probabilities; from before the
        first step to after the last (steps + 1,): expected_reward, of the policy, without noise, and kl, exact, to the
        reference; the final probabilities (10,); steps, a list; and diverged, None or the number of the step, from 0,
        in which a number became infinite: the steps end before it.

        A step has: actions, rewards, old_probabilities, baselines and advantages (G,); mean and std of the rewards; and
        updates, a list of what `update` returns.

    Raises:
        ValueError: no such algorithm or landscape, or a setting that is unknown or out of its range.
    """
    settings = checked(algorithm, landscape, settings)
    action_rewards, rng = rewards_of(landscape, settings["peak"]), np.random.default_rng(settings["seed"])
    logits, temperature = np.array(settings["logits"], dtype=float), settings["temperature"]
    clip = settings["epsilon"] if algorithm in CLIPS else None
    rates = {name: settings[name] for name in ("beta", "temperature", "learning_rate")}
    now = reference = log_policy(logits, temperature)
    steps, curve, diverged = [], [_outcome(now, reference, action_rewards)], None
    total = value = 0.0
    while len(steps) < settings["max_steps"] and diverged is None:
        actions = rng.choice(ACTIONS, settings["num_generations"], p=np.exp(now))
        rewards = action_rewards[actions] + settings["noise"] * rng.standard_normal(len(actions))
        earlier = total / max(1, len(steps) * len(actions))
        estimate = {"reinforce_baseline": earlier, "ppo": value}.get(algorithm, 0.0)
        baselines, gains = advantages(algorithm, rewards, estimate, settings["scale_rewards"])
        total += rewards.sum()
        step = {"actions": actions, "rewards": rewards, "old_probabilities": np.exp(now[actions])}
        step |= {"mean": rewards.mean(), "std": rewards.std(ddof=1), "baselines": baselines, "advantages": gains}
        updates = []
        for _ in range(settings["num_iterations"]):
            made = update(logits, actions, gains, now, reference, clip, **rates)
            if not np.isfinite([made["loss"], *made["logits_after"]]).all():
                diverged = len(steps)
                break
            updates.append(_plain(made))
            logits, value = made["logits_after"], value - CRITIC_RATE * (value - rewards.mean())
        else:
            steps.append(_plain(step) | {"updates": updates})
            now = log_policy(logits, temperature)
            curve.append(_outcome(now, reference, action_rewards))
    said = {"algorithm": algorithm, "landscape": landscape, "settings": settings, "diverged": diverged}
    said |= {"action_rewards": action_rewards, "reference": np.exp(reference), "probabilities": np.exp(now)}
    said |= dict(zip(("expected_reward", "kl"), map(list, zip(*curve, strict=True)), strict=True))
    return _plain(said | {"steps": steps})


def checked(algorithm: str, landscape: str, settings: dict) -> dict:
    """All settings, the defaults included.

    Raises:
        ValueError: the message names the key, what it may be and what it is.
    """
    known = {"algorithm": OneOf(ALGORITHMS), "landscape": OneOf(LANDSCAPES)}
    known |= {name: rule for name, (rule, _) in SETTINGS.items()}
    if wrong := Keys(known).refusal({"algorithm": algorithm, "landscape": landscape, **settings}):
        raise ValueError(wrong)
    settings = {name: default for name, (_, default) in SETTINGS.items()} | settings
    if len(settings["logits"]) != ACTIONS:
        raise ValueError(f"logits: expected {ACTIONS} numbers, got {len(settings['logits'])}")
    factors = ("max_steps", "num_generations", "num_iterations")
    if (asked := int(np.prod([settings[name] for name in factors]))) > MOST:
        raise ValueError(f"{' × '.join(factors)}: expected at most {MOST:,}, got {asked:,}")
    return settings


def rewards_of(landscape: str, peak: int) -> np.ndarray:
    """The reward (10,) of each action a: "peak" exp(−(a − peak)²); "two peaks" the same shape, 0.7 high at 3 and 1.0
    high at 8; "linear" a / 9. The highest is always 1."""
    places = np.arange(ACTIONS)
    if landscape == "linear":
        return places / (ACTIONS - 1)
    if landscape == "peak":
        return np.exp(-((places - peak) ** 2.0))
    return np.maximum(0.7 * np.exp(-((places - 3) ** 2.0)), np.exp(-((places - 8) ** 2.0)))


def log_policy(logits: np.ndarray, temperature: float) -> np.ndarray:
    """Log-probabilities (10,) of the softmax of logits ÷ temperature, with which trl samples and trains alike."""
    scaled = logits / temperature
    scaled = scaled - scaled.max()
    return scaled - np.log(np.exp(scaled).sum())


def advantages(algorithm: str, rewards: np.ndarray, estimate: float = 0.0, scale_rewards: str = "group"):
    """(baselines, advantages), each (G,), of a group with these rewards (G,).

    Args:
        estimate: what was known before the group: the mean of earlier rewards, or the critic's value.
    """
    baselines = np.full(len(rewards), estimate)
    if algorithm == "grpo":
        baselines = np.full(len(rewards), rewards.mean())
    elif algorithm == "rloo":
        baselines = (rewards.sum() - rewards) / (len(rewards) - 1)
    gains = rewards - baselines
    if algorithm == "grpo" and scale_rewards == "group":
        gains = gains / (rewards.std(ddof=1) + 1e-4)
    return baselines, gains


def update(logits, actions, gains, old, reference, clip=None, beta=0.0, temperature=1.0, learning_rate=0.0) -> dict:
    """One step of SGD on a group, and the numbers that lead to it.

    Args:
        logits: (10,), of the policy as it is now; `actions`, `gains`: (G,), what was sampled and its advantages.
        old, reference: log-probabilities (10,) of the policy that sampled, and of the reference.
        clip: epsilon, or None where nothing is clipped.

    Returns:
        logits, probabilities and logits_after (10,); of each sampled action (G,): new_probabilities, ratios, the two
        branches of the min (unclipped, clipped), is_clipped (the gradient does not pass) and kl; exact_kl, the KL from
        policy to reference; loss, its part policy_loss, and its gradient (10,) by the logits.
    """
    now = log_policy(logits, temperature)
    ratios = np.exp(now[actions] - old[actions])
    unclipped = ratios * gains
    clipped = unclipped if clip is None else np.clip(ratios, 1 - clip, 1 + clip) * gains
    is_clipped = clipped < unclipped
    behind = reference[actions] - now[actions]
    kl = np.exp(behind) - behind - 1
    policy_loss = -np.minimum(unclipped, clipped).mean()
    # By logp_i: the ratio is its own derivative, and a clipped ratio is constant. By the logits: the softmax's.
    by_logp = (-np.where(is_clipped, 0, unclipped) + beta * (1 - np.exp(behind))) / len(actions)
    gradient = (np.bincount(actions, by_logp, ACTIONS) - by_logp.sum() * np.exp(now)) / temperature
    return {
        "logits": logits,
        "probabilities": np.exp(now),
        "new_probabilities": np.exp(now[actions]),
        "ratios": ratios,
        "unclipped": unclipped,
        "clipped": clipped,
        "is_clipped": is_clipped,
        "kl": kl,
        "exact_kl": np.exp(now) @ (now - reference),
        "policy_loss": policy_loss,
        "loss": policy_loss + beta * kl.mean(),
        "gradient": gradient,
        "logits_after": logits - learning_rate * gradient,
    }


def _outcome(now: np.ndarray, reference: np.ndarray, action_rewards: np.ndarray) -> tuple[float, float]:
    """The policy's expected reward, and its KL to the reference."""
    return float(np.exp(now) @ action_rewards), float(np.exp(now) @ (now - reference))


def _plain(numbers: dict) -> dict:
    """What JSON can hold of arrays and numpy's numbers."""
    return {name: each.tolist() if hasattr(each, "tolist") else each for name, each in numbers.items()}
