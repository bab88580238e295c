"use strict";
// The lab: how far a token may go, and how far a policy has gone: ratio and clip, k3 and the KL.

/** The settings of a loss. */
const lossOf = ({ loss_type = "grpo", epsilon, beta }) => ({ loss_type, epsilon, beta, max_completion_length: 40 });

/** The loss of one token as equations with their numbers. `completion`: as `lossByToken` returns
 * it; `tokens`: the texts of its tokens. */
function lossInNumbers(completion, tokens, place) {
  const { beta, epsilon, loss_type: lossType } = completion.settings;
  const at = (name) => number(completion[name][place], 4);
  const chance = (name) => `${number(Math.exp(completion[name][place]), 4)} (log ${at(name)})`;
  const smaller = number(Math.min(completion.unclipped[place], completion.clipped[place]), 4);
  const bounds = `${number(1 - epsilon, 4)}, ${number(1 + epsilon, 4)}`;
  const difference = `${at("reference")} − ${at("new")}`;
  const gradient = beta ? "only the KL's" : "no";
  const stopped = `, where the clip would leave ${gradient} gradient`;
  const equations = [
    ["probability when sampled", chance("old")],
    ["probability now", chance("new")],
    ["ratio", `exp(${at("new")} − ${at("old")}) = ${at("ratio")}`],
    ["unclipped", `${at("ratio")} × ${at("advantages")} = ${at("unclipped")}`],
    ["clipped", `clip(${at("ratio")}, ${bounds}) × ${at("advantages")} = ${at("clipped")}`],
    ["the smaller of both", `${smaller}${completion.stopped[place] ? stopped : ""}`],
    ["KL to the reference", `exp(${difference}) − (${difference}) − 1 = ${at("kl")}`],
    ["loss", `−(${smaller}) + ${number(beta, 4)} × ${at("kl")} = ${at("loss")}`],
  ];
  const { weight } = completion;
  if (weight) {
    const weighted = number(completion.loss[place] * weight, 6);
    const product = `${at("loss")} × ${number(weight, 6)} (${lossType}) = ${weighted}`;
    equations.push(["in the loss of the batch", product]);
  }
  const which = tokens.length > 1 ? `${place + 1} ` : "";
  return h(
    "div",
    { class: "tile" },
    h("h3", {}, `Token ${which}“${tokens[place]}”`),
    h(
      "dl",
      { class: "sum", "data-loss": completion.loss[place] },
      equations.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
    ),
  );
}

/** Evenly spaced numbers from `low` to `high`. */
const evenly = (low, high, count) => Array.from({ length: count + 1 }, (_, i) => low + ((high - low) * i) / count);

/** Lines of a chart with a dot at `at`, whose place is put among theirs. `lines`: label, function, colour. */
function withDot(places, at, lines, value, range) {
  const x = [...places, at].sort((a, b) => a - b);
  const series = lines.map(([label, f, colour]) => ({ label, values: x.map(f), colour, width: 2 }));
  const dot = { label: "this token", values: x.map((place) => (place === at ? value : null)), colour: 5, point: true };
  return { x, series: [...series, dot], legend: [...series, dot], range, said: `${lines.map(([label]) => label).join(", ")}; this token: ${number(value)} at ${number(at)}` };
}

// Ratio and clip: the probability of a token is dragged, or climbs by itself.
function ratioWidget() {
  const asked = { now: 0.3, old: 0.3, reference: 0.25, advantage: 1, epsilon: 0.2, beta: 0 };
  const objective = chart("The clipped objective", "min(ratio × A, clipped ratio × A), over the ratio");
  const [said, detail] = [sentence(), h("div", { "aria-live": "polite" })];
  const climb = player("Update", updated, 6000);
  const { slide } = playing(asked, redraw);
  const now = knob("probability now", 0.01, 0.99, 0.01, asked.now, (value) => ((asked.now = value), redraw()));
  let path = [];
  function updated(at) {
    if (!path.length) return;
    asked.now = path[at];
    now.say(asked.now);
    draw();
  }
  function redraw() {
    path = [];
    climb.to(30, 0);
    path = climbed({ ...asked, rate: 0.05, steps: 30 });
    draw();
  }
  function draw() {
    const told = lossByToken({ now: [asked.now], old: [asked.old], reference: [asked.reference], advantage: asked.advantage, settings: lossOf(asked) });
    detail.replaceChildren(lossInNumbers(told, ["7"], 0));
    const size = Math.max(Math.abs(asked.advantage), 0.05);
    const least = (sign) => (ratio) => Math.min(...["unclipped", "clipped"].map((name) => terms(Math.log(ratio), 0, 0, sign * size, [1 - asked.epsilon, 1 + asked.epsilon], 0)[name]));
    const at = told.ratio[0];
    objective.show(withDot(evenly(0.01, Math.max(2, 1.1 * at), 200), at, [[`A = ${number(size)}`, least(1), 2], [`A = ${number(-size)}`, least(-1), 1]], asked.advantage ? least(Math.sign(asked.advantage))(at) : 0));
    said.textContent = `Ratio ${fixed(asked.now)} ÷ ${fixed(asked.old)} = ${fixed(at)}. ${pushOn(at, asked.advantage, told.stopped[0])}`;
  }
  redraw();
  return widget("ratio", "Ratio and clip of one token", ["press Play: the token earned an advantage above 0, and its chance grows with each update of the same group.", "at a ratio of 1 + ε the line is flat, and the clip stops it.", "drag A, its advantage, to −1.", "the same ratio is now on the wrong side, which is never clipped: the token is pushed back. Press Play, and it falls from 1 to 1 − ε, where the clip stops it again."], {
    words: "Ratio: a token's probability now by what it was when the answer was drawn. ε: how far from 1 the ratio may pay. Reference: the policy that training began with.",
    learn: "How does PPO do it, step by step?",
    controls: [
      now,
      slide("old", "probability when sampled", 0.01, 0.99, 0.01),
      slide("advantage", "A, its advantage", -2, 2, 0.1),
      slide("epsilon", "ε, the clip", 0.05, 0.9, 0.05),
      moreSettings(slide("reference", "probability in the reference", 0.01, 0.99, 0.01), slide("beta", "β, the weight of the KL", 0, 0.5, 0.01)),
    ],
    picture: [objective.figure, climb.element, said],
    below: h("details", {}, h("summary", {}, "Every number of this token"), detail),
  });
}

/** What its advantage does to a token whose ratio is this. */
function pushOn(ratio, advantage, stopped) {
  if (!advantage) return "With an advantage of 0 nothing pushes it.";
  if (stopped) return "The clip stops it: no gradient pushes it further.";
  const way = advantage > 0 ? "up" : "down";
  return (ratio - 1) * advantage < 0 ? `It went the wrong way, which is never clipped: it is pushed back ${way}.` : `It is pushed ${way}.`;
}

// The KL of a whole distribution, and k3 beside it.
function klWidget() {
  const words = ["Paris", "Lyon", "a", "the", "called"];
  const reference = [0.5, 0.2, 0.15, 0.1, 0.05];
  const weights = [20, 50, 15, 10, 10];
  const asked = { seed: 0 };
  const draws = 300;
  const figure = chart("Estimated from words drawn", "means of k1 and k3 over the words drawn so far, and the exact KL");
  const said = sentence();
  const cells = words.map(() => ["now", "k1", "k3"].map(() => h("td", {})));
  const sliders = words.map((word, i) => h("input", { type: "range", min: 1, max: 100, value: weights[i], "aria-label": `weight of ${word}`, oninput: () => ((weights[i] = Number(sliders[i].value)), redraw()) }));
  const drawing = player("Word", shown, 6000);
  const { slide } = playing(asked, redraw);
  let of = null;
  function redraw() {
    const now = weights.map((weight) => weight / sum(weights));
    of = divergence(now, reference, draws, asked.seed);
    words.forEach((_, i) => [percent(now[i]), fixed(of.k1[i], 2), fixed(of.k3[i], 2)].forEach((text, at) => (cells[i][at].textContent = text)));
    const x = Array.from({ length: draws }, (_, i) => i + 1);
    const series = [
      { label: "mean of k1, log now − log reference", values: of.means.k1, colour: 1 },
      { label: "mean of k3", values: of.means.k3, colour: 0, width: 3 },
      { label: "exact KL", values: x.map(() => of.exact), colour: 5, dash: [6, 4] },
    ];
    const high = Math.max(0.1, 1.5 * of.exact, ...of.means.k3.slice(20));
    figure.show({ x, series, legend: series, range: [-0.6 * high, 1.3 * high], said: `After ${draws} words k1 ${fixed(of.means.k1[draws - 1])}, k3 ${fixed(of.means.k3[draws - 1])}, exact ${fixed(of.exact)}` });
    drawing.to(draws, drawing.at() || draws);
  }
  function shown(at) {
    figure.reveal(at || 0.5);
    const [k1, k3] = ["k1", "k3"].map((name) => (at ? fixed(of.means[name][at - 1]) : "none"));
    said.textContent = `Exact KL ${fixed(of.exact)} nats. After ${at} words drawn the mean of k1 is ${k1}, that of k3 ${k3}. The smallest k3 of a word is ${fixed(Math.min(...of.k3))}, the smallest k1 ${fixed(Math.min(...of.k1))}.`;
  }
  redraw();
  const head = ["", "weight", "now", "reference", "k1", "k3"].map((name) => h("th", { scope: "col" }, name));
  const rows = words.map((word, i) => h("tr", {}, h("th", { scope: "row" }, word), h("td", { class: "slide" }, sliders[i]), cells[i][0], h("td", {}, percent(reference[i])), cells[i][1], cells[i][2]));
  const reset = h("button", { onclick: () => (reference.forEach((chance, i) => (sliders[i].value = weights[i] = 100 * chance)), redraw()) }, "As the reference");
  return widget("kl", "The KL of a policy, and k3", ["press Play: words are drawn, as in training.", "the means of k1 and of k3 both come near the exact KL, 0.279, k3's with less scatter. In the table k1 of a word may be negative, and k3 never is.", "drag the weight of Paris to 5, and press Play again.", "far from the reference k3 scatters more: “Paris”, now rare, has a k3 of 5.80. After 300 words its mean is 0.461 and k1's 0.621, where the exact KL is 0.564."], {
    words: "KL (Kullback–Leibler divergence): how far a policy is from the reference, the policy that training began with: the mean, over what it draws, of log now − log reference. In nats, the unit of the natural logarithm; 0 where both are the same. k1 is that difference for one word, k3 another estimate of the same mean.",
    learn: "What is it in ten lines?",
    controls: [
      h("p", { class: "quiet" }, "What follows “The capital of France is”:"),
      h("div", { class: "wide" }, h("table", { class: "numbers words" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows))),
      h("div", { class: "choices" }, reset),
      moreSettings(slide("seed", "seed of the words", 0, 50, 1)),
    ],
    picture: [figure.figure, drawing.element, said],
    below: h("p", { class: "quiet" }, "k3 = exp(d) − d − 1 with d = log reference − log now. Its mean over what the policy draws is the KL, since the mean of exp(d) is 1; trl takes it token by token."),
  });
}
