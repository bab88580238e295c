"use strict";
// A policy of ten actions learns from groups, with every number of every step, beside other
// algorithms.

{
  const part = partOf("bandit");
  const NAMES = {
    grpo: "GRPO",
    reinforce: "REINFORCE",
    reinforce_baseline: "REINFORCE, baseline",
    rloo: "RLOO",
    ppo: "PPO's clip",
    reinforce_plus_plus: "REINFORCE++",
  };
  // What the page opens with: where a baseline matters. And what "Set the trap" sets.
  const PRESETS = {
    opening: { algorithm: "reinforce", landscape: "one peak", offset: 2 },
    trap: {
      algorithm: "grpo",
      landscape: "two peaks",
      ...{ num_generations: 2, num_iterations: 1, learning_rate: 4, matched: false, seed: 1 },
    },
  };
  // GRPO alone in the trap: at rates that are not matched it moves further than RLOO.
  const SHOWN_FIRST = { opening: ["grpo", "reinforce"], trap: ["grpo"] };
  const SEEDS = 30;
  const { algorithms, defaults } = SETTINGS;
  const drawn = new Set(SHOWN_FIRST.opening);
  const choices = part.querySelector("[name=algorithm]");
  choices.append(...algorithms.map((name) => html`<option value=${name}>${NAMES[name]}</option>`));
  choices.value = PRESETS.opening.algorithm;
  const figures = [...part.querySelectorAll("[data-curve]")].map((figure) => {
    const { curve } = figure.dataset;
    return { curve, title: figure.querySelector("b").textContent, chart: chart(figure) };
  });
  const actions = Array.from({ length: ACTIONS }, (_, action) => action);
  const showBars = columnBars(part, actions.map(String));
  const steps = player(part, showStep);
  const lines = part.querySelector(".lines");
  const numbers = part.querySelector(".each-step");
  const updates = part.querySelector("[data-update]");
  const overSeeds = [part.querySelector(".seeds tbody"), part.querySelector(".outcome")];
  let timer = 0;
  const settings = settingsOf(part, () => {
    clearTimeout(timer);
    timer = setTimeout(compute, 60);
  });
  let runs = [];
  let run = null; // of the chosen algorithm
  let place = 0; // of the step whose numbers are written
  let trial = null; // the seeds that are being tried

  const options = () => ({ ...defaults, ...settings, matched: Boolean(settings.matched) });
  const highest = (values) => values.indexOf(Math.max(...values));

  function compute() {
    if (run && run.algorithm !== settings.algorithm) drawn.add(settings.algorithm);
    runs = algorithms.map((name) => train(name, options()));
    run = runs[algorithms.indexOf(settings.algorithm)];
    figures.forEach(drawCurves);
    const buttons = runs.map(
      (ofAlgorithm, i) => html`<button class="key" aria-pressed=${String(drawn.has(algorithms[i]))}
        onclick=${() => toggle(i)}><span class=${chip(i)}></span>${ending(ofAlgorithm)}</button>`,
    );
    lines.replaceChildren(...buttons);
    part.querySelector(".rates").textContent = ratesInWords();
    steps.to(run.steps.length, Math.min(steps.at() || Infinity, run.steps.length));
    trySeeds();
  }

  function drawCurves({ curve, title, chart: figure }) {
    const series = [];
    runs.forEach((ofAlgorithm, i) => {
      const isChosen = ofAlgorithm === run;
      const dash = i > 2 && !isChosen ? [6, 3] : [];
      const line = { label: NAMES[algorithms[i]], values: ofAlgorithm[curve], colour: i, dash };
      if (drawn.has(algorithms[i])) series.push({ ...line, width: isChosen ? 3 : 1.5 });
    });
    const ends = series.map(({ label, values }) => `${label} ${number(values[values.length - 1])}`);
    figure.show({
      x: Array.from({ length: defaults.max_steps + 1 }, (_, i) => i),
      series,
      legend: false,
      range: ["expected_reward", "largest"].includes(curve) ? [0, 1.05] : null,
      onclick: steps.show,
      words: `${title} after the last step: ${ends.join(", ")}.`,
    });
  }

  function ending({ algorithm, expected_reward, diverged }) {
    const reward = fixed(expected_reward[expected_reward.length - 1]);
    const end = diverged === null ? "" : ` (diverged at step ${diverged})`;
    return `${NAMES[algorithm]} ${reward}${end}`;
  }

  function toggle(i) {
    if (!drawn.delete(algorithms[i])) drawn.add(algorithms[i]);
    compute();
    lines.children[i].focus();
  }

  /** The policy after `at` steps, and what led there. */
  function showStep(at) {
    if (!run) return;
    for (const { chart: figure } of figures) figure.reveal(at);
    const isLast = at >= run.steps.length;
    const chances = isLast ? run.probabilities : run.steps[at].updates[0].probabilities;
    const best = highest(run.action_rewards);
    const likeliest = highest(chances);
    const earned = number(run.action_rewards[likeliest]);
    const sentence =
      `Step ${at}: ${NAMES[run.algorithm]} answers ${likeliest} in` +
      ` ${percent(chances[likeliest])} of its tries, which earns ${earned}; ${best}, the best,` +
      ` in ${percent(chances[best])}.`;
    showBars(chances, run.action_rewards, best, sentence);
    const reward = `Expected reward ${fixed(run.expected_reward[at])}.`;
    part.querySelector(".sums").textContent = `${sentence} ${reward}`;
    place = Math.max(0, at - 1);
    if (numbers.open) showNumbers();
  }

  /** What became of 30 seeds, one after the other, so that the page still answers. */
  async function trySeeds() {
    const started = {};
    trial = started;
    for (const element of overSeeds) element.classList.add("left-out"); // it is of other settings
    const ends = algorithms.map(() => []);
    await new Promise((resolve) => setTimeout(resolve, 400)); // a slider may be moving
    for (let seed = 0; seed < SEEDS; seed++) {
      for (const [i, name] of algorithms.entries()) {
        await new Promise((resolve) => setTimeout(resolve));
        if (started !== trial) return;
        ends[i].push(endOf(train(name, { ...options(), seed })));
      }
    }
    const [table, sentence] = overSeeds;
    table.replaceChildren(...algorithms.map((name, i) => seedsRow(NAMES[name], ends[i])));
    const counts = algorithms.map((name, i) => `${NAMES[name]} ${trappedActions(ends[i]).length}`);
    const counted = counts.filter((_, i) => drawn.has(algorithms[i])).join(", ");
    const rates = options().matched ? "" : ", at rates that are not matched,";
    const start = `With seeds 0 to 29${rates} so many end at another action than the best`;
    sentence.textContent = `${start}: ${counted}.`;
    for (const element of overSeeds) element.classList.remove("left-out");
  }

  /**
   * The step that reached 0.9, −1 where none did, and the worse action that it ended at, or null.
   */
  function endOf({ expected_reward, probabilities, action_rewards }) {
    const likeliest = highest(probabilities);
    const isBest = likeliest === highest(action_rewards);
    const reached = expected_reward.findIndex((reward) => reward >= 0.9);
    return { reached, action: isBest ? null : likeliest };
  }

  const trappedActions = (ends) =>
    ends.map(({ action }) => action).filter((action) => action !== null);

  function seedsRow(name, ends) {
    const steps = ends.map(({ reached }) => (reached < 0 ? Infinity : reached));
    steps.sort((a, b) => a - b);
    const median = (steps[SEEDS / 2 - 1] + steps[SEEDS / 2]) / 2;
    const trapped = trappedActions(ends);
    const places = trapped.length ? `, at ${[...new Set(trapped)].sort().join(", ")}` : "";
    return html`<tr>
      <th scope="row">${name}</th><td>${median === Infinity ? "never" : number(median)}</td>
      <td data-trapped=${trapped.length}>${trapped.length}${places}</td>
    </tr>`;
  }

  /** Every number of a step. */
  function showNumbers() {
    const detail = part.querySelector(".detail");
    if (!run.steps.length) {
      detail.replaceChildren(
        html`<p>Already the first step diverged: lower the learning rate.</p>`,
      );
      return;
    }
    const step = run.steps[place];
    const chosen = Math.min(updates.selectedIndex, step.updates.length - 1);
    const names = step.updates.map((_, i) => html`<option>${String(i + 1)}</option>`);
    updates.replaceChildren(...names);
    updates.selectedIndex = Math.max(0, chosen);
    const update = step.updates[updates.selectedIndex];
    const ofKl = fixed(update.loss - update.policy_loss, 4);
    const sentence =
      `mean of the rewards ${fixed(step.mean)}, std ${fixed(step.std)}; loss` +
      ` ${fixed(update.loss, 4)}, of which β × KL is ${ofKl}; KL to the reference` +
      ` ${fixed(update.exact_kl, 4)}`;
    const words = html`<p class="sums loss-of">${sentence}</p>`;
    detail.replaceChildren(actionsTable(step, update), words, groupTable(step, update));
  }

  const table = (kind, heads, rows) => html`<div class="wide"><table class=${kind}>
    <thead><tr>${heads.map((head) => html`<th scope="col">${head}</th>`)}</tr></thead>
    <tbody>${rows}</tbody>
  </table></div>`;

  /** Each action's reward and its chance before and after an update, as bars. */
  function actionsTable(step, update) {
    const after = logPolicy(update.logits_after, settings.temperature).map(Math.exp);
    const chance = (share) => html`<td>${meter(share, "c1")}${fixed(100 * share, 1)}%</td>`;
    const rows = run.action_rewards.map((reward, action) => {
      const count = step.actions.filter((sample) => sample === action).length;
      return html`<tr>
        <th scope="row">${action}</th><td>${meter(reward, "c3")}${fixed(reward)}</td>
        <td>${count ? `${count} ×` : ""}</td>${chance(update.probabilities[action])}
        ${chance(after[action])}<td>${fixed(update.gradient[action], 4)}</td>
      </tr>`;
    });
    return table("actions", ["action", "reward", "drawn", "chance", "after", "gradient"], rows);
  }

  /** The numbers of each completion of the group. */
  function groupTable(step, update) {
    const clips = CLIPPING.includes(run.algorithm);
    const heads = ["#", "action", "reward", "baseline", "advantage", "chance when drawn"];
    heads.push("chance now", "ratio", "ratio × advantage");
    if (clips) heads.push("clipped", "the smaller");
    heads.push("KL");
    const rows = step.actions.map((action, i) => {
      const isClipped = update.is_clipped[i];
      const smaller = fixed(Math.min(update.unclipped[i], update.clipped[i]));
      const cells = [action, fixed(step.rewards[i]), fixed(step.baselines[i])];
      cells.push(fixed(step.advantages[i]), percent(step.old_probabilities[i]));
      cells.push(percent(update.new_probabilities[i]), fixed(update.ratios[i]));
      cells.push(fixed(update.unclipped[i]));
      if (clips) cells.push(fixed(update.clipped[i]), `${smaller}${isClipped ? ", stopped" : ""}`);
      cells.push(fixed(update.kl[i], 4));
      return html`<tr class=${isClipped ? "clipped" : null}>
        <th scope="row">${i + 1}</th>${cells.map((cell) => html`<td>${cell}</td>`)}
      </tr>`;
    });
    return table("numbers", heads, rows);
  }

  /** How the learning rates are matched. */
  function ratesInWords() {
    const plusPlus = runs.find(({ algorithm }) => algorithm === "reinforce_plus_plus");
    const factor = number(plusPlus.learning_rate / settings.learning_rate);
    const ofGroup = settings.scale_rewards === "group";
    const sentences = [
      ofGroup
        ? "GRPO and REINFORCE++ divide by the rewards' standard deviation, so the same learning" +
          " rate moves them further, and they seem to learn faster."
        : "REINFORCE++ divides by the rewards' standard deviation, so the same learning rate" +
          " moves it further, and it seems to learn faster.",
      settings.matched
        ? `Matched, ${ofGroup ? "theirs" : "its rate"} is multiplied by the deviation of the` +
          ` first policy's rewards, ${factor}.`
        : "As set, all have the same rate.",
    ];
    if (ofGroup && settings.beta) {
      const effect = settings.matched
        ? ", so its β is divided by that deviation."
        : ": the same β holds it back less.";
      sentences.push(`GRPO's KL is not divided${effect}`);
    }
    if (settings.temperature !== 1) {
      sentences.push(
        "All chances begin equal, so this temperature is no more than a learning rate multiplied" +
          ` by ${number(settings.temperature ** -2)}.`,
      );
    }
    return sentences.join(" ");
  }

  for (const button of part.querySelectorAll("[data-preset]")) {
    const { preset } = button.dataset;
    button.onclick = () => {
      for (const [name, value] of Object.entries({ ...defaults, ...PRESETS[preset] })) {
        if (!(name in settings)) continue;
        settings[name] = name === "matched" ? (value ? "true" : "") : value;
        setControl(part, name, settings[name]);
      }
      drawn.clear();
      for (const name of SHOWN_FIRST[preset]) drawn.add(name);
      compute();
      steps.show(Infinity);
    };
  }
  numbers.ontoggle = () => numbers.open && showNumbers();
  updates.onchange = showNumbers;
  compute();
}
