"use strict";
// A reward that is hacked: two ways to answer, what each reward pays them, and which one is
// learned.

/**
 * A policy of two strategies learns by GRPO from what rewards pay: chances, of each before the
 * first step and after each; paid, the reward that it expects then; correct, the share of its
 * answers that are. `pays`: of each strategy what an incorrect and what a correct answer earns;
 * `able`: of each the chance that its answer is correct.
 */
function strategiesLearned({ pays, able, start, size, rate, steps, seed }) {
  let logits = [0, Math.log(start / (1 - start))];
  const learned = { chances: [], paid: [], correct: [] };
  const expected = pays.map(
    ([incorrect, correct], i) => (1 - able[i]) * incorrect + able[i] * correct,
  );
  const options = { clip: null, beta: 0, temperature: 1, learning_rate: rate };
  for (let step = 0; step <= steps; step++) {
    const now = logPolicy(logits, 1);
    const chances = now.map(Math.exp);
    learned.chances.push(chances);
    learned.correct.push(sum(chances.map((chance, i) => chance * able[i])));
    learned.paid.push(sum(chances.map((chance, i) => chance * expected[i])));
    const draws = uniform(seed, 2 * size * step, 2 * size);
    const actions = draws.slice(0, size).map((draw) => pickBy(chances, draw));
    const rewards = actions.map((action, i) => {
      const isRight = draws[size + i] < able[action];
      return pays[action][Number(isRight)];
    });
    const gains = advantages(rewards, "group").advantages;
    logits = update(logits, actions, gains, now, now, options).logits_after;
  }
  return learned;
}

{
  const part = partOf("hacking");
  // What each reward pays for an incorrect and a correct answer that is worked out, and for a list.
  const PAYMENTS = {
    anywhere: { label: "The correct number stands somewhere", worked: [0, 1], listed: [1, 1] },
    verified: { label: "The final answer is correct", worked: [0, 1], listed: [0, 0] },
    short: { label: "At most 20 words", worked: [1, 1], listed: [0, 0] },
  };
  const WAYS = ["worked", "listed"];
  const STEPS = 80;
  const figure = chart(part.querySelector(".chart"));
  const settings = settingsOf(part, redraw);
  const steps = player(part, showStep, 6000);
  let learned = null;

  function redraw() {
    const paying = Object.keys(PAYMENTS).filter((name) => settings[name]);
    const able = [settings.able, 0];
    const pays = WAYS.map((way) =>
      [0, 1].map((correct) => sum(paying.map((name) => PAYMENTS[name][way][correct]))),
    );
    const options = { size: 8, rate: 0.5, steps: STEPS };
    const { start, seed } = settings;
    learned = strategiesLearned({ pays, able, start, seed, ...options });
    showPayments(pays, able);
    const largest = Math.max(1, paying.length);
    const paid = learned.paid.map((value) => value / largest);
    const listing = learned.chances.map((chances) => chances[1]);
    const series = [
      { label: `reward, of ${largest}`, values: paid, colour: 0, width: 2.5 },
      { label: "correct answers", values: learned.correct, colour: 2, width: 2.5 },
      { label: "chance of listing", values: listing, colour: 1, dash: [6, 4] },
    ];
    const end =
      `reward ${fixed(learned.paid[STEPS], 2)}, correct ${percent(learned.correct[STEPS])}`;
    const x = paid.map((_, step) => step);
    figure.show({ x, series, range: [0, 1.05], words: `At the end: ${end}` });
    steps.to(STEPS, steps.at() || STEPS);
  }

  /** What each way earns on average, by each reward and in all. */
  function showPayments(pays, able) {
    const expected = (i, [incorrect, correct]) =>
      fixed((1 - able[i]) * incorrect + able[i] * correct, 2);
    const rows = Object.entries(PAYMENTS).map(([name, payment]) => {
      const cells = WAYS.map((way, i) => html`<td>${expected(i, payment[way])}</td>`);
      const kind = settings[name] ? null : "left-out";
      return html`<tr class=${kind}><th scope="row">${payment.label}</th>${cells}</tr>`;
    });
    const totals = WAYS.map((_, i) => html`<td><b>${expected(i, pays[i])}</b></td>`);
    rows.push(html`<tr><th scope="row"><b>paid in all</b></th>${totals}</tr>`);
    part.querySelector("tbody").replaceChildren(...rows);
  }

  function showStep(at) {
    if (!learned) return;
    figure.reveal(at);
    const { paid, correct, chances } = learned;
    part.querySelector(".sums").textContent =
      `Step ${at}: the reward went from ${fixed(paid[0], 2)} to ${fixed(paid[at], 2)}, correct` +
      ` answers from ${percent(correct[0])} to ${percent(correct[at])}. It lists numbers in` +
      ` ${percent(chances[at][1])} of its answers.`;
  }
  redraw();
}
