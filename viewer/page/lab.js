"use strict";
// The lab: a policy of ten actions learns from a group, with every number of the step, beside other algorithms; below it
// what play.js shows. All of it is computed here.

const NAMES = { grpo: "GRPO", reinforce: "REINFORCE", reinforce_baseline: "REINFORCE, baseline", rloo: "RLOO", ppo: "PPO's clip", reinforce_plus_plus: "REINFORCE++" };
const PLACES = { "one peak": "one peak", "two peaks": "two peaks, 0.7 at 3 and 1 at 8", linear: "linear" };
// Name, label, lowest, highest, step of the sliders.
const KNOBS = [
  ["num_generations", "G, completions in a group", 2, 64, 1],
  ["num_iterations", "updates with each group", 1, 4, 1],
  ["learning_rate", "learning rate", 0.05, 4, 0.05],
  ["temperature", "temperature", 0.2, 3, 0.1],
  ["epsilon", "ε, the clip", 0.05, 1, 0.05],
  ["beta", "β, the weight of the KL", 0, 0.5, 0.01],
  ["noise", "noise of a reward", 0, 1, 0.05],
  ["seed", "seed", 0, 50, 1],
  ["peak", "place of the one peak", 0, 9, 1],
];
const CURVES = [
  ["expected_reward", "Expected reward", "of each policy; the best action earns 1", [0, 1.05]],
  ["kl", "KL", "to the policy that each began with, in nats"],
  ["entropy", "Entropy", "of the policy, in nats: 0 when it always answers the same"],
  ["largest", "Largest probability", "of an action: 1 when nothing else is tried any more", [0, 1.05]],
];
const TRAP = { landscape: "two peaks", num_generations: 2, num_iterations: 1, learning_rate: 4, matched: false, seed: 1 };
const SEEDS = 30;

async function labView() {
  // A default with the name of a key of `grpo` means the same. `matched`: whether the algorithms' learning rates are matched; `noise`:
  // the standard deviation of what is added to each reward; `peak`: its place in "one peak"; `logits`: of the first policy, the reference too.
  const { algorithms, landscapes, defaults, memory } = await ask("lab");
  const asked = { algorithm: "grpo", landscape: landscapes[0], ...defaults };
  const state = { step: 0, update: 0, run: null };
  const charts = CURVES.map(([, title, about]) => chart(title, about));
  const key = h("p", { class: "quiet keys" });
  const rates = h("p", { class: "quiet" });
  const over = h("tbody", {});
  const steps = h("section", { "aria-label": "One step" });
  let later = 0;

  function compute() {
    const runs = algorithms.map((name) => train(name, asked));
    state.run = runs[algorithms.indexOf(asked.algorithm)];
    state.step = Math.max(0, Math.min(state.step, state.run.steps.length - 1));
    CURVES.forEach(([name, title, , range], at) => {
      const series = runs.map((run, i) => ({ label: NAMES[run.algorithm], values: run[name], colour: i, width: run.algorithm === asked.algorithm ? 3 : 1.5 }));
      const last = series.map((each) => `${each.label} ${number(each.values[each.values.length - 1])}`);
      charts[at].show({ x: Array.from({ length: asked.max_steps + 1 }, (_, i) => i), series, range, onclick: goToStep, said: `${title} after the last step: ${last.join(", ")}.` });
    });
    const told = (run) => `${NAMES[run.algorithm]} ${number(run.expected_reward[run.expected_reward.length - 1])}${run.diverged === null ? "" : ` (diverged at step ${run.diverged})`}`;
    key.replaceChildren(...runs.map((run, i) => h("span", { class: "key" }, h("span", { class: `chip c${i + 1}` }), told(run))));
    const factor = runs[algorithms.indexOf("reinforce_plus_plus")].learning_rate / asked.learning_rate;
    const divided = asked.scale_rewards === "group";
    rates.textContent = [
      `${divided ? "GRPO and REINFORCE++ divide" : "REINFORCE++ divides"} by the rewards' standard deviation, so the same learning rate moves ${divided ? "them further, and they seem" : "it further, and it seems"} to learn faster.`,
      asked.matched ? `Matched, ${divided ? "theirs" : "its rate"} is multiplied by the deviation of the first policy’s rewards, ${number(factor)}.` : "As set, all have the same rate.",
      divided && asked.beta ? (asked.matched ? "GRPO’s KL is not divided, so its β is divided by that deviation." : "GRPO’s KL is not divided: the same β holds it back less.") : "",
      asked.temperature === 1 ? "" : `All chances begin equal, so this temperature is no more than a learning rate multiplied by ${number(asked.temperature ** -2)}.`,
    ].join(" ");
    stepByStep();
    overSeeds();
  }
  /** What became of 30 seeds, one after the other, so that the page still answers. */
  async function overSeeds() {
    const mine = (state.asking = {});
    over.classList.add("left-out"); // what stands there is of other settings
    const found = algorithms.map(() => []);
    await new Promise((next) => setTimeout(next, 400)); // a slider may be moving
    for (let seed = 0; seed < SEEDS; seed++) {
      for (const [i, name] of algorithms.entries()) {
        await new Promise((next) => setTimeout(next));
        if (mine !== state.asking || (seed && !over.isConnected)) return;
        const { expected_reward, probabilities, action_rewards } = train(name, { ...asked, seed });
        found[i].push([expected_reward.findIndex((each) => each >= 0.9), highest(probabilities) !== highest(action_rewards) ? highest(probabilities) : null]);
      }
    }
    const rows = algorithms.map((name, i) => {
      const [reached, wrong] = [0, 1].map((at) => found[i].map((each) => each[at]));
      const needed = reached.map((each) => (each < 0 ? Infinity : each)).sort((a, b) => a - b);
      const middle = (needed[SEEDS / 2 - 1] + needed[SEEDS / 2]) / 2;
      const trapped = wrong.filter((each) => each !== null);
      return h("tr", {}, h("th", { scope: "row" }, NAMES[name]), h("td", {}, middle === Infinity ? "never" : number(middle)), h("td", { "data-trapped": trapped.length }, trapped.length ? `${trapped.length}, at ${[...new Set(trapped)].sort().join(", ")}` : "0"));
    });
    over.replaceChildren(...rows);
    over.classList.remove("left-out");
  }
  function goToStep(step) {
    state.step = Math.max(0, Math.min(state.run.steps.length - 1, step));
    state.update = 0;
    stepByStep();
  }
  const slider = h("input", { type: "range", min: 0, value: 0, "aria-label": "Step", oninput: () => goToStep(Number(slider.value)) });
  const where = h("b", {});
  const updates = h("select", { onchange: () => ((state.update = Number(updates.value)), stepByStep()) });
  const worked = h("div", {});
  steps.append(
    h("div", { class: "line thin" }, where, slider, h("button", { onclick: () => goToStep(state.step - 1) }, "Back"), h("button", { onclick: () => goToStep(state.step + 1) }, "Next step")),
    h("label", { class: "choice" }, h("span", {}, "Update with this group"), updates),
    worked,
  );
  function stepByStep() {
    const { run } = state;
    where.textContent = `Step ${Math.min(state.step + 1, run.steps.length)} of ${run.steps.length}`;
    slider.max = Math.max(0, run.steps.length - 1);
    slider.value = state.step;
    if (!run.steps.length) return worked.replaceChildren(h("p", {}, "Already the first step diverged: lower the learning rate."));
    const step = run.steps[state.step];
    state.update = Math.min(state.update, step.updates.length - 1);
    updates.replaceChildren(...step.updates.map((_, i) => h("option", { value: i, selected: i === state.update }, String(i + 1))));
    const update = step.updates[state.update];
    worked.replaceChildren(
      actions(run, step, update),
      h("p", { class: "sums" }, `mean of the rewards ${fixed(step.mean)}, std ${fixed(step.std)}; loss ${fixed(update.loss, 4)}, of which β × KL is ${fixed(update.loss - update.policy_loss, 4)}; KL to the reference ${fixed(update.exact_kl, 4)}`),
      rows(step, update, run.algorithm),
    );
  }
  const set = (name, from = (value) => value) => (value) => {
    asked[name] = from(value);
    clearTimeout(later);
    later = setTimeout(compute, 60);
  };
  const knobs = KNOBS.map(([name, label, low, high, step]) => knob(label, low, high, step, asked[name], set(name)));
  const chosen = [
    choice("Algorithm", algorithms.map((name) => [name, NAMES[name]]), asked.algorithm, set("algorithm")),
    choice("Rewards", landscapes.map((name) => [name, PLACES[name]]), asked.landscape, set("landscape")),
    choice("Learning rates", [["true", "matched"], ["false", "as set"]], asked.matched, set("matched", (value) => value === "true")),
    choice("scale_rewards", [["group", "group"], ["none", "none"]], asked.scale_rewards, set("scale_rewards")),
  ];
  function trap() {
    Object.assign(asked, defaults, TRAP);
    KNOBS.forEach(([name], i) => knobs[i].say(asked[name]));
    for (const [i, name] of ["algorithm", "landscape", "matched", "scale_rewards"].entries()) chosen[i].querySelector("select").value = String(asked[name]);
    compute();
  }
  compute();
  const bandit = h(
    "div",
    { class: "two" },
    h(
      "div",
      {},
      h("p", { class: "quiet" }, "A model that answers with one of ten digits, and learns which of them pays. The rules are a real run's (the KL is the paper's); only the model is small. docs/learn.md works one step out in words. With one question, REINFORCE++'s batch is the group: it is GRPO, but for its KL, which it takes off the reward."),
      h("div", { class: "choices" }, chosen),
      rates,
      knobs,
      h("p", {}, "Two peaks trap whoever learns fast from few samples. With G = 2, one update with each group and a learning rate of 4 as set, 8 of 30 seeds of GRPO end at 3, which earns 0.7, and stay there; with the settings that the page opens with, none does. ", h("button", { onclick: trap }, "Set the trap")),
      h("div", { class: "wide" }, h("table", { class: "numbers seeds" }, h("caption", {}, `Seeds 0 to ${SEEDS - 1}: median steps to a reward of 0.9, and how many end at another action than the best`), h("thead", {}, h("tr", {}, ["algorithm", "steps", "elsewhere"].map((each) => h("th", { scope: "col" }, each)))), over)),
    ),
    h("div", {}, key, h("div", { class: "charts" }, charts.map((each) => each.figure)), steps),
  );
  const parts = [["One policy of ten actions", bandit], ["A group", groupPlay()], ["Ratio, clip and KL of one token", ratioPlay()], ["Advantages over many batches", batchesPlay()], ["The loss of a completion", completionPlay()], ["What the models take in memory", memoryPlay(memory)]];
  return h(
    "div",
    {},
    h("nav", { "aria-label": "Parts of the lab", class: "parts-of" }, parts.map(([title], i) => h("a", { href: `#part-${i}` }, title))),
    parts.map(([title, content], i) => h("section", { id: `part-${i}`, class: "play", "aria-label": title }, h("h2", {}, title), content)),
  );
}

const highest = (values) => values.indexOf(Math.max(...values));

/** A labelled slider with its value beside it. */
function knob(label, low, high, step, value, oninput) {
  const told = h("output", { class: "number" }, number(value));
  const slider = h("input", { type: "range", min: low, max: high, step, value, "aria-label": label, oninput: () => (say(Number(slider.value)), oninput(Number(slider.value))) });
  const say = (next) => ((slider.value = next), (told.textContent = number(next)));
  return Object.assign(h("label", { class: "knob" }, h("span", {}, label), slider, told), { say });
}

/** A figure that `show` draws, and that draws itself again in another width or theme. */
function chart(title, about) {
  const [words, place] = [h("p", { class: "quiet at" }), h("div", { class: "plot" })];
  const figure = h("figure", { class: "chart" }, h("figcaption", {}, h("b", {}, title), h("span", { class: "quiet" }, ` ${about}`)), words, place);
  let [shown, width] = [null, 0];
  function draw() {
    width = place.clientWidth;
    if (!shown || !width) return;
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const grid = { stroke: colour("--line"), width: 1 };
    const axis = { stroke: colour("--quiet"), grid, ticks: grid, font: "12px system-ui, sans-serif" };
    place.replaceChildren();
    const columns = shown.series.map((each) => shown.x.map((_, i) => each.values[i] ?? null));
    const plot = new uPlot(
      {
        width,
        height: 200,
        scales: { x: { time: false, range: shown.domain || ((_, low, high) => [low, high]) }, y: { range: shown.range } },
        axes: [{ ...axis, size: 32, ...(shown.labels ? { incrs: [1], space: 10, values: (_, ticks) => ticks.map((at) => shown.labels[at] ?? "") } : { values: (_, ticks) => ticks.map(tick) }) }, { ...axis, size: 52, values: (_, ticks) => ticks.map(tick) }],
        legend: { show: false },
        cursor: { drag: { x: false, y: false } },
        series: [
          {},
          ...shown.series.map((each) => ({
            stroke: colour(COLOURS[each.colour]),
            width: each.width || 1.5,
            pxAlign: 0,
            dash: each.dash,
            fill: each.bars ? colour(COLOURS[each.colour]) : undefined,
            paths: each.bars ? uPlot.paths.bars({ size: [0.9, 60] }) : undefined,
            points: each.point ? { show: true, size: 10, fill: colour(COLOURS[each.colour]) } : { show: false },
          })),
        ],
      },
      [shown.x, ...columns],
      place,
    );
    plot.root.setAttribute("role", "img");
    plot.root.setAttribute("aria-label", shown.said);
    if (shown.onclick) plot.over.addEventListener("click", () => shown.onclick(plot.cursor.idx));
  }
  new ResizeObserver(() => place.clientWidth !== width && draw()).observe(place);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => place.isConnected && draw());
  const show = (next) => {
    shown = next;
    words.replaceChildren(...(next.legend || []).map((each) => h("span", { class: "key" }, h("span", { class: `chip c${each.colour + 1}` }), each.label)));
    words.hidden = !next.legend;
    draw();
  };
  return { figure, show };
}

/** Each action's reward and its chance before and after an update, as bars. */
function actions(run, step, update) {
  const after = logPolicy(update.logits_after, run.settings.temperature).map(Math.exp);
  const drawn = Array.from({ length: 10 }, (_, action) => step.actions.filter((each) => each === action).length);
  return h(
    "div",
    { class: "wide" },
    h(
      "table",
      { class: "actions" },
      h("thead", {}, h("tr", {}, ["action", "reward", "drawn", "chance", "after", "gradient"].map((each) => h("th", { scope: "col" }, each)))),
      h(
        "tbody",
        {},
        run.action_rewards.map((reward, action) =>
          h("tr", {}, h("th", { scope: "row" }, String(action)), h("td", {}, meter(reward, "c3"), fixed(reward)), h("td", {}, drawn[action] ? `${drawn[action]} ×` : ""), h("td", {}, meter(update.probabilities[action], "c1"), `${fixed(100 * update.probabilities[action], 1)}%`), h("td", {}, meter(after[action], "c1"), `${fixed(100 * after[action], 1)}%`), h("td", {}, fixed(update.gradient[action], 4))),
        ),
      ),
    ),
  );
}

function meter(value, colour) {
  const bar = h("span", { class: "meter", "aria-hidden": "true" }, h("span", { class: colour }));
  bar.firstChild.style.width = `${100 * Math.min(1, Math.max(0, value))}%`;
  return bar;
}

/** The numbers of each completion of the group. */
function rows(step, update, algorithm) {
  const clips = CLIPPING.includes(algorithm);
  const head = ["#", "action", "reward", "baseline", "advantage", "chance when drawn", "chance now", "ratio", "ratio × advantage", ...(clips ? ["clipped", "the smaller"] : []), "KL"];
  return h(
    "div",
    { class: "wide" },
    h(
      "table",
      { class: "numbers" },
      h("thead", {}, h("tr", {}, head.map((each) => h("th", { scope: "col" }, each)))),
      h(
        "tbody",
        {},
        step.actions.map((action, i) =>
          h(
            "tr",
            { class: update.is_clipped[i] ? "clipped" : null },
            h("th", { scope: "row" }, String(i + 1)),
            [String(action), fixed(step.rewards[i]), fixed(step.baselines[i]), fixed(step.advantages[i]), percent(step.old_probabilities[i]), percent(update.new_probabilities[i]), fixed(update.ratios[i]), fixed(update.unclipped[i])].map((each) => h("td", {}, each)),
            clips ? [h("td", {}, fixed(update.clipped[i])), h("td", {}, `${fixed(Math.min(update.unclipped[i], update.clipped[i]))}${update.is_clipped[i] ? ", stopped" : ""}`)] : null,
            h("td", {}, fixed(update.kl[i], 4)),
          ),
        ),
      ),
    ),
  );
}
