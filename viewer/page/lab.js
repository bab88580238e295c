"use strict";
// The lab: a policy of ten actions learns from a group, with every number of the step, beside other algorithms.

const NAMES = { grpo: "GRPO", reinforce: "REINFORCE", reinforce_baseline: "REINFORCE, baseline", rloo: "RLOO", ppo: "PPO's clip" };
// Name, label, lowest, highest, step of the sliders; viewer/lab.py checks what is asked.
const KNOBS = [
  ["num_generations", "G, completions in a group", 2, 64, 1],
  ["num_iterations", "updates with each group", 1, 8, 1],
  ["learning_rate", "learning rate", 0.05, 4, 0.05],
  ["temperature", "temperature", 0.2, 3, 0.1],
  ["epsilon", "ε, the clip", 0.05, 1, 0.05],
  ["beta", "β, the weight of the KL", 0, 0.5, 0.01],
  ["noise", "noise of a reward", 0, 1, 0.05],
  ["seed", "seed", 0, 50, 1],
];

async function labView() {
  const { algorithms, landscapes, defaults } = await ask("lab/settings");
  const asked = { algorithm: "grpo", landscape: landscapes[0], peak: defaults.peak, scale_rewards: defaults.scale_rewards };
  for (const [name] of KNOBS) asked[name] = defaults[name];
  const state = { step: 0, update: 0, run: null, compared: null };
  const chart = h("figure", { class: "chart" });
  const steps = h("section", { class: "detail", "aria-label": "One step" });
  const wrong = h("p", { class: "error", role: "alert" });
  let [asking, waited, later] = [0, 0, 0];

  async function compute() {
    const mine = ++asking;
    const { algorithm, ...settings } = asked;
    try {
      const [run, compared] = await Promise.all([ask(`lab/run/${JSON.stringify(asked)}`), ask(`lab/compare/${JSON.stringify(settings)}`)]);
      if (mine !== asking) return;
      Object.assign(state, { run, compared, step: Math.max(0, Math.min(state.step, run.steps.length - 1)) });
      wrong.textContent = "";
      draw();
      stepByStep();
    } catch (error) {
      if (mine === asking) wrong.textContent = error.message;
    }
  }
  function draw() {
    if (!chart.clientWidth) return void (waited++ < 100 && requestAnimationFrame(draw));
    const style = getComputedStyle(document.documentElement);
    const colour = (i) => style.getPropertyValue(COLOURS[i]).trim();
    const grid = { stroke: style.getPropertyValue("--line").trim(), width: 1 };
    const axis = { stroke: style.getPropertyValue("--quiet").trim(), grid, ticks: grid, font: "12px system-ui, sans-serif" };
    const columns = algorithms.map((name) => state.compared[name].expected_reward);
    const longest = Math.max(...columns.map((each) => each.length));
    const data = [Array.from({ length: longest }, (_, i) => i), ...columns.map((each) => Array.from({ length: longest }, (_, i) => each[i] ?? null))];
    const last = columns.map((each) => each[each.length - 1]);
    const said = algorithms.map((name, i) => `${NAMES[name]} ${number(last[i])}${state.compared[name].diverged === null ? "" : ` (diverged at step ${state.compared[name].diverged})`}`);
    chart.replaceChildren(
      h("figcaption", {}, h("b", {}, "Expected reward"), h("span", { class: "quiet" }, " of each policy over its steps; the best action earns 1")),
      h("p", { class: "quiet at" }, algorithms.map((name, i) => h("span", { class: "key" }, h("span", { class: `chip c${i + 1}` }), said[i]))),
    );
    const plot = new uPlot(
      {
        width: chart.clientWidth,
        height: 240,
        scales: { x: { time: false }, y: { range: [0, 1.05] } },
        axes: [{ ...axis, size: 32 }, { ...axis, size: 48 }],
        legend: { show: false },
        cursor: { drag: { x: false, y: false } },
        series: [{}, ...algorithms.map((name, i) => ({ stroke: colour(i), width: name === asked.algorithm ? 3 : 1.5, points: { show: false } }))],
      },
      data,
      chart,
    );
    plot.root.setAttribute("role", "img");
    plot.root.setAttribute("aria-label", `Expected reward after ${longest - 1} steps: ${said.join(", ")}.`);
    plot.over.addEventListener("click", () => goToStep(plot.cursor.idx));
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
  const set = (name) => (value) => {
    asked[name] = value;
    clearTimeout(later);
    later = setTimeout(compute, 60);
  };
  const knobs = KNOBS.map(([name, label, low, high, step]) => {
    const told = h("output", { class: "number" }, number(asked[name]));
    const slider = h("input", { type: "range", min: low, max: high, step, value: asked[name], "aria-label": label, oninput: () => ((told.textContent = number(Number(slider.value))), set(name)(Number(slider.value))) });
    return h("label", { class: "knob" }, h("span", {}, label), slider, told);
  });
  const place = h("output", { class: "number" }, String(asked.peak));
  const peak = h("input", { type: "range", min: 0, max: 9, step: 1, value: asked.peak, "aria-label": "place of the one peak", oninput: () => ((place.textContent = peak.value), set("peak")(Number(peak.value))) });
  await compute();
  const memory = await ask("lab/memory");
  return h(
    "div",
    { class: "two" },
    h(
      "section",
      { "aria-label": "Settings" },
      h("p", { class: "quiet" }, "A model that answers with one of ten digits, and learns which of them pays. The rules are a real run's (the KL is the paper's); only the model is small. docs/grpo.md works one step out in words."),
      h(
        "div",
        { class: "choices" },
        choice("Algorithm", algorithms.map((name) => [name, NAMES[name]]), asked.algorithm, set("algorithm")),
        choice("Rewards", landscapes.map((name) => [name, { peak: "one peak", "two peaks": "two peaks, 0.7 at 3 and 1 at 8", linear: "linear" }[name]]), asked.landscape, set("landscape")),
        choice("scale_rewards", [["group", "group"], ["none", "none"]], asked.scale_rewards, set("scale_rewards")),
      ),
      h("label", { class: "knob" }, h("span", {}, "place of the one peak"), peak, place),
      knobs,
      wrong,
    ),
    h("div", {}, chart, steps, ofMemory(memory)),
  );
}

/** What the critic costs: GiB on one GPU, by the size of the model and the way to train it. */
function ofMemory({ card, recipe, sizes }) {
  const ways = Object.keys(Object.values(sizes)[0]);
  const most = Math.max(...Object.values(sizes).flatMap((each) => Object.values(each)));
  return h(
    "section",
    { class: "wide" },
    h("h2", {}, "What the critic costs"),
    h("p", { class: "quiet" }, `Estimated GiB on one GPU of ${number(card)} with the recipe ${recipe}, vLLM's share included, by the size of the model; `, h("code", {}, "make memory"), " estimates yours."),
    h(
      "table",
      { class: "actions" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "model"), ways.map((each) => h("th", { scope: "col" }, each)))),
      h("tbody", {}, Object.entries(sizes).map(([size, row]) => h("tr", {}, h("th", { scope: "row" }, size), ways.map((way) => h("td", { class: row[way] > card ? "over" : null }, meter(row[way] / most, way.startsWith("PPO") ? "c2" : "c1"), `${fixed(row[way], 1)}${row[way] > card ? " ✕" : ""}`))))),
    ),
    h("p", { class: "quiet" }, `✕ does not fit ${number(card)} GiB.`),
  );
}

/** Each action's reward and its chance before and after an update, as bars. */
function actions(run, step, update) {
  const after = softmax(update.logits_after.map((each) => each / run.settings.temperature));
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

function softmax(logits) {
  const most = Math.max(...logits);
  const powers = logits.map((each) => Math.exp(each - most));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((each) => each / sum);
}

/** The numbers of each completion of the group. */
function rows(step, update, algorithm) {
  const clips = ["grpo", "ppo"].includes(algorithm);
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
