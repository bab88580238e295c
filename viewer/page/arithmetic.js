"use strict";
// The arithmetic of a group's advantages, as trl 1.16 does it (DeepSeekMath, arXiv:2402.03300, section 4.1.2).

const SMALLEST_STD = 1e-4; // which trl adds to the deviation

/** {mean, std} of the numbers that are not null; std with one degree of freedom less, 0 for a single number. */
function moments(values) {
  const given = values.filter((each) => each !== null);
  if (!given.length) return { mean: null, std: null };
  const mean = given.reduce((sum, each) => sum + each, 0) / given.length;
  if (given.length === 1) return { mean, std: 0 };
  return { mean, std: Math.sqrt(given.reduce((sum, each) => sum + (each - mean) ** 2, 0) / (given.length - 1)) };
}

/** "group", "batch" or "none": what `scale_rewards` divides by. trl also takes true and false. */
function scaling(settings) {
  return { true: "group", false: "none" }[settings.scale_rewards] || settings.scale_rewards || "group";
}

/**
 * {mean, std, advantages} of a group's total rewards. `others`: the totals of the rest of the batch, by whose deviation
 * `scale_rewards: batch` divides. A completion without a reward has advantage 0.
 */
function advantages(totals, others, settings) {
  const { mean, std } = moments(totals);
  const scale = scaling(settings);
  const divisor = scale === "none" ? 1 : (scale === "batch" ? moments(totals.concat(others)).std : std) + SMALLEST_STD;
  // RLOO's baseline is the mean of the others: the difference to it is n / (n - 1) times that to the mean of all.
  const n = totals.filter((each) => each !== null).length;
  const apart = settings.loss_type === "rloo" && n > 1 ? n / (n - 1) : 1;
  return { mean, std, divisor, advantages: totals.map((each) => (each === null ? 0 : (apart * (each - mean)) / divisor)) };
}

/** The standard deviation of the mean of `few` of these numbers, drawn without replacement. */
function deviationOfMean(totals, few) {
  const { std } = moments(totals);
  return totals.length < 2 ? 0 : (std / Math.sqrt(few)) * Math.sqrt((totals.length - few) / totals.length);
}

/** What one token of a completion weighs in the loss of its batch, by `loss_type`; null where that is not so simple. */
function weightOfToken(tokens, batch, settings) {
  // Of a batch that several optimizer steps share, each takes its part.
  const steps = (settings.steps_per_generation || settings.gradient_accumulation_steps) / settings.gradient_accumulation_steps;
  if (!tokens || !batch.tokens || settings.generation_batch_size || settings.mask_truncated_completions) return null;
  const per = {
    grpo: 1 / (batch.completions * tokens),
    dapo: 1 / batch.tokens,
    cispo: 1 / batch.tokens,
    dr_grpo: 1 / (batch.completions * settings.max_completion_length),
  };
  return settings.loss_type in per ? steps * per[settings.loss_type] : null;
}
