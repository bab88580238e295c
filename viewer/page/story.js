"use strict";
// What a run did, for a person who looks for the first time: a completion that changed, the gain in
// words, and a few numbers of now and of the start.

const FIGURES = {
  grpo: [
    { title: "Reward", key: "reward", good: 1 },
    {
      title: "Correct in training, sampled",
      key: "rewards/correct_answer/mean",
      good: 1,
      isShare: true,
    },
    { title: "Length", key: "completions/mean_length", unit: " tokens", digits: 0 },
    { title: "Truncated", key: "completions/clipped_ratio", good: -1, isShare: true },
    { title: "Time a step", key: "step_time", unit: " s", digits: 2 },
  ],
  sft: [
    { title: "Loss", key: "loss", good: -1 },
    { title: "Correct tokens", key: "mean_token_accuracy", good: 1, isShare: true },
    { title: "Entropy", key: "entropy", unit: " nats" },
  ],
};
const MOST_COMPARED = 250_000; // pairs of words
const FEWEST_POINTS = 2; // a change needs a start and an end

/** The gain of a benchmark in words, with its bars: what a result begins with. */
function headlineOf({ headline }) {
  if (!headline) return null;
  return html`<h2 class="headline">${headline.gain}</h2>
    ${headline.luck ? html`<p class="luck">${headline.luck}</p>` : null}`;
}

/**
 * A problem whose completion changed, before and after side by side. With a filter it is the first
 * that fits it, of those that this page holds.
 */
async function storyOf(result, i) {
  const { benchmark, flips, story } = result;
  if (!flips) return null;
  const { before, after } = flips;
  const pair = isFiltered() ? await firstFitting(i, benchmark, before, after) : story;
  if (!pair) {
    const words = isFiltered()
      ? "No completion that this page holds fits the filter."
      : "No problem was newly solved.";
    return html`<section class="story"><p class="quiet">${words}</p></section>`;
  }
  const address = addressIn(app.runs[i], "changed", [benchmark, before, after, pair.id]);
  return html`<section class="story" aria-label="A completion that changed">
    <p class="quiet">A completion that changed</p>
    <h2 class="asked">${visible(pair.question)}</h2>
    ${cardsOf(pair)}
    ${address ? html`<p><a href=${address}>all that changed</a></p>` : null}
  </section>`;
}

async function firstFitting(i, benchmark, before, after) {
  const name = `${benchmark}/${before}/${after}`;
  const { rows } = await ask(`${app.runs[i].place}/changed/${name}`);
  for (const { id } of rows) {
    const pair = ANSWERS[`${app.runs[i].place}/pair/${name}/${id}`];
    if (pair && fitsPair(pair)) return { id, ...pair };
  }
  return null;
}

/** Now and since the start: the means of the last and of the first tenth of what was logged. */
function figuresOf(run) {
  const cards = FIGURES[isPolicy(run) ? "grpo" : "sft"].map((figure) => {
    const values = (run.columns[figure.key] || []).filter((value) => value !== null);
    return values.length < FEWEST_POINTS ? null : figureCard(figure, values);
  });
  return html`<div class="figures">${cards}</div>`;
}

function figureCard({ title, key, good = 0, isShare, unit = "", digits = 3 }, values) {
  const count = Math.max(1, Math.floor(values.length / 10));
  const mean = (part) => part.reduce((a, b) => a + b, 0) / part.length;
  const now = mean(values.slice(-count));
  const change = now - mean(values.slice(0, count));
  const show = (value) => (isShare ? percent(value) : number(value, digits) + unit);
  const size = isShare ? `${number(100 * Math.abs(change), 1)} points` : show(Math.abs(change));
  const isNone = size === show(0) || size === "0 points";
  const kind = good * change > 0 ? "up" : "down";
  const colour = good && !isNone ? kind : "quiet";
  const sign = change < 0 ? "−" : "+";
  return html`<div class="figure" title=${`${key}: mean of the last ${count} logged values`}>
    <span class="quiet">${title}</span><b>${show(now)}</b>
    <span class=${`change ${colour}`}>${isNone ? "as at the start" : sign + size}</span>
  </div>`;
}

/** Both completions to a problem, and in each what the other lacks. */
function cardsOf({ gold, answers }) {
  const differences = differing(...answers.map(({ text }) => text));
  const cards = answers.map((answer, i) => completionOf(answer, differences[i]));
  return html`<p>correct answer: <b>${visible(gold)}</b></p><div class="pair">${cards}</div>`;
}

/**
 * For each of two texts the [start, end] of its words that are not in their longest common
 * sequence; none where the texts are long, or have little in common.
 */
function differing(...texts) {
  const [a, b] = texts.map((text) => text.split(/(?<=\W)|(?=\W)/));
  if (a.length * b.length > MOST_COMPARED) return [[], []];
  // common[i][j]: the words in common of a from i on and b from j on.
  const common = Array.from({ length: a.length + 1 }, () => new Array(b.length + 1).fill(0));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      const further = Math.max(common[i + 1][j], common[i][j + 1]);
      common[i][j] = a[i] === b[j] ? common[i + 1][j + 1] + 1 : further;
    }
  }
  if (common[0][0] < Math.max(a.length, b.length) / 2) return [[], []];
  const ranges = [[], []];
  const places = [0, 0];
  const pass = (side, word) => {
    ranges[side].push([places[side], places[side] + word.length]);
    places[side] += word.length;
  };
  for (let i = 0, j = 0; i < a.length || j < b.length;) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      places[0] += a[i++].length;
      places[1] += b[j++].length;
    } else if (j === b.length || (i < a.length && common[i + 1][j] >= common[i][j + 1])) {
      pass(0, a[i++]);
    } else {
      pass(1, b[j++]);
    }
  }
  return ranges;
}
