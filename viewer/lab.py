"""The lab: the smallest problem that GRPO solves, a bandit with ten actions, with every number of
every step.

The page computes it in JavaScript (viewer/page/bandit.js), so that it needs no server. This is the
same arithmetic in numpy: tests compare it with trl's own, and the page's with it.

An action is a completion of one token, the policy is the softmax of ten logits, and a reward is
read off a landscape. So nothing is hidden: the gradient is exact, by hand, and an update is plain
SGD on the logits, without momentum, weight decay or gradient clipping. The settings have the names
that they have in a recipe's `grpo` section, and the loss is that of trl 1.16 (`loss_type: grpo`;
with completions of one token `dapo`, `bnpo` and `dr_grpo` are the same). For the completions i = 1
… G of a group:

    ratio_i = exp(logp_i − old_logp_i)
    kl_i    = exp(ref_logp_i − logp_i) − (ref_logp_i − logp_i) − 1
    loss    = mean over i of: −min(ratio_i A_i, clip(ratio_i, 1 − ε, 1 + ε) A_i) + β kl_i

trl also multiplies kl_i by ratio_i, unless `use_bias_correction_kl` is false, as it is here and in
the paper.

The algorithms differ in the advantage A_i = reward_i − baseline_i, and in whether they clip:

- grpo (Shao et al. 2024, arXiv:2402.03300): the mean of the group; divided by its standard
  deviation + 1e-4, unless `scale_rewards` is none. Clips.
- reinforce (Williams 1992): none, 0.
- reinforce_baseline (Sutton and Barto 2018, section 2.8): the mean of all rewards of earlier
  groups, at first 0.
- rloo (Kool et al. 2019; Ahmadian et al. 2024, arXiv:2402.14740): the mean of the other completions
  of the group.
- ppo (Schulman et al. 2017, arXiv:1707.06347): the critic's value. There is one state, so the
  critic is one learned number, at first 0, and takes an SGD step on the mean of (value − reward_i)²
  / 2 with each update. Clips.
- reinforce_plus_plus (Hu 2025, arXiv:2501.03262): the mean of the batch, divided by the batch's
  standard deviation + 1e-4. With one question the batch is the group. Its KL is no term of the
  loss: β (old_logp_i − ref_logp_i) is taken off reward_i. Clips.

Those that do not clip have ratio_i A_i in place of the min, which in the first update, where each
ratio is 1, has the gradient of A_i logp_i. All others may have the KL term.

Whoever divides by a standard deviation σ < 1 takes steps 1 / σ as long. `matched` lowers their
learning rate by the σ of the first policy's rewards, so that the algorithms are compared, and not
their rates.
"""

import numpy as np

ACTIONS = 10
ALGORITHMS = ("grpo", "reinforce", "reinforce_baseline", "rloo", "ppo", "reinforce_plus_plus")
CLIPS = ("grpo", "ppo", "reinforce_plus_plus")
LANDSCAPES = ("one peak", "two peaks", "linear")
CRITIC_RATE = 0.1
DRAWS = 3 * 64  # of uniform numbers a step, at most
SETTINGS = {  # with their defaults
    "num_generations": 8,
    "num_iterations": 2,
    "max_steps": 200,
    "learning_rate": 0.5,
    "temperature": 1.0,
    "epsilon": 0.2,
    "beta": 0.0,
    "scale_rewards": "group",
    "matched": True,  # whether learning rates are, as above
    "noise": 0.0,  # standard deviation of what is added to each reward
    "peak": 5,  # of the landscape "one peak"
    "logits": [0.0] * ACTIONS,  # to start from; this policy is the reference too
    "seed": 0,
}


@np.errstate(over="ignore", invalid="ignore")
def run(algorithm: str = "grpo", landscape: str = "one peak", **settings) -> dict:
    """Train the policy, and say everything: a dict of plain lists and numbers.

    The same seed draws the same uniform numbers for every algorithm, so all start with the same
    group.

    Returns:
        algorithm, landscape and all settings; action_rewards (10,); reference (10,), its
        probabilities; from before the first step to after the last (steps + 1,): expected_reward,
        of the policy, without noise, kl, exact, to the reference, entropy and largest, its largest
        probability; the final probabilities (10,); steps, a list; learning_rate, as matched; and
        diverged, None or the number of the step, from 0, in which a number became
        infinite: the steps end before it.

        A step has: actions, rewards, old_probabilities, baselines and advantages (G,); mean and std
        of the rewards; and updates, a list of what `update` returns.
    """
    settings = SETTINGS | settings
    action_rewards = rewards_of(landscape, settings["peak"])
    logits, temperature = np.array(settings["logits"], dtype=float), settings["temperature"]
    clip = settings["epsilon"] if algorithm in CLIPS else None
    now = reference = log_policy(logits, temperature)
    in_reward = settings["beta"] if algorithm == "reinforce_plus_plus" else 0.0
    in_loss = settings["beta"] - in_reward
    rates = {
        "beta": in_loss,
        "temperature": temperature,
        "learning_rate": settings["learning_rate"],
    }
    if settings["matched"] and divides(algorithm, settings["scale_rewards"]):
        chances = np.exp(now)
        rates["learning_rate"] *= np.sqrt(
            chances @ (action_rewards - chances @ action_rewards) ** 2
        )
    steps, curve, diverged = [], [_outcome(now, reference, action_rewards)], None
    total = value = 0.0
    while len(steps) < settings["max_steps"] and diverged is None:
        drawn = uniform(
            settings["seed"], DRAWS * len(steps), 3 * settings["num_generations"]
        ).reshape(3, -1)
        actions = np.searchsorted(np.cumsum(np.exp(now))[:-1], drawn[0], side="right")
        normal = np.sqrt(-2 * np.log(drawn[1])) * np.cos(2 * np.pi * drawn[2])
        rewards = (
            action_rewards[actions]
            + settings["noise"] * normal
            - in_reward * (now - reference)[actions]
        )
        earlier = total / max(1, len(steps) * len(actions))
        estimate = {"reinforce_baseline": earlier, "ppo": value}.get(algorithm, 0.0)
        baselines, gains = advantages(algorithm, rewards, estimate, settings["scale_rewards"])
        total += rewards.sum()
        step = {"actions": actions, "rewards": rewards, "old_probabilities": np.exp(now[actions])}
        step |= {
            "mean": rewards.mean(),
            "std": rewards.std(ddof=1),
            "baselines": baselines,
            "advantages": gains,
        }
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
    said = {
        "algorithm": algorithm,
        "landscape": landscape,
        "settings": settings,
        "diverged": diverged,
    }
    said["learning_rate"] = rates["learning_rate"]
    said |= {
        "action_rewards": action_rewards,
        "reference": np.exp(reference),
        "probabilities": np.exp(now),
    }
    said |= {name: [each[name] for each in curve] for name in curve[0]}
    return _plain(said | {"steps": steps})


def uniform(seed: int, place: int, count: int) -> np.ndarray:
    """Numbers (count,) between 0 and 1 from a place of the seed's sequence: mulberry32, which
    JavaScript can do."""
    t = (
        np.arange(place + 1, place + count + 1, dtype=np.uint64) * 0x6D2B79F5 + seed * 0x9E3779B9
    ).astype(np.uint32)
    t = (t ^ t >> 15) * (t | 1)
    t ^= t + (t ^ t >> 7) * (t | 61)
    return ((t ^ t >> 14) + 0.5) / 2**32


def rewards_of(landscape: str, peak: int) -> np.ndarray:
    """The reward (10,) of each action a: "one peak" 1 − |a − peak| / 5, at least 0; "two peaks" 1
    at 8 alone, and
    0.7 × (1 − |a − 3| / 4), at least 0, elsewhere; "linear" a / 9. The highest is always 1."""
    places = np.arange(ACTIONS)
    if landscape == "linear":
        return places / (ACTIONS - 1)
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
    """One step of SGD on a group, and the numbers that lead to it.

    Args:
        logits: (10,), of the policy as it is now; `actions`, `gains`: (G,), what was sampled and
            its advantages.
        old, reference: log-probabilities (10,) of the policy that sampled, and of the reference.
        clip: epsilon, or None where nothing is clipped.

    Returns:
        logits, probabilities and logits_after (10,); of each sampled action (G,):
        new_probabilities, ratios, the two branches of the min (unclipped, clipped), is_clipped (the
        gradient does not pass) and kl; exact_kl, the KL from policy to reference; loss, its part
        policy_loss, and its gradient (10,) by the logits.
    """
    now = log_policy(logits, temperature)
    ratios = np.exp(now[actions] - old[actions])
    unclipped = ratios * gains
    clipped = unclipped if clip is None else np.clip(ratios, 1 - clip, 1 + clip) * gains
    is_clipped = clipped < unclipped
    behind = reference[actions] - now[actions]
    kl = np.exp(behind) - behind - 1
    policy_loss = -np.minimum(unclipped, clipped).mean()
    # By logp_i: the ratio is its own derivative, and a clipped ratio is constant. By the logits:
    # the softmax's.
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


def _outcome(
    now: np.ndarray, reference: np.ndarray, action_rewards: np.ndarray
) -> dict[str, float]:
    """What a step leaves: the policy's expected reward, its KL to the reference, its entropy, its
    largest chance."""
    chances = np.exp(now)
    found = {"expected_reward": chances @ action_rewards, "kl": chances @ (now - reference)}
    return found | {"entropy": -chances @ now, "largest": chances.max()}


def _plain(numbers: dict) -> dict:
    """What JSON can hold of arrays and numpy's numbers."""
    return {
        name: each.tolist() if hasattr(each, "tolist") else each for name, each in numbers.items()
    }
