"use strict";
// The smallest problem that GRPO solves, a bandit of ten actions, with every number of every step.
// Tests run it beside the same arithmetic in numpy, which they compare with trl's.
//
// An action is a completion of one token, the policy the softmax of ten logits; a reward is read
// off a landscape. The gradient is exact, by hand, and an update is plain SGD on the logits. The
// settings are named as in a recipe's `grpo` section. The loss is trl 1.16's, for a group:
//
//     ratio_i = exp(logp_i − old_logp_i)
//     kl_i    = exp(ref_logp_i − logp_i) − (ref_logp_i − logp_i) − 1      trl: × ratio_i
//     loss    = mean over i of: −min(ratio_i A_i, clip(ratio_i, 1 − ε, 1 + ε) A_i) + β kl_i
//
// The algorithms differ in the advantage A_i = reward_i − baseline_i, and in whether they clip: see
// the list in index.html. Those that do not clip have ratio_i A_i in place of the min. Whoever
// divides by a deviation σ < 1 takes steps 1 / σ as long: `matched` multiplies their learning rate
// by the σ of the first policy's rewards, and divides GRPO's β, whose KL is not divided, by it.

const ACTIONS = 10;
const CRITIC_RATE = 0.1;
const CLIPPING = ["grpo", "ppo", "reinforce_plus_plus"];
const DRAWS = 3 * 64; // of uniform numbers a step, at most

/** What an algorithm divides a group's rewards by: the standard deviation of the group, or none. */
function scaleOf(algorithm, { scale_rewards }) {
  if (algorithm === "reinforce_plus_plus") return "group";
  return algorithm === "grpo" ? scale_rewards : "none";
}

/** The reward of each action on one of four landscapes. */
function rewardsOf(landscape, peak) {
  return Array.from({ length: ACTIONS }, (_, action) => {
    if (landscape === "linear") return action / (ACTIONS - 1);
    if (landscape === "plateau") return Number(action >= 3 && action <= 6);
    if (landscape === "one peak") return Math.max(0, 1 - Math.abs(action - peak) / 5);
    return action === 8 ? 1 : Math.max(0, 0.7 * (1 - Math.abs(action - 3) / 4));
  });
}

/** The advantages of a group; `estimate`: the baseline of those that know it before. */
function compared(algorithm, rewards, estimate, settings) {
  if (!["grpo", "reinforce_plus_plus", "rloo"].includes(algorithm)) {
    return rewards.map((reward) => reward - estimate);
  }
  const scale = scaleOf(algorithm, settings);
  return advantages(rewards, scale, [], algorithm === "rloo").advantages;
}

/** One step of SGD on a group: its loss, gradient and logits_after. `clip`: epsilon, or null. */
function update(logits, actions, gains, old, reference, options) {
  const { clip, beta, temperature, learning_rate } = options;
  const now = logPolicy(logits, temperature);
  const bounds = clip === null ? null : [1 - clip, 1 + clip];
  const slopes = logits.map(() => 0); // of the loss, by the log-probability of each action
  let loss = 0;
  actions.forEach((action, i) => {
    const token = terms(now[action], old[action], reference[action], gains[i], bounds, beta);
    const slope = token.stopped ? 0 : -token.unclipped;
    const slopeOfKl = beta * (1 - Math.exp(reference[action] - now[action]));
    slopes[action] += (slope + slopeOfKl) / actions.length;
    loss += token.loss / actions.length;
  });
  const total = sum(slopes);
  const gradient = slopes.map((slope, i) => (slope - total * Math.exp(now[i])) / temperature);
  const logits_after = logits.map((logit, action) => logit - learning_rate * gradient[action]);
  return { loss, gradient, logits_after };
}

/** The learning rate and β of an algorithm: see `matched` above. */
function matchedTo(algorithm, settings, actionRewards) {
  const { learning_rate, beta } = settings;
  if (!settings.matched || scaleOf(algorithm, settings) === "none") return { learning_rate, beta };
  const chances = logPolicy(settings.logits, settings.temperature).map(Math.exp);
  const mean = sum(chances.map((chance, i) => chance * actionRewards[i]));
  const variance = sum(chances.map((chance, i) => chance * (actionRewards[i] - mean) ** 2));
  const deviation = Math.sqrt(variance + settings.noise ** 2);
  const divisor = algorithm === "grpo" && deviation > 0 ? deviation : 1;
  return { learning_rate: learning_rate * deviation, beta: beta / divisor };
}

/** The group of a step: actions, and the noise of their rewards. */
function sampled(logs, step, { seed, num_generations, noise }) {
  const draws = uniform(seed, DRAWS * step, 3 * num_generations);
  const chances = logs.map(Math.exp);
  const actions = draws.slice(0, num_generations).map((draw) => pickBy(chances, draw));
  const noises = actions.map((_, i) => {
    const length = Math.sqrt(-2 * Math.log(draws[num_generations + i]));
    return noise * length * Math.cos(2 * Math.PI * draws[2 * num_generations + i]);
  });
  return { actions, noises };
}

/**
 * Trains the policy, and returns everything: from before the first step to after the last the
 * chances, the expected_reward, kl to the reference, entropy and largest probability; the steps;
 * learning_rate and beta, as matched; and diverged, null or the step in which a number became
 * infinite. The same seed draws the same numbers, so all algorithms start with the same group.
 */
function train(algorithm, settings) {
  const { num_generations, num_iterations, temperature } = settings;
  const action_rewards = rewardsOf(settings.landscape, settings.peak);
  const matched = matchedTo(algorithm, settings, action_rewards);
  const betaOfReward = algorithm === "reinforce_plus_plus" ? matched.beta : 0;
  const clip = CLIPPING.includes(algorithm) ? settings.epsilon : null;
  const options = { ...matched, temperature, clip, beta: matched.beta - betaOfReward };
  const reference = logPolicy(settings.logits, temperature);
  const curves = { chances: [], expected_reward: [], kl: [], entropy: [], largest: [] };
  let now = reference;
  function addOutcome() {
    const chances = now.map(Math.exp);
    const mean = (values) => sum(chances.map((chance, i) => chance * values[i]));
    curves.chances.push(chances);
    curves.expected_reward.push(mean(action_rewards));
    curves.kl.push(mean(now.map((log, i) => log - reference[i])));
    curves.entropy.push(-mean(now));
    curves.largest.push(Math.max(...chances));
  }
  addOutcome();
  const steps = [];
  let { logits } = settings;
  let total = 0; // of the rewards of all steps
  let value = 0; // of PPO's critic
  let diverged = null;
  while (steps.length < settings.max_steps && diverged === null) {
    const old = now;
    const { actions, noises } = sampled(old, steps.length, settings);
    const rewards = actions.map((action, i) => {
      const penalty = betaOfReward * (old[action] - reference[action]);
      return action_rewards[action] + settings.offset + noises[i] - penalty;
    });
    const earlier = total / Math.max(1, steps.length * num_generations);
    const estimate = { reinforce_baseline: earlier, ppo: value }[algorithm] || 0;
    const gains = compared(algorithm, rewards, estimate, settings);
    total += sum(rewards);
    const updates = [];
    while (updates.length < num_iterations && diverged === null) {
      const step = update(logits, actions, gains, old, reference, options);
      if (![step.loss, ...step.logits_after].every(Number.isFinite)) diverged = steps.length;
      updates.push(step);
      logits = step.logits_after;
      value -= CRITIC_RATE * (value - average(rewards));
    }
    if (diverged !== null) break;
    steps.push({ actions, rewards, advantages: gains, updates });
    now = logPolicy(logits, temperature);
    addOutcome();
  }
  return { algorithm, diverged, action_rewards, ...curves, steps, ...matched };
}
