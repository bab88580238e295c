"use strict";
// A policy of ten actions learns from groups, beside other algorithms.

widget("bandit", (part, settings, again) => {
  const choices = [...part.querySelector("[name=algorithm]").options];
  const NAMES = Object.fromEntries(choices.map(({ value, textContent }) => [value, textContent]));
  const SEEDS = 30;
  const { algorithms, defaults, presets } = SETTINGS;
  const X = Array.from({ length: defaults.max_steps + 1 }, (_, step) => step);
  const figures = [...part.querySelectorAll("[data-curve]")].map((figure) => {
    return { curve: figure.dataset.curve, figure: chart(figure) };
  });
  const showBars = columnBars(part, Object.keys(defaults.logits));
  const lines = part.querySelector(".lines");
  const outcome = part.querySelector(".outcome");
  let drawnNames = ["grpo", "reinforce"];
  let [runs, run, trial] = [[], null, null]; // of all, of the chosen one, over seeds

  const options = () => ({ ...defaults, ...settings, matched: Boolean(settings.matched) });
  const highest = (values) => values.indexOf(Math.max(...values));

  function draw() {
    if (!drawnNames.includes(settings.algorithm)) drawnNames.push(settings.algorithm);
    runs = algorithms.map((name) => train(name, options()));
    run = runs[algorithms.indexOf(settings.algorithm)];
    const buttons = runs.map((ofAlgorithm, i) => {
      const { algorithm: name, diverged, expected_reward } = ofAlgorithm;
      const pressed = { "aria-pressed": drawnNames.includes(name), onclick: () => toggle(name, i) };
      const ending = diverged === null ? fixed(expected_reward.at(-1)) : `diverged at ${diverged}`;
      return make("button", { class: "key", ...pressed }, chip(i), `${NAMES[name]} ${ending}`);
    });
    lines.replaceChildren(...buttons);
    for (const { curve, figure } of figures) drawCurves(curve, figure);
    trySeeds();
    return run.steps.length;
  }

  function drawCurves(curve, figure) {
    const visible = algorithms.map((_, i) => i).filter((i) => drawnNames.includes(algorithms[i]));
    const series = visible.map((i) => {
      return { values: runs[i][curve], colour: i, width: runs[i] === run ? 3 : 1.5 };
    });
    const ends = visible.map((i) => `${NAMES[algorithms[i]]} ${number(runs[i][curve].at(-1))}`);
    const range = [0, ["kl", "entropy"].includes(curve) ? 2.4 : 1.05];
    figure.show({ x: X, series, range, words: `After the last step: ${ends.join(", ")}.` });
  }

  function toggle(name, i) {
    const without = drawnNames.filter((other) => other !== name);
    drawnNames = drawnNames.length > without.length ? without : [...without, name];
    again("lines");
    lines.children[i].focus();
  }

  /** The policy after `at` steps, and what led there. */
  function show(at) {
    for (const { figure } of figures) figure.reveal(at);
    const chances = run.chances[at];
    const best = highest(run.action_rewards);
    const likeliest = highest(chances);
    const sentence =
      `Step ${at}: ${NAMES[run.algorithm]} answers ${likeliest} in` +
      ` ${percent(chances[likeliest])} of its tries, which earns` +
      ` ${number(run.action_rewards[likeliest])}; ${best}, the best, in ${percent(chances[best])}.`;
    showBars(chances, run.action_rewards, best, sentence);
    return `${sentence} Expected reward ${fixed(run.expected_reward[at])}.`;
  }

  /** What became of 30 seeds, one after the other, so that the page still answers. */
  async function trySeeds() {
    const started = (trial = {});
    outcome.classList.add("left-out"); // it is of other settings
    const counts = [];
    await new Promise((resolve) => setTimeout(resolve, 400)); // a slider may be moving
    for (const name of drawnNames) {
      let elsewhere = 0;
      for (let seed = 0; seed < SEEDS; seed++) {
        await new Promise((resolve) => setTimeout(resolve));
        if (started !== trial) return;
        const { chances, action_rewards } = train(name, { ...options(), seed });
        elsewhere += highest(chances.at(-1)) !== highest(action_rewards);
      }
      counts.push(`${NAMES[name]} ${elsewhere}`);
    }
    const rates = settings.matched ? "" : ", at rates that are not matched,";
    outcome.textContent =
      `With seeds 0 to ${SEEDS - 1}${rates} so many end at another action than the best:` +
      ` ${counts.join(", ")}.`;
    outcome.classList.remove("left-out");
  }

  for (const button of part.querySelectorAll("[data-preset]")) {
    const { preset } = button.dataset;
    const values = { ...defaults, ...presets[preset] };
    button.onclick = () => {
      // At rates that are not matched GRPO moves further than the others: it is drawn alone.
      drawnNames = preset === "trap" ? ["grpo"] : ["grpo", "reinforce"];
      const controls = part.querySelectorAll("[name]");
      for (const control of controls) setControl(control, values[control.name]);
      again("preset");
    };
  }

  /** Whether GRPO and REINFORCE end elsewhere when 2 is added to every reward. */
  const endOf = (name, offset) => train(name, { ...defaults, offset }).expected_reward.at(-1);
  const isMoved = (name) => Math.abs(endOf(name, 2) - endOf(name, 0)) > 0.01;
  const truth = () => String(["grpo", "reinforce"].map(isMoved));
  return { draw, show, truth };
});
