"use strict";
// The arithmetic of groups and tokens. Tests compare it with numpy, torch, trl and the house's own.

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
  let action = 0;
  let below = chances[0];
  while (below <= draw && action < chances.length - 1) below += chances[++action];
  return action;
}

/** {mean, std} of some numbers; std with one degree of freedom less, 0 for a single number. */
function moments(values) {
  const mean = average(values);
  if (values.length === 1) return { mean, std: 0 };
  const squares = values.map((value) => (value - mean) ** 2);
  return { mean, std: Math.sqrt(sum(squares) / (values.length - 1)) };
}

/**
 * {mean, std, advantages} of a group, as trl has them. `scale`: what divides them, the deviation of
 * the "group", of the "batch" with its other rewards, or "none". RLOO's baseline is the mean of the
 * others, so its differences are n / (n − 1) times as large.
 */
function advantages(rewards, scale, others = [], isRloo = false) {
  const { mean, std } = moments(rewards);
  let divisor = 1;
  if (scale === "group") divisor = std + 1e-4;
  if (scale === "batch") divisor = moments(rewards.concat(others)).std + 1e-4;
  const n = rewards.length;
  const factor = isRloo && n > 1 ? n / (n - 1) : 1;
  return { mean, std, advantages: rewards.map((reward) => (factor * (reward - mean)) / divisor) };
}

/** The log-probabilities of the softmax of logits ÷ temperature. */
function logPolicy(logits, temperature) {
  const largest = Math.max(...logits) / temperature;
  const scaled = logits.map((logit) => logit / temperature - largest);
  const total = Math.log(sum(scaled.map(Math.exp)));
  return scaled.map((logit) => logit - total);
}

/**
 * What a token has in its loss, from its log-probabilities now, when it was sampled (`old`) and in
 * the reference; `clip`: [lower, upper] bounds of the ratio, or null.
 */
function terms(now, old, reference, advantage, clip, beta) {
  const ratio = Math.exp(now - old);
  const unclipped = ratio * advantage;
  const clipped = clip ? Math.min(Math.max(ratio, clip[0]), clip[1]) * advantage : unclipped;
  const kl = Math.exp(reference - now) - (reference - now) - 1;
  const loss = beta * kl - Math.min(unclipped, clipped);
  return { ratio, unclipped, clipped, stopped: clipped < unclipped, kl, loss };
}

/** What one token of a completion weighs in the loss of its batch, by `loss_type`. */
function weightOfToken(tokens, batch, { loss_type, max_completion_length }) {
  if (loss_type === "grpo") return 1 / (batch.completions * tokens);
  if (loss_type === "dr_grpo") return 1 / (batch.completions * max_completion_length);
  return 1 / batch.tokens;
}

/** The batches that `advantagesOfBatches` takes, of questions from `high` to `low`, paid 1 or 0. */
function batchesDrawn({ size, questions, low, high, batches, seed }) {
  const chanceOf = (question) => high + ((low - high) * question) / (questions - 1);
  return Array.from({ length: batches }, (_, batch) => {
    const draws = uniform(seed, batch * questions * size, questions * size);
    return Array.from({ length: questions }, (_, question) => {
      const group = draws.slice(question * size, (question + 1) * size);
      return group.map((draw) => Number(draw < chanceOf(question)));
    });
  });
}

/** The advantages of batches, lists of groups of rewards, and how many groups teach nothing. */
function advantagesOfBatches(batches, method) {
  const scale = { none: "none", rloo: "none", batch: "batch" }[method] || "group";
  const values = batches.flatMap((groups) => {
    if (method === "whole") return advantages(groups.flat(), "group").advantages;
    return groups.flatMap((group, place) => {
      const remainder = groups.filter((_, i) => i !== place).flat();
      return advantages(group, scale, remainder, method === "rloo").advantages;
    });
  });
  const groups = batches.flat();
  return {
    values,
    silent: groups.filter((group) => new Set(group).size === 1).length,
    groups: groups.length,
  };
}

/** How many values lie in each bin between two edges; beyond them, in the last bin. */
function histogram(values, edges) {
  const counts = new Array(edges.length - 1).fill(0);
  for (const value of values) {
    const bin = edges.findIndex((edge) => value < edge) - 1;
    counts[bin === -2 ? counts.length - 1 : Math.max(0, bin)]++;
  }
  return counts;
}

/** The share of groups of `size` that are mixed, where a share of all answers is correct. */
const teaching = (correct, size) => 1 - correct ** size - (1 - correct) ** size;

/** The groups that a policy with these chances draws: for each the places of its answers. */
function groupsDrawn(chances, size, count, seed) {
  return Array.from({ length: count }, (_, group) =>
    uniform(seed, group * size, size).map((draw) => pickBy(chances, draw)),
  );
}

/**
 * The probability of a token after 0 … `steps` steps of gradient descent on its loss: the token or
 * any other, a softmax of two.
 */
function climbed({ old, reference, advantage, epsilon, beta, rate, steps }) {
  const chances = [old];
  const clip = [1 - epsilon, 1 + epsilon];
  const [logOld, logReference] = [Math.log(old), Math.log(reference)];
  let logit = Math.log(old / (1 - old));
  for (let i = 0; i < steps; i++) {
    const now = chances[i];
    const { ratio, stopped } = terms(Math.log(now), logOld, logReference, advantage, clip, beta);
    const slope = (stopped ? 0 : -ratio * advantage) + beta * (1 - reference / now);
    logit -= rate * slope * (1 - now);
    chances.push(1 / (1 + Math.exp(-logit)));
  }
  return chances;
}

/**
 * The KL of two distributions, exact; k1 and k3 of each word; and of `count` words drawn from the
 * first the words, and the means of k1 and of k3 after each.
 */
function divergence(now, reference, count, seed) {
  const k1 = now.map((chance, word) => Math.log(chance / reference[word]));
  const k3 = k1.map((difference) => Math.exp(-difference) + difference - 1);
  const words = uniform(seed, 0, count).map((draw) => pickBy(now, draw));
  const runningMeans = (values) => {
    let total = 0;
    return words.map((word, i) => (total += values[word]) / (i + 1));
  };
  const exact = sum(now.map((chance, word) => chance * k1[word]));
  return { exact, k1, k3, words, means: { k1: runningMeans(k1), k3: runningMeans(k3) } };
}

/**
 * The advantages of tokens by generalised advantage estimation (arXiv:1506.02438), with γ = 1.
 * `values`: the critic's before each token; `rewards`: what each earns.
 */
function estimatedAdvantages(values, rewards, lambda) {
  const estimates = [];
  let later = 0;
  for (let i = values.length - 1; i >= 0; i--) {
    const next = i + 1 < values.length ? values[i + 1] : 0;
    later = rewards[i] + next - values[i] + lambda * later;
    estimates[i] = later;
  }
  return estimates;
}

/**
 * What the steps of a group's first completion add to the advantages of their tokens: the sum of
 * the normalised rewards from a step on, as training/step_rewards.py has it.
 */
function sharesOfSteps(rewardsOfGroup) {
  const count = rewardsOfGroup[0].length;
  const normalised = advantages(rewardsOfGroup.flat(), "group").advantages.slice(0, count);
  return normalised.map((_, step) => sum(normalised.slice(step)));
}

/** [numerator, denominator] of a whole number, a decimal or a fraction; null for any other text. */
function plainNumber(text) {
  const parts = text
    .trim()
    .replace(/−/g, "-")
    .match(/^([+-]?)(\d{1,3}(?:,\d{3})+|\d{1,30})(?:\.(\d{1,30})|\s*\/\s*(\d{1,30}))?$/);
  if (!parts) return null;
  const [, sign, whole, decimals = "", divisor] = parts;
  const numerator = BigInt(sign + whole.replace(/,/g, "") + decimals);
  const denominator = divisor ? BigInt(divisor) : 10n ** BigInt(decimals.length);
  return denominator ? [numerator, denominator] : null;
}

/** Whether a plain number is the gold answer; null for a text that takes the verifier. */
function plainVerdict(text, gold) {
  const [answer, wanted] = [plainNumber(text), plainNumber(gold)];
  return answer && answer[0] * wanted[1] === wanted[0] * answer[1];
}
