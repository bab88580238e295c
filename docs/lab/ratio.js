"use strict";
// How far a token may go: ratio and clip. Its probability is dragged, or climbs by itself.

/** The settings of a loss. */
const lossOf = ({ loss_type = "grpo", epsilon, beta }) => ({
  loss_type,
  epsilon,
  beta,
  max_completion_length: 40,
});

/**
 * The loss of one token as equations with their numbers. `completion`: as `lossByToken` returns it;
 * `tokens`: the texts of its tokens.
 */
function lossInNumbers(completion, tokens, place) {
  const { settings, weight } = completion;
  const { beta, epsilon } = settings;
  const at = (name) => number(completion[name][place], 4);
  const chance = (name) => `${number(Math.exp(completion[name][place]), 4)} (log ${at(name)})`;
  const smaller = number(Math.min(completion.unclipped[place], completion.clipped[place]), 4);
  const bounds = `${number(1 - epsilon, 4)}, ${number(1 + epsilon, 4)}`;
  const difference = `${at("reference")} − ${at("new")}`;
  const stopped = `, where the clip would leave ${beta ? "only the KL's" : "no"} gradient`;
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
  if (weight) {
    const weighted = number(completion.loss[place] * weight, 6);
    const product = `${at("loss")} × ${number(weight, 6)} (${settings.loss_type}) = ${weighted}`;
    equations.push(["in the loss of the batch", product]);
  }
  const position = tokens.length > 1 ? `${place + 1} ` : "";
  const lines = equations.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`);
  return html`<div class="tile">
    <h3>Token ${position}“${tokens[place]}”</h3>
    <dl class="sum">${lines}</dl>
  </div>`;
}

{
  const part = partOf("ratio");
  const objective = chart(part.querySelector(".chart"));
  const settings = settingsOf(part, (name) => (name === "now" ? draw() : redraw()));
  const climb = player(part, climbTo, 6000);
  let path = [];
  function climbTo(step) {
    if (!path.length) return;
    settings.now = path[step];
    setControl(part, "now", settings.now);
    draw();
  }
  function redraw() {
    path = [];
    climb.to(30, 0);
    path = climbed({ ...settings, rate: 0.05, steps: 30 });
    draw();
  }
  function draw() {
    const { now, old, reference, advantage, epsilon } = settings;
    const token = { now: [now], old: [old], reference: [reference], advantage };
    const loss = lossByToken({ ...token, settings: lossOf(settings) });
    part.querySelector(".detail").replaceChildren(lossInNumbers(loss, ["7"], 0));
    const ratio = loss.ratio[0];
    const size = Math.max(Math.abs(advantage), 0.05);
    const clip = [1 - epsilon, 1 + epsilon];
    const objectiveOf = (of, gain) => -terms(Math.log(of), 0, 0, gain, clip, 0).loss;
    const highest = Math.max(2, 1.1 * ratio);
    const x = Array.from({ length: 201 }, (_, i) => 0.01 + ((highest - 0.01) * i) / 200);
    x.push(ratio);
    x.sort((a, b) => a - b);
    const series = [size, -size].map((gain, i) => ({
      label: `A = ${number(gain)}`,
      values: x.map((of) => objectiveOf(of, gain)),
      colour: 2 - i,
      width: 2,
    }));
    const value = advantage ? objectiveOf(ratio, Math.sign(advantage) * size) : 0;
    const dot = x.map((of) => (of === ratio ? value : null));
    series.push({ label: "this token", values: dot, colour: 5, points: true });
    const sentence = part.querySelector(".sums");
    sentence.textContent =
      `Ratio ${fixed(now)} ÷ ${fixed(old)} = ${fixed(ratio)}.` +
      ` ${pushOn(ratio, advantage, loss.stopped[0])}`;
    objective.show({ x, series, words: sentence.textContent });
  }

  /** What its advantage does to a token whose ratio is this. */
  function pushOn(ratio, advantage, stopped) {
    if (!advantage) return "With an advantage of 0 nothing pushes it.";
    if (stopped) return "The clip stops it: no gradient pushes it further.";
    const way = advantage > 0 ? "up" : "down";
    if ((ratio - 1) * advantage >= 0) return `It is pushed ${way}.`;
    return `It went the wrong way, which is never clipped: it is pushed back ${way}.`;
  }
  redraw();
}
