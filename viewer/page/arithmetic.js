"use strict";
// The arithmetic of a group's advantages, as trl 1.16 does it (DeepSeekMath, arXiv:2402.03300,
// section 4.1.2).

const SMALLEST_STD = 1e-4; // which trl adds to the standard deviation

/** {mean, std} of the values that are not null; std with one degree of freedom less, 0 for one. */
function moments(values) {
  const numbers = values.filter((value) => value !== null);
  if (!numbers.length) return { mean: null, std: null };
  const sum = (terms) => terms.reduce((a, b) => a + b, 0);
  const mean = sum(numbers) / numbers.length;
  if (numbers.length === 1) return { mean, std: 0 };
  const squares = numbers.map((value) => (value - mean) ** 2);
  return { mean, std: Math.sqrt(sum(squares) / (numbers.length - 1)) };
}

/** "group", "batch" or "none": what `scale_rewards` divides by. trl also takes true and false. */
function scaling({ scale_rewards }) {
  return { true: "group", false: "none" }[scale_rewards] || scale_rewards || "group";
}

/**
 * {mean, std, divisor, advantages} of a group's total rewards. `others`: the totals of the rest of
 * the batch, by whose deviation `scale_rewards: batch` divides. A completion without a reward has
 * advantage 0.
 */
function advantages(totals, others, settings) {
  const { mean, std } = moments(totals);
  const scale = scaling(settings);
  let divisor = 1;
  if (scale === "group") divisor = std + SMALLEST_STD;
  if (scale === "batch") divisor = moments(totals.concat(others)).std + SMALLEST_STD;
  const ofTotals = totals.map((total) => (total === null ? 0 : (total - mean) / divisor));
  return { mean, std, divisor, advantages: ofTotals };
}

/** What a token weighs in the loss of its batch, by `loss_type`; null where that is not simple. */
function weightOfToken(tokens, batch, settings) {
  if (!tokens || !batch.tokens || settings.mask_truncated_completions) return null;
  // Of a batch that several optimizer steps share, each takes its part.
  const optimizerSteps = settings.completions_per_generation / settings.completions_per_step;
  const weights = {
    grpo: 1 / (batch.completions * tokens),
    dapo: 1 / batch.tokens,
    cispo: 1 / batch.tokens,
    dr_grpo: 1 / (batch.completions * settings.max_completion_length),
  };
  if (!(settings.loss_type in weights)) return null;
  return optimizerSteps * weights[settings.loss_type];
}
