"use strict";
// The lab: the smallest problem that GRPO solves, a bandit with ten actions, with every number of every step. The page
// computes it, so it needs no server. Tests run it beside the same arithmetic in numpy, which they compare with trl's.
//
// An action is a completion of one token, the policy is the softmax of ten logits, and a reward is read off a landscape.
// So nothing is hidden: the gradient is exact, by hand, and an update is plain SGD on the logits, without momentum,
// weight decay or gradient clipping. The settings have the names that they have in a recipe's `grpo` section, and the
// loss is that of trl 1.16 (`loss_type: grpo`; with completions of one token `dapo`, `bnpo` and `dr_grpo` are the same).
// For the completions i = 1 … G of a group:
//
//     ratio_i = exp(logp_i − old_logp_i)
//     kl_i    = exp(ref_logp_i − logp_i) − (ref_logp_i − logp_i) − 1
//     loss    = mean over i of: −min(ratio_i A_i, clip(ratio_i, 1 − ε, 1 + ε) A_i) + β kl_i
//
// trl also multiplies kl_i by ratio_i, unless `use_bias_correction_kl` is false, as it is here and in the paper.
//
// The algorithms differ in the advantage A_i = reward_i − baseline_i, and in whether they clip:
//
// - grpo (Shao et al. 2024, arXiv:2402.03300): the mean of the group; divided by its standard deviation + 1e-4, unless
//   `scale_rewards` is none. Clips.
// - reinforce (Williams 1992): none, 0.
// - reinforce_baseline (Sutton and Barto 2018, section 2.8): the mean of all rewards of earlier groups, at first 0.
// - rloo (Kool et al. 2019; Ahmadian et al. 2024, arXiv:2402.14740): the mean of the other completions of the group.
// - ppo (Schulman et al. 2017, arXiv:1707.06347): the critic's value. There is one state, so the critic is one learned
//   number, at first 0, and takes an SGD step on the mean of (value − reward_i)² / 2 with each update. Clips.
// - reinforce_plus_plus (Hu 2025, arXiv:2501.03262): the mean of the batch, divided by the batch's standard deviation +
//   1e-4. With one question the batch is the group. Its KL is no term of the loss: β (old_logp_i − ref_logp_i) is taken
//   off reward_i. Clips.
//
// Those that do not clip have ratio_i A_i in place of the min, which in the first update, where each ratio is 1, has the
// gradient of A_i logp_i. All others may have the KL term.
//
// Whoever divides by a standard deviation σ < 1 takes steps 1 / σ as long. `matched` multiplies their learning rate by
// the σ of the first policy's rewards, noise included, so that the algorithms are compared, and not their rates. GRPO's
// KL is not divided, so `matched` divides its β by that σ: the KL then holds it as it holds the others.
// (REINFORCE++ takes its KL off the reward, before it divides.)

const ACTIONS = 10;
const CRITIC_RATE = 0.1;
const CLIPPING = ["grpo", "ppo", "reinforce_plus_plus"];
const RELATIVE = ["grpo", "reinforce_plus_plus", "rloo"]; // whose baseline is of the same group
const DRAWS = 3 * 64; // of uniform numbers a step, at most
// Those that divide by the standard deviation: in a step, and so in what is matched.
const divides = (algorithm, scale) => algorithm === "reinforce_plus_plus" || (algorithm === "grpo" && scale === "group");

const sum = (values) => values.reduce((a, b) => a + b, 0);
const average = (values) => sum(values) / values.length;

/** `count` numbers between 0 and 1 from a place of the seed's sequence, which is mulberry32's. */
function uniform(seed, place, count) {
  return Array.from({ length: count }, (_, i) => {
    let t = (Math.imul(place + i + 1, 0x6d2b79f5) + Math.imul(seed, 0x9e3779b9)) | 0;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return (((t ^ (t >>> 14)) >>> 0) + 0.5) / 2 ** 32;
  });
}

/** Which of some chances a number between 0 and 1 falls on. */
function pickBy(chances, draw) {
  let [action, below] = [0, chances[0]];
  while (below <= draw && action < chances.length - 1) below += chances[++action];
  return action;
}

/** The reward of each action a: "one peak" 1 − |a − peak| / 5, at least 0; "two peaks" 1 at 8 alone, and
 * 0.7 × (1 − |a − 3| / 4), at least 0, elsewhere; "linear" a / 9; "plateau" 1 from 3 to 6, 0 elsewhere. */
function rewardsOf(landscape, peak) {
  return Array.from({ length: ACTIONS }, (_, place) => {
    if (landscape === "linear") return place / (ACTIONS - 1);
    if (landscape === "plateau") return Number(place >= 3 && place <= 6);
    if (landscape === "one peak") return Math.max(0, 1 - Math.abs(place - peak) / 5);
    return place === 8 ? 1 : Math.max(0, 0.7 * (1 - Math.abs(place - 3) / 4));
  });
}

function logPolicy(logits, temperature) {
  const most = Math.max(...logits) / temperature;
  const scaled = logits.map((each) => each / temperature - most);
  const whole = Math.log(sum(scaled.map(Math.exp)));
  return scaled.map((each) => each - whole);
}

/** What a token, or an answer of one token, has in its loss, from its log-probabilities; `clip`: [lower, upper] or null. */
function terms(now, old, reference, advantage, clip, beta, corrected = false) {
  const ratio = Math.exp(now - old);
  const unclipped = ratio * advantage;
  const clipped = clip ? Math.min(Math.max(ratio, clip[0]), clip[1]) * advantage : unclipped;
  const behind = reference - now;
  const kl = (Math.exp(behind) - behind - 1) * (corrected ? ratio : 1);
  return { ratio, unclipped, clipped, stopped: clipped < unclipped, kl, loss: beta * kl - Math.min(unclipped, clipped) };
}

/** [baselines, advantages] of a group; `estimate`: what was known before it. */
function compared(algorithm, rewards, estimate, scale) {
  const loss_type = algorithm === "rloo" ? "rloo" : "grpo";
  const scale_rewards = algorithm === "reinforce_plus_plus" ? "group" : algorithm === "grpo" ? scale : "none";
  const relative = RELATIVE.includes(algorithm);
  const gains = relative ? advantages(rewards, [], { loss_type, scale_rewards }).advantages : rewards.map((each) => each - estimate);
  if (algorithm === "rloo") return [rewards.map((each, i) => each - gains[i]), gains];
  return [rewards.map(() => (relative ? moments(rewards).mean : estimate)), gains];
}

/** One step of SGD on a group, and the numbers that lead to it: of the policy its logits, probabilities and
 * logits_after; of each sampled action new_probabilities, ratios, the two branches of the min (unclipped, clipped),
 * is_clipped (the gradient does not pass) and kl; exact_kl, the KL from policy to reference; loss, its part policy_loss,
 * and its gradient by the logits. `clip`: epsilon, or null where nothing is clipped. */
function update(logits, actions, gains, old, reference, { clip, beta, temperature, learning_rate }) {
  const now = logPolicy(logits, temperature);
  const bounds = clip === null ? null : [1 - clip, 1 + clip];
  const each = actions.map((action, i) => terms(now[action], old[action], reference[action], gains[i], bounds, beta));
  const probabilities = now.map(Math.exp);
  const pushed = logits.map(() => 0);
  actions.forEach((action, i) => (pushed[action] += ((each[i].stopped ? 0 : -each[i].unclipped) + beta * (1 - Math.exp(reference[action] - now[action]))) / actions.length));
  const all = sum(pushed);
  const gradient = pushed.map((push, action) => (push - all * probabilities[action]) / temperature);
  const column = (name) => each.map((one) => one[name]);
  return {
    logits,
    probabilities,
    new_probabilities: actions.map((action) => probabilities[action]),
    ratios: column("ratio"),
    unclipped: column("unclipped"),
    clipped: column("clipped"),
    is_clipped: column("stopped"),
    kl: column("kl"),
    exact_kl: sum(probabilities.map((chance, action) => chance * (now[action] - reference[action]))),
    policy_loss: -average(each.map((one) => Math.min(one.unclipped, one.clipped))),
    loss: average(column("loss")),
    gradient,
    logits_after: logits.map((logit, action) => logit - learning_rate * gradient[action]),
  };
}

/** The learning rate and β with which an algorithm's first steps are as long, and held back as much, as those of one that
 * does not divide: see `matched` above. */
function matchedTo(algorithm, settings, actionRewards) {
  const { learning_rate, beta } = settings;
  if (!settings.matched || !divides(algorithm, settings.scale_rewards)) return { learning_rate, beta };
  const chances = logPolicy(settings.logits, settings.temperature).map(Math.exp);
  const mean = sum(chances.map((chance, i) => chance * actionRewards[i]));
  const variance = sum(chances.map((chance, i) => chance * (actionRewards[i] - mean) ** 2));
  const deviation = Math.sqrt(variance + settings.noise ** 2);
  return { learning_rate: learning_rate * deviation, beta: algorithm === "grpo" && deviation ? beta / deviation : beta };
}

/** Trains the policy, and returns everything: algorithm and settings; action_rewards; the probabilities of the
 * reference, and the final ones; from before the first step to after the last expected_reward, of the policy, without
 * noise, kl, exact, to the reference, entropy and largest, its largest probability; steps; learning_rate and beta, as
 * matched; and diverged, null or the number of the step, from 0, in which a number became infinite: the steps end before it.
 *
 * A step has, of its group, actions, rewards, old_probabilities, baselines and advantages; mean and std of the rewards;
 * and updates, a list of what `update` returns. The same seed draws the same uniform numbers for every algorithm, so all
 * start with the same group. */
function train(algorithm, settings) {
  const { num_generations, num_iterations, temperature, seed } = settings;
  const action_rewards = rewardsOf(settings.landscape, settings.peak);
  const matched = matchedTo(algorithm, settings, action_rewards);
  const penalised = algorithm === "reinforce_plus_plus" ? matched.beta : 0;
  const taken = { ...matched, temperature, clip: CLIPPING.includes(algorithm) ? settings.epsilon : null, beta: matched.beta - penalised };
  let logits = settings.logits;
  let now = logPolicy(logits, temperature);
  const reference = now;
  const curves = { expected_reward: [], kl: [], entropy: [], largest: [] };
  const outcome = () => {
    const chances = now.map(Math.exp);
    curves.expected_reward.push(sum(chances.map((chance, i) => chance * action_rewards[i])));
    curves.kl.push(sum(chances.map((chance, i) => chance * (now[i] - reference[i]))));
    curves.entropy.push(-sum(chances.map((chance, i) => chance * now[i])));
    curves.largest.push(Math.max(...chances));
  };
  outcome();
  const steps = [];
  let [total, value, diverged] = [0, 0, null];
  while (steps.length < settings.max_steps && diverged === null) {
    const drawn = uniform(seed, DRAWS * steps.length, 3 * num_generations);
    const chances = now.map(Math.exp);
    const old = now;
    const actions = drawn.slice(0, num_generations).map((draw) => pickBy(chances, draw));
    const noise = (i) => Math.sqrt(-2 * Math.log(drawn[num_generations + i])) * Math.cos(2 * Math.PI * drawn[2 * num_generations + i]);
    const rewards = actions.map((action, i) => action_rewards[action] + settings.offset + settings.noise * noise(i) - penalised * (old[action] - reference[action]));
    const earlier = total / Math.max(1, steps.length * num_generations);
    const [baselines, gains] = compared(algorithm, rewards, { reinforce_baseline: earlier, ppo: value }[algorithm] || 0, settings.scale_rewards);
    total += sum(rewards);
    const updates = [];
    for (let i = 0; i < num_iterations && diverged === null; i++) {
      const made = update(logits, actions, gains, old, reference, taken);
      if (![made.loss, ...made.logits_after].every(Number.isFinite)) diverged = steps.length;
      else {
        updates.push(made);
        logits = made.logits_after;
        value -= CRITIC_RATE * (value - average(rewards));
      }
    }
    if (diverged !== null) break;
    steps.push({ actions, rewards, old_probabilities: actions.map((action) => chances[action]), ...moments(rewards), baselines, advantages: gains, updates });
    now = logPolicy(logits, temperature);
    outcome();
  }
  return { algorithm, settings, diverged, action_rewards, reference: reference.map(Math.exp), probabilities: now.map(Math.exp), ...curves, steps, ...matched };
}

/** The loss of a completion and its terms, token by token, from the probabilities of its tokens
 * (`now`, `old`, `reference`). */
function lossByToken({ now, old, reference, advantage, settings, batch }) {
  const logs = [now, old, reference].map((each) => each.map(Math.log));
  const bounds = [1 - settings.epsilon, 1 + settings.epsilon];
  const each = now.map((_, i) => terms(logs[0][i], logs[1][i], logs[2][i], advantage, bounds, settings.beta));
  const column = (name) => each.map((one) => one[name]);
  const told = { new: logs[0], old: logs[1], reference: logs[2], advantages: now.map(() => advantage), settings };
  for (const name of ["ratio", "unclipped", "clipped", "stopped", "kl", "loss"]) told[name] = column(name);
  told.weight = batch ? weightOfToken(now.length, batch, { ...settings, gradient_accumulation_steps: 1 }) : null;
  return told;
}

/** {values, silent, groups}: the advantages of `batches` batches of questions that are right more and more seldom, from
 * `high` to `low`; silent: how many of the groups teach nothing. `method`: whose mean and deviation are taken. */
function advantagesOfBatches({ method, size, questions, low, high, batches, seed }) {
  const values = [];
  let silent = 0;
  for (let batch = 0; batch < batches; batch++) {
    const drawn = uniform(seed, batch * questions * size, questions * size);
    const groups = Array.from({ length: questions }, (_, q) => drawn.slice(q * size, (q + 1) * size).map((draw) => Number(draw < high + ((low - high) * q) / (questions - 1))));
    silent += groups.filter((group) => new Set(group).size === 1).length;
    const settings = { scale_rewards: ["batch", "none"].includes(method) ? method : method === "rloo" ? "none" : "group", loss_type: method };
    if (method === "whole") values.push(...advantages(groups.flat(), [], settings).advantages);
    else groups.forEach((group, q) => values.push(...advantages(group, groups.filter((_, i) => i !== q).flat(), settings).advantages));
  }
  return { values, silent, groups: batches * questions };
}

/** How many of the values lie in each of the bins between two edges. */
function histogram(values, edges) {
  const counts = new Array(edges.length - 1).fill(0);
  for (const value of values) counts[Math.max(0, Math.min(counts.length - 1, Math.floor(((value - edges[0]) / (edges[edges.length - 1] - edges[0])) * counts.length)))]++;
  return counts;
}

/** GiB of each part that a method holds, without a reference where nothing asks for one and without a learned reward. */
function partsOf(sizes, method, kept) {
  const without = [...(kept.reference || method === "DPO" ? [] : ["reference"]), ...(kept.reward ? [] : ["reward model"])];
  return Object.fromEntries(Object.entries(sizes).map(([part, gib]) => [part, without.includes(part) ? 0 : gib]));
}
