"use strict";
// What can be played with below the bandit: a group, one token, many batches, one completion, and what memory they take.

/** Redraws once at the start and after each change of what its controls set. */
function playing(asked, redraw) {
  const set = (name, from = Number) => (value) => ((asked[name] = from(value)), redraw());
  const slide = (name, label, low, high, step) => knob(label, low, high, step, asked[name], set(name));
  const pick = (name, label, options) => choice(label, options, asked[name], set(name, String));
  return { slide, pick };
}

/** Controls at the left, or above on a phone, and what they change. */
const beside = (controls, shown) => h("div", { class: "two" }, h("div", {}, controls), h("div", {}, shown));

/** A bar from the middle, to the right where the value is above 0. */
function sideways(value, most) {
  const bar = h("span", { class: value < 0 ? "down" : "up" });
  bar.style.width = `${(50 * Math.min(Math.abs(value), most)) / most}%`;
  return h("div", { class: "advantage", "aria-hidden": "true" }, bar);
}

// A group: its rewards are dragged.
function groupPlay() {
  const asked = { size: 8, kind: "grpo" };
  const rewards = [1, 0, 0, 1, 0, 0, 0, 0, ...new Array(8).fill(0)];
  const [lines, sums] = [h("div", { class: "lines" }), h("p", { class: "sums", role: "status" })];
  const kinds = [["grpo", "GRPO: ÷ standard deviation"], ["none", "Dr. GRPO: not divided"], ["rloo", "RLOO: mean of the others"]];
  const sliders = rewards.map((reward, i) => knob(`reward ${i + 1}`, 0, 1, 0.05, reward, (value) => ((rewards[i] = value), redraw())));
  const bars = rewards.map(() => h("span", { class: "one" }));
  const { slide, pick } = playing(asked, redraw);
  function redraw() {
    const group = rewards.slice(0, asked.size);
    const { mean, std, advantages: gains } = advantages(group, [], { scale_rewards: asked.kind === "grpo" ? "group" : "none", loss_type: asked.kind });
    sliders.forEach((slider, i) => (slider.hidden = bars[i].hidden = i >= asked.size));
    gains.forEach((gain, i) => bars[i].replaceChildren(sideways(gain, 4), h("span", { class: "number", "data-gain": gain }, fixed(gain))));
    const equal = new Set(group).size === 1;
    const why =
      asked.size === 1
        ? "One completion is its own mean: its advantage is 0 whatever it earns, so it teaches nothing. trl asks for two at least."
        : equal
          ? "All earn the same, so nobody is better than the mean: every advantage is 0, and the group teaches nothing."
          : "Above the mean is pushed up, below it down. The advantages add up to 0.";
    sums.textContent = `Mean ${fixed(mean)}, standard deviation ${fixed(std)}. ${why}`;
  }
  const all = (values) => () => (sliders.forEach((slider, i) => slider.say((rewards[i] = values(i)))), redraw());
  lines.append(...sliders.flatMap((slider, i) => [slider, bars[i]]));
  redraw();
  return beside([slide("size", "G, completions in the group", 1, 16, 1), h("div", { class: "choices" }, pick("kind", "Advantage", kinds)), h("div", { class: "choices" }, h("button", { onclick: all(() => 1) }, "All right"), h("button", { onclick: all(() => 0) }, "All wrong"), h("button", { onclick: all((i) => Number(i === 0)) }, "One right")), sums], lines);
}

/** Settings of a loss as tokens.js takes them. */
const lossOf = ({ loss_type = "grpo", epsilon, beta }) => ({ loss_type, importance_sampling_level: "token", epsilon, beta, use_bias_correction_kl: false, max_completion_length: 40 });

// Ratio, clip and KL: probabilities of one token are dragged.
function ratioPlay() {
  const asked = { now: 0.42, old: 0.3, reference: 0.25, advantage: 1, epsilon: 0.2, beta: 0.04 };
  const [objective, kl] = [chart("The clipped objective", "min(ratio × A, clipped ratio × A) over the ratio; the dot is this token's"), chart("KL to the reference", "exp(d) − d − 1 with d = log reference − log now, over the probability now")];
  const detail = h("div", { "aria-live": "polite" });
  const { slide } = playing(asked, redraw);
  const range = (low, high, n) => Array.from({ length: n + 1 }, (_, i) => low + ((high - low) * i) / n);
  function redraw() {
    const settings = lossOf(asked);
    const told = explainedTokens({ now: [asked.now], old: [asked.old], reference: [asked.reference], advantage: asked.advantage, settings });
    detail.replaceChildren(workedOut({ ...told, tokens: ["7"] }, {}, 0));
    // A line with a dot on it: the place of the dot is put among those of the line.
    const drawn = (figure, places, at, lines, value, range_) => {
      const x = [...places, at].sort((a, b) => a - b);
      const series = lines.map(([label, f, colour]) => ({ label, values: x.map(f), colour }));
      const dot = { label: "this token", values: x.map((each) => (each === at ? value : null)), colour: 5, point: true };
      figure.show({ x, series: [...series, dot], legend: [...series, dot], range: range_, said: `${lines.map(([label]) => label).join(", ")}; this token: ${number(value)} at ${number(at)}` });
    };
    const size = Math.max(Math.abs(asked.advantage), 0.05);
    const least = (sign) => (ratio) => Math.min(...["unclipped", "clipped"].map((name) => terms(Math.log(ratio), 0, 0, sign * size, [1 - asked.epsilon, 1 + asked.epsilon], 0)[name]));
    const at = told.ratio[0];
    drawn(objective, range(0.01, Math.max(2, 1.1 * at), 200), at, [[`A = ${number(size)}`, least(1), 2], [`A = ${number(-size)}`, least(-1), 1]], asked.advantage ? least(Math.sign(asked.advantage))(at) : 0);
    const k3 = (chance) => terms(Math.log(chance), 0, Math.log(asked.reference), 0, null, 0).kl;
    drawn(kl, range(0.01, 0.99, 98), asked.now, [["k3", k3, 0]], told.kl[0], [0, Math.max(1, 1.2 * told.kl[0])]);
  }
  redraw();
  const sliders = [["old", "probability when sampled", 0.01, 0.99, 0.01], ["now", "probability now", 0.01, 0.99, 0.01], ["reference", "probability in the reference", 0.01, 0.99, 0.01], ["advantage", "A, its advantage", -2, 2, 0.1], ["epsilon", "ε, the clip", 0.05, 0.9, 0.05], ["beta", "β, the weight of the KL", 0, 0.5, 0.01]];
  const words = "Where A is above 0 the line is flat beyond 1 + ε: more of it pays nothing, so nothing is pushed. Where A is below 0 it is flat under 1 − ε. The other side is never clipped: what went the wrong way is brought back.";
  return beside([sliders.map((each) => slide(...each)), h("p", { class: "quiet" }, words)], [objective.figure, kl.figure, detail]);
}

// Advantages over many batches.
function batchesPlay() {
  const asked = { method: "group", size: 8, questions: 8, low: 0.05, high: 0.95, batches: 100, seed: 0 };
  const figure = chart("Advantages", "of all completions of 100 batches; at the ends also what lies beyond");
  const said = h("p", { class: "sums", role: "status" });
  const { slide, pick } = playing(asked, redraw);
  const edges = Array.from({ length: 34 }, (_, i) => -4.125 + i / 4);
  function redraw() {
    const { values, silent, groups } = advantagesOfBatches(asked);
    const shares = histogram(values, edges).map((count) => count / values.length);
    const { mean, std } = moments(values);
    const largest = values.reduce((a, b) => Math.max(a, b));
    said.textContent = `Mean ${fixed(mean)}, standard deviation ${fixed(std)}, largest ${fixed(largest, 2)}. In ${percent(silent / groups)} of the groups all are right or all are wrong.`;
    figure.show({ x: shares.map((_, i) => edges[i] + 0.125), series: [{ values: shares, colour: 0, bars: true }], range: [0, Math.max(...shares) * 1.08], domain: [-4.2, 4.2], said: said.textContent });
  }
  redraw();
  const methods = [["group", "GRPO: the group's mean and deviation"], ["none", "Dr. GRPO: the group's mean"], ["batch", "the group's mean, the batch's deviation"], ["whole", "REINFORCE++: the batch's mean and deviation"], ["rloo", "RLOO: mean of the others"]];
  const sliders = [["size", "G, completions in a group", 2, 32, 1], ["questions", "questions in a batch", 2, 16, 1], ["high", "chance of the easiest", 0, 1, 0.05], ["low", "chance of the hardest", 0, 1, 0.05], ["seed", "seed of the batches", 0, 50, 1]];
  const words = "A completion earns 1 or 0. GRPO gives the only right answer to a hard question far more than a right one among many, up to (G − 1) / √G; undivided, a question that is right half of the time weighs most.";
  return beside([h("div", { class: "choices" }, pick("method", "Advantage by", methods)), sliders.map((each) => slide(...each)), h("p", { class: "quiet" }, words)], [figure.figure, said]);
}

// The loss of a completion, token by token.
function completionPlay() {
  const asked = { loss_type: "dapo", advantage: -0.8, epsilon: 0.2, beta: 0.04, others: 20 };
  const tokens = ["<think>", "7", "−", "4", "=", "2", "</think>", "2"];
  const chances = { old: [0.9, 0.6, 0.8, 0.7, 0.9, 0.3, 0.8, 0.7], now: [0.92, 0.6, 0.82, 0.68, 0.9, 0.21, 0.9, 0.45], reference: [0.8, 0.5, 0.8, 0.7, 0.9, 0.4, 0.7, 0.7] };
  let chosen = 5;
  const figure = chart("Loss of each token", "below 0 pays, above 0 costs");
  const [total, detail] = [h("p", { class: "sums", role: "status" }), h("div", {})];
  const buttons = tokens.map((text, i) => h("button", { class: "token", onclick: () => ((chosen = i), ofToken.forEach(([name, slider]) => slider.say(chances[name][i])), redraw()) }, text));
  const ofToken = [["old", "probability when sampled"], ["now", "its probability now"], ["reference", "its probability in the reference"]].map(([name, label]) => [name, knob(label, 0.01, 0.99, 0.01, chances[name][chosen], (value) => ((chances[name][chosen] = value), redraw()))]);
  const { slide, pick } = playing(asked, redraw);
  function redraw() {
    const batch = { completions: 8, tokens: tokens.length + 7 * asked.others };
    const told = explainedTokens({ ...chances, advantage: asked.advantage, settings: lossOf(asked), batch });
    const most = Math.max(...told.loss.map(Math.abs), 1e-9);
    buttons.forEach((button, i) => {
      button.setAttribute("aria-pressed", String(i === chosen));
      button.classList.toggle("stopped", told.stopped[i]);
      button.style.background = `color-mix(in srgb, var(${told.loss[i] > 0 ? "--down" : "--up"}) ${Math.round((50 * Math.abs(told.loss[i])) / most)}%, transparent)`;
    });
    const whole = sum(told.loss) * told.weight;
    total.textContent = `Each token weighs ${number(told.weight, 5)}, so the completion adds ${number(sum(told.loss), 4)} × ${number(told.weight, 5)} = ${number(whole, 5)} to the loss of its batch.`;
    total.dataset.loss = whole;
    detail.replaceChildren(workedOut({ ...told, tokens }, {}, chosen));
    figure.show({ x: tokens.map((_, i) => i), labels: tokens, series: [{ values: told.loss, colour: 0, bars: true }], domain: [-0.6, tokens.length - 0.4], range: [Math.min(0, ...told.loss) * 1.1, Math.max(0.001, ...told.loss) * 1.1], said: total.textContent });
  }
  redraw();
  const losses = [["dapo", "dapo: ÷ tokens of the batch"], ["grpo", "grpo: ÷ its own tokens, ÷ completions"], ["dr_grpo", "dr_grpo: ÷ 40, the limit, ÷ completions"]];
  return beside(
    [
      h("p", { class: "quiet" }, "A wrong answer of eight tokens, in a batch with seven others. Press a token and drag its probabilities; an outline marks one that the clip stops."),
      h("div", { class: "tokens", role: "group", "aria-label": "Tokens of the completion" }, buttons),
      ofToken.map(([, slider]) => slider),
      h("div", { class: "choices" }, pick("loss_type", "loss_type", losses)),
      [["advantage", "A, of all its tokens", -2, 2, 0.1], ["epsilon", "ε, the clip", 0.05, 0.9, 0.05], ["beta", "β, the weight of the KL", 0, 0.5, 0.01], ["others", "tokens of each other completion", 1, 40, 1]].map((each) => slide(...each)),
    ],
    [figure.figure, total, detail],
  );
}

// What the models take in memory: estimates of training/memory.py, which tests/bench/sizes.py writes.
function memoryPlay(memory) {
  const asked = { size: "7B", reference: true, reward: true };
  const [place, said] = [h("div", { class: "wide" }), h("p", { role: "status" })];
  const { pick } = playing(asked, redraw);
  const tick_ = (name, label) => h("label", { class: "tick" }, h("input", { type: "checkbox", checked: asked[name], onchange: (event) => ((asked[name] = event.target.checked), redraw()) }), label);
  const parts = Object.keys(memory["7B"].full.PPO);
  function redraw() {
    const ways = memory[asked.size];
    const told = Object.entries(ways).flatMap(([way, methods]) => Object.keys(methods).map((method) => ({ way, method, held: partsOf(methods[method], method, asked) })));
    for (const each of told) each.total = sum(Object.values(each.held));
    const most = Math.max(...told.map((each) => each.total));
    const bar = ({ held }) => h("div", { class: "parts", "aria-hidden": "true" }, parts.map((part, i) => { const one = h("span", { class: `c${i + 1}` }); one.style.width = `${(100 * held[part]) / most}%`; return one; }));
    const lines = told.map((each) => h("tr", {}, h("th", { scope: "row" }, `${each.method}, ${each.way}`, bar(each)), h("td", {}, h("b", { "data-total": each.total }, fixed(each.total, 1))), parts.map((part) => h("td", {}, each.held[part] ? fixed(each.held[part], 1) : ""))));
    const head = ["GiB", "total", ...parts.map((part, i) => [h("span", { class: `chip c${i + 1}` }), part])];
    place.replaceChildren(h("table", { class: "memory" }, h("thead", {}, h("tr", {}, head.map((each) => h("th", { scope: "col" }, each)))), h("tbody", {}, lines)));
    const share = (way) => { const [ppo, grpo] = ["PPO", "GRPO"].map((method) => told.find((each) => each.way === way && each.method === method).total); return percent(grpo / ppo); };
    said.textContent = `GRPO is said to need about half of PPO's memory. Of ${asked.size} it holds ${share("full")} where all weights are trained, ${share("LoRA")} with LoRA and ${share("QLoRA")} with QLoRA.`;
  }
  redraw();
  return h(
    "div",
    {},
    h("div", { class: "choices" }, pick("size", "Model", Object.keys(memory).map((each) => [each, each])), tick_("reference", "KL to a reference (β above 0)"), tick_("reward", "a learned reward model, of the same size, in bfloat16")),
    said,
    place,
    h("p", { class: "quiet" }, "Full: float32 weights and moments, as in qwen-math-full. LoRA: a bfloat16 base and a float32 adapter, whose reference is a second adapter, as in qwen-math-lora; PPO's critic has a base of its own. QLoRA: that base in four bits. Batches and sampling need more: ", h("code", {}, "make memory"), " estimates yours."),
  );
}
