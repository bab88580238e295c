"use strict";
// The lab: a policy of ten actions learns from groups, with every number of every step, beside other algorithms.

const NAMES = { grpo: "GRPO", reinforce: "REINFORCE", reinforce_baseline: "REINFORCE, baseline", rloo: "RLOO", ppo: "PPO's clip", reinforce_plus_plus: "REINFORCE++" };
const PLACES = { "one peak": "one peak", "two peaks": "two peaks, 0.7 at 3 and 1 at 8", linear: "linear" };
// Name, label, lowest, highest, step of the sliders; the first three are seen at once.
const KNOBS = [
  ["offset", "added to every reward", 0, 3, 0.5],
  ["learning_rate", "learning rate", 0.05, 4, 0.05],
  ["num_generations", "G, completions in a group", 2, 64, 1],
  ["num_iterations", "updates with each group", 1, 4, 1],
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
// What the page opens with: where a baseline matters. And what "Set the trap" sets.
const OPENING = { offset: 2 };
const TRAP = { landscape: "two peaks", num_generations: 2, num_iterations: 1, learning_rate: 4, matched: false, seed: 1 };
const SEEDS = 30;

function banditWidget({ algorithms, landscapes, defaults }) {
  // A default with the name of a key of `grpo` means the same. `matched`: whether the algorithms' learning rates and β are matched;
  // `noise`: the standard deviation of what is added to each reward, `offset`: what is added to all; `peak`: its place in "one peak";
  // `logits`: of the first policy, the reference too.
  const asked = { algorithm: "reinforce", landscape: landscapes[0], ...defaults, ...OPENING };
  const state = { run: null, update: 0, drawn: new Set(["grpo", "reinforce"]) };
  const charts = CURVES.map(([, title, about]) => chart(title, about));
  const bars = columnBars(Array.from({ length: ACTIONS }, (_, action) => String(action)));
  const [said, rates, seeds, elsewhere] = [sentence(), h("p", { class: "quiet" }), h("tbody", {}), h("p", { class: "outcome", role: "status" }, `Seeds 0 to ${SEEDS - 1} are being tried.`)];
  const steps = player("Step", shown);
  const lines = h("div", { class: "choices", role: "group", "aria-label": "Algorithms drawn" });
  const detail = h("div", {});
  let [runs, later] = [[], 0];

  function compute() {
    runs = algorithms.map((name) => train(name, asked));
    if (state.run && state.run.algorithm !== asked.algorithm) state.drawn.add(asked.algorithm);
    state.run = runs[algorithms.indexOf(asked.algorithm)];
    const drawn = runs.map((run, i) => [run, i]).filter(([run]) => state.drawn.has(run.algorithm));
    CURVES.forEach(([name, title, , range], at) => {
      const series = drawn.map(([run, i]) => ({ label: NAMES[run.algorithm], values: run[name], colour: i, width: run === state.run ? 3 : 1.5, dash: i > 2 && run !== state.run ? [6, 3] : undefined }));
      const last = series.map(({ label, values }) => `${label} ${number(values[values.length - 1])}`);
      charts[at].show({ x: Array.from({ length: asked.max_steps + 1 }, (_, i) => i), series, range, onclick: (step) => steps.show(step), said: `${title} after the last step: ${last.join(", ")}.` });
    });
    lines.replaceChildren(...runs.map((run, i) => h("button", { class: "key", "aria-pressed": String(state.drawn.has(run.algorithm)), onclick: () => toggle(run.algorithm, i) }, h("span", { class: `chip c${i + 1}` }), ending(run))));
    rates.textContent = ratesInWords(asked, runs);
    steps.to(state.run.steps.length, Math.min(steps.at() || Infinity, state.run.steps.length));
    overSeeds();
  }
  const ending = (run) => `${NAMES[run.algorithm]} ${fixed(run.expected_reward[run.expected_reward.length - 1])}${run.diverged === null ? "" : ` (diverged at step ${run.diverged})`}`;
  function toggle(name, i) {
    if (!state.drawn.delete(name)) state.drawn.add(name);
    compute();
    lines.children[i].focus();
  }
  /** The policy after `at` steps, and what led there. */
  function shown(at) {
    const { run } = state;
    if (!run) return;
    for (const figure of charts) figure.reveal(at);
    const step = run.steps[Math.min(at, run.steps.length - 1)];
    const chances = at < run.steps.length ? step.updates[0].probabilities : run.probabilities;
    const best = highest(run.action_rewards);
    const likeliest = highest(chances);
    const sentence_ = `Step ${at}: ${NAMES[run.algorithm]} answers ${likeliest} in ${percent(chances[likeliest])} of its tries, which earns ${number(run.action_rewards[likeliest])}; ${best}, the best, in ${percent(chances[best])}.`;
    bars.show(chances, run.action_rewards, [best], sentence_);
    said.textContent = `${sentence_} Expected reward ${fixed(run.expected_reward[at])}.`;
    said.dataset.reward = run.expected_reward[at];
    state.at = Math.max(0, at - 1);
    if (numbers.open) stepByStep();
  }
  /** What became of 30 seeds, one after the other, so that the page still answers. */
  async function overSeeds() {
    const mine = (state.asking = {});
    for (const place of [seeds, elsewhere]) place.classList.add("left-out"); // what stands there is of other settings
    const ends = algorithms.map(() => []);
    await new Promise((next) => setTimeout(next, 400)); // a slider may be moving
    for (let seed = 0; seed < SEEDS; seed++) {
      for (const [i, name] of algorithms.entries()) {
        await new Promise((next) => setTimeout(next));
        if (mine !== state.asking || (seed && !seeds.isConnected)) return;
        const { expected_reward, probabilities, action_rewards } = train(name, { ...asked, seed });
        ends[i].push([expected_reward.findIndex((reward) => reward >= 0.9), highest(probabilities) !== highest(action_rewards) ? highest(probabilities) : null]);
      }
    }
    seeds.replaceChildren(...algorithms.map((name, i) => seedsRow(NAMES[name], ends[i])));
    const trapped = algorithms.map((name, i) => `${NAMES[name]} ${ends[i].filter(([, action]) => action !== null).length}`);
    elsewhere.textContent = `With seeds 0 to ${SEEDS - 1}, so many end at another action than the best: ${trapped.filter((_, i) => state.drawn.has(algorithms[i])).join(", ")}.`;
    for (const place of [seeds, elsewhere]) place.classList.remove("left-out");
  }
  const updates = h("select", { onchange: () => ((state.update = Number(updates.value)), stepByStep()) });
  function stepByStep() {
    const { run } = state;
    if (!run.steps.length) return detail.replaceChildren(h("p", {}, "Already the first step diverged: lower the learning rate."));
    const step = run.steps[state.at];
    state.update = Math.min(state.update, step.updates.length - 1);
    updates.replaceChildren(...step.updates.map((_, i) => h("option", { value: i, selected: i === state.update }, String(i + 1))));
    const update = step.updates[state.update];
    detail.replaceChildren(
      actions(run, step, update),
      h("p", { class: "sums loss-of" }, `mean of the rewards ${fixed(step.mean)}, std ${fixed(step.std)}; loss ${fixed(update.loss, 4)}, of which β × KL is ${fixed(update.loss - update.policy_loss, 4)}; KL to the reference ${fixed(update.exact_kl, 4)}`),
      rows(step, update, run.algorithm),
    );
  }
  const numbers = h("details", { class: "each-step", ontoggle: () => numbers.open && stepByStep() }, h("summary", {}, "Every number of the step"), h("label", { class: "choice" }, h("span", {}, "Update with this group"), updates), detail);
  const set = (name, from = (value) => value) => (value) => {
    asked[name] = from(value);
    clearTimeout(later);
    later = setTimeout(compute, 60);
  };
  const knobs = KNOBS.map(([name, label, low, high, step]) => knob(label, low, high, step, asked[name], set(name)));
  const chosen = {
    algorithm: choice("Algorithm", algorithms.map((name) => [name, NAMES[name]]), asked.algorithm, set("algorithm")),
    landscape: choice("Rewards", landscapes.map((name) => [name, PLACES[name]]), asked.landscape, set("landscape")),
    matched: choice("Learning rates and β", [["true", "matched"], ["false", "as set"]], asked.matched, set("matched", (value) => value === "true")),
    scale_rewards: choice("scale_rewards", [["group", "group"], ["none", "none"]], asked.scale_rewards, set("scale_rewards")),
  };
  function preset(changes, drawn) {
    Object.assign(asked, defaults, changes);
    state.drawn = new Set(drawn);
    KNOBS.forEach(([name], i) => knobs[i].say(asked[name]));
    for (const [name, select] of Object.entries(chosen)) select.querySelector("select").value = String(asked[name]);
    compute();
    steps.show(Infinity);
  }
  compute();
  const table = h("table", { class: "numbers seeds" }, h("caption", {}, `Seeds 0 to ${SEEDS - 1}: median steps to a reward of 0.9, and how many end at another action than the best`), h("thead", {}, h("tr", {}, ["algorithm", "steps", "elsewhere"].map((name) => h("th", { scope: "col" }, name)))), seeds);
  return widget("bandit", "One policy of ten actions, and six algorithms", ["press Play.", "with 2 on top of every reward REINFORCE pushes up whatever it draws, and with this seed stays at 4, a worse action. With 13 of 30 seeds it ends at one: the last line.", "set “added to every reward” to 0.", "with this seed REINFORCE learns, and 2 of 30 still end at a worse action. GRPO's line does not change at all: it compares with the group's mean, its baseline."], {
    words: "Baseline: what is taken off each reward before it counts. KL: how far a policy is from its first one; entropy: how evenly its chances are spread; both in nats. PPO's clip: PPO's ratio and clip, with a mean that runs along as its critic (an answer is one token, so there is no λ).",
    learn: "Why subtract a baseline?",
    controls: [
      knobs[0],
      h("div", { class: "choices" }, h("button", { onclick: () => preset({ ...OPENING, algorithm: "reinforce", landscape: landscapes[0] }, ["grpo", "reinforce"]) }, "No baseline"), h("button", { onclick: () => preset({ ...TRAP, algorithm: "grpo" }, ["grpo", "rloo"]) }, "Set the trap")),
      h("div", { class: "choices" }, chosen.algorithm, chosen.landscape),
      knobs.slice(1, 3),
      h("p", { class: "quiet" }, "The trap: two peaks catch whoever learns fast from few samples. With G = 2, one update with each group and a learning rate of 4 as set, 8 of 30 seeds of GRPO end at 3, which earns 0.7, and stay there; by the defaults none does."),
      moreSettings(h("div", { class: "choices" }, chosen.matched, chosen.scale_rewards), rates, knobs.slice(3)),
    ],
    picture: [h("p", { class: "quiet" }, "Chance of each of ten answers; the line is what it earns."), bars.element, steps.element, said, charts[0].figure, lines, elsewhere],
    below: [
      h("div", { class: "charts" }, charts.slice(1).map(({ figure }) => figure)),
      h("div", { class: "wide" }, table),
      numbers,
      h("p", { class: "quiet" }, "A model that answers with one of ten digits, and learns which of them pays. The rules are a real run's (the KL is the paper's); only the model is small. With one question, REINFORCE++'s batch is the group: it is GRPO, but for its KL, which it takes off the reward."),
    ],
  });
}

/** How the learning rates are matched, in words. */
function ratesInWords(asked, runs) {
  const factor = runs.find((run) => run.algorithm === "reinforce_plus_plus").learning_rate / asked.learning_rate;
  const divided = asked.scale_rewards === "group";
  return [
    `${divided ? "GRPO and REINFORCE++ divide" : "REINFORCE++ divides"} by the rewards' standard deviation, so the same learning rate moves ${divided ? "them further, and they seem" : "it further, and it seems"} to learn faster.`,
    asked.matched ? `Matched, ${divided ? "theirs" : "its rate"} is multiplied by the deviation of the first policy's rewards, ${number(factor)}.` : "As set, all have the same rate.",
    divided && asked.beta ? (asked.matched ? "GRPO's KL is not divided, so its β is divided by that deviation." : "GRPO's KL is not divided: the same β holds it back less.") : "",
    asked.temperature === 1 ? "" : `All chances begin equal, so this temperature is no more than a learning rate multiplied by ${number(asked.temperature ** -2)}.`,
  ].join(" ");
}

const highest = (values) => values.indexOf(Math.max(...values));

/** A row of the table of seeds; `ends`: of each seed the step that reached 0.9, -1: none did, and the worse action it ended at, or null. */
function seedsRow(name, ends) {
  const needed = ends.map(([step]) => (step < 0 ? Infinity : step)).sort((a, b) => a - b);
  const middle = (needed[SEEDS / 2 - 1] + needed[SEEDS / 2]) / 2;
  const trapped = ends.map(([, action]) => action).filter((action) => action !== null);
  return h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, middle === Infinity ? "never" : number(middle)), h("td", { "data-trapped": trapped.length }, trapped.length ? `${trapped.length}, at ${[...new Set(trapped)].sort().join(", ")}` : "0"));
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
