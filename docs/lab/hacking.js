"use strict";
// A reward that is hacked: two ways to answer, what each reward pays, and which one is learned.

/**
 * A policy of two strategies learns by GRPO: before and after each step the chances of each, paid,
 * the reward that it expects, and correct, the share of its answers. `pays`: of each strategy what
 * an incorrect and a correct answer earns; `able`: the chance that its answer is correct.
 */
function strategiesLearned({ pays, able, start, size, rate, steps, seed }) {
  let logits = [0, Math.log(start / (1 - start))];
  const learned = { chances: [], paid: [], correct: [] };
  const expected = expectedPay(pays, able);
  const options = { clip: null, beta: 0, temperature: 1, learning_rate: rate };
  for (let step = 0; step <= steps; step++) {
    const now = logPolicy(logits, 1);
    const chances = now.map(Math.exp);
    learned.chances.push(chances);
    learned.correct.push(sum(chances.map((chance, i) => chance * able[i])));
    learned.paid.push(sum(chances.map((chance, i) => chance * expected[i])));
    const draws = uniform(seed, 2 * size * step, 2 * size);
    const actions = draws.slice(0, size).map((draw) => pickBy(chances, draw));
    const isCorrect = actions.map((action, i) => Number(draws[size + i] < able[action]));
    const rewards = actions.map((action, i) => pays[action][isCorrect[i]]);
    const gains = advantages(rewards, "group").advantages;
    logits = update(logits, actions, gains, now, now, options).logits_after;
  }
  return learned;
}

/** What each strategy earns on average. */
const expectedPay = (pays, able) =>
  pays.map(([incorrect, correct], i) => (1 - able[i]) * incorrect + able[i] * correct);

widget("hacking", (part, settings) => {
  // What a reward is for, what it pays an incorrect and a correct answer worked out, and a list.
  const PAYMENTS = Object.entries(SETTINGS.payments);
  const STEPS = 80;
  const X = Array.from({ length: STEPS + 1 }, (_, step) => step);
  const figure = chart(part.querySelector(".chart"));
  let learned = null;

  function draw() {
    const { able: skill, start, seed } = settings;
    const able = [skill, 0];
    const paying = PAYMENTS.filter(([name]) => settings[name]).map(([, payment]) => payment);
    const pays = [1, 2].map((way) => [0, 1].map((i) => sum(paying.map((paid) => paid[way][i]))));
    learned = strategiesLearned({ pays, able, start, seed, size: 8, rate: 0.5, steps: STEPS });
    const means = (ways) => expectedPay(ways, able).map((mean) => fixed(mean, 2));
    const rows = paying.map(([label, ...ways]) => [label, ...means(ways)]);
    rows.push(["paid in all", ...means(pays)]);
    const heads = ["on average", "worked out", "list"];
    part.querySelector(".wide").replaceChildren(table("pays", heads, rows));
    const largest = Math.max(1, paying.length);
    const series = [
      { label: `reward, of ${largest}`, values: learned.paid.map((value) => value / largest) },
      { label: "chance of listing", values: learned.chances.map((chances) => chances[1]) },
      { label: "correct answers", values: learned.correct },
    ];
    series.forEach((line, i) => Object.assign(line, { colour: i, width: 2.5 }));
    series[1].dash = [6, 4];
    const words = `In the end ${percent(learned.correct[STEPS])} are correct`;
    figure.show({ x: X, series, range: [0, 1.05], words });
    return STEPS;
  }

  function show(at) {
    figure.reveal(at);
    const { paid, correct, chances } = learned;
    return (
      `Step ${at}: the reward went from ${fixed(paid[0], 2)} to ${fixed(paid[at], 2)}, correct` +
      ` answers from ${percent(correct[0])} to ${percent(correct[at])}. It lists numbers in` +
      ` ${percent(chances[at][1])} of its answers.`
    );
  }
  return { draw, show, truth: () => 100 * learned.correct[STEPS] };
});
