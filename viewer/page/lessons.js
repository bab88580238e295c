"use strict";
// The arithmetic of the lab's widgets, beside the bandit's. Tests compare it with numpy, torch and the house's own.

/** The share of groups of `size` that teach, where a share `right` of the answers is right: neither all are, nor none. */
const teaching = (right, size) => 1 - right ** size - (1 - right) ** size;

/** The groups that a policy with these chances draws: for each the places of its answers. */
function groupsDrawn(chances, size, count, seed) {
  return Array.from({ length: count }, (_, group) => uniform(seed, group * size, size).map((draw) => pickBy(chances, draw)));
}

/** The probability of a token after 0 … `steps` steps of gradient descent on its loss: the token or any other, a softmax
 * of two. */
function climbed({ old, reference, advantage, epsilon, beta, rate, steps }) {
  const chances = [old];
  let logit = Math.log(old / (1 - old));
  for (let i = 0; i < steps; i++) {
    const now = chances[i];
    const { ratio, stopped } = terms(Math.log(now), Math.log(old), Math.log(reference), advantage, [1 - epsilon, 1 + epsilon], beta);
    const slope = (stopped ? 0 : -ratio * advantage) + beta * (1 - reference / now);
    logit -= rate * slope * (1 - now);
    chances.push(1 / (1 + Math.exp(-logit)));
  }
  return chances;
}

/** The KL of two distributions: exact; of each word log now − log reference (k1), k3, and what it adds to the exact one;
 * and of `count` words drawn from the first the words, and the means of k1 and of k3 after each. */
function divergence(now, reference, count, seed) {
  const k1 = now.map((chance, word) => Math.log(chance / reference[word]));
  const k3 = now.map((chance, word) => terms(Math.log(chance), 0, Math.log(reference[word]), 0, null, 0).kl);
  const parts = now.map((chance, word) => chance * k1[word]);
  const words = uniform(seed, 0, count).map((draw) => pickBy(now, draw));
  const means = (values) => {
    let total = 0;
    return words.map((word, i) => (total += values[word]) / (i + 1));
  };
  return { exact: sum(parts), k1, k3, parts, words, means: { k1: means(k1), k3: means(k3) } };
}

/** The advantages that generalised advantage estimation gives tokens (Schulman et al. 2016, arXiv:1506.02438), with γ = 1.
 * `values`: the critic's before each token; `rewards`: what each token earns. */
function estimatedAdvantages(values, rewards, lambda) {
  const result = [];
  let later = 0;
  for (let i = values.length - 1; i >= 0; i--) {
    const next = i + 1 < values.length ? values[i + 1] : 0;
    later = rewards[i] + next - values[i] + lambda * later;
    result[i] = later;
  }
  return result;
}

/** What the steps of the first completion of a group add to the advantages of their tokens: of each the sum of the
 * normalised rewards of the step and of those after it, as training/step_rewards.py has it. */
function sharesOfSteps(rewardsOfGroup) {
  const own = rewardsOfGroup[0];
  const shares = advantages(rewardsOfGroup.flat(), [], {}).advantages.slice(0, own.length);
  return shares.map((_, step) => sum(shares.slice(step)));
}

/** A policy of two strategies learns by GRPO from what rewards pay: chances, of each before the first step and after each;
 * paid, the reward that it expects then; right, the share of its answers that are. `pays`: of each strategy what a wrong
 * and what a right answer earns; `able`: of each the chance that its answer is right. */
function strategiesLearned({ pays, able, start, size, rate, steps, seed }) {
  let logits = [0, Math.log(start / (1 - start))];
  const result = { chances: [], paid: [], right: [] };
  for (let step = 0; step <= steps; step++) {
    const now = logPolicy(logits, 1);
    const chances = now.map(Math.exp);
    result.chances.push(chances);
    result.right.push(sum(chances.map((chance, i) => chance * able[i])));
    result.paid.push(sum(chances.map((chance, i) => chance * ((1 - able[i]) * pays[i][0] + able[i] * pays[i][1]))));
    const drawn = uniform(seed, 2 * size * step, 2 * size);
    const actions = drawn.slice(0, size).map((draw) => pickBy(chances, draw));
    const rewards = actions.map((action, i) => pays[action][Number(drawn[size + i] < able[action])]);
    const gains = compared("grpo", rewards, 0, "group")[1];
    logits = update(logits, actions, gains, now, now, { clip: null, beta: 0, temperature: 1, learning_rate: rate }).logits_after;
  }
  return result;
}

/** [numerator, denominator] of a plain number: whole, decimal, with commas between thousands, or a fraction; else null. */
function plainNumber(text) {
  const parts = text.trim().replace(/−/g, "-").match(/^([+-]?)(\d{1,3}(?:,\d{3})+|\d{1,30})(?:\.(\d{1,30})|\s*\/\s*(\d{1,30}))?$/);
  if (!parts) return null;
  const decimals = parts[3] || "";
  const top = BigInt(parts[1] + parts[2].replace(/,/g, "") + decimals);
  const bottom = parts[4] ? BigInt(parts[4]) : 10n ** BigInt(decimals.length);
  return bottom ? [top, bottom] : null;
}

/** {right, answer, reason} by the rules for plain numbers; null for an answer that takes the verifier. */
function plainVerdict(text, gold) {
  const [answer, wanted] = [plainNumber(text), plainNumber(gold)];
  if (!answer) return null;
  const right = answer[0] * wanted[1] === wanted[0] * answer[1];
  return { right, answer: text.trim(), reason: `${right ? "equal" : "not equal"}, as plain numbers` };
}
