"use strict";
// How far a token may go, ratio and clip; and what it weighs in the loss of its batch.

widget("ratio", (part, settings) => {
  const objective = chart(part.querySelector(".chart"));
  const slider = part.querySelector("[name=now]");
  const STEPS = 30;
  const clipOf = ({ epsilon }) => [1 - epsilon, 1 + epsilon];
  let path = [];

  function draw(changed) {
    path = climbed({ ...settings, rate: 0.05, steps: STEPS });
    if (changed === "now") path.fill(settings.now);
    return STEPS;
  }

  function show(at) {
    const { old, reference, advantage, beta } = settings;
    const now = path[at];
    slider.value = now;
    slider.nextElementSibling.textContent = number(now);
    const clip = clipOf(settings);
    const logs = [now, old, reference].map(Math.log);
    const token = terms(...logs, advantage, clip, beta);
    const { ratio } = token;
    const objectiveOf = (of, gain) => -terms(Math.log(of), 0, 0, gain, clip, 0).loss;
    const size = Math.max(Math.abs(advantage), 0.05);
    const highest = Math.max(2, 1.1 * ratio);
    const x = Array.from({ length: 201 }, (_, i) => 0.01 + ((highest - 0.01) * i) / 200);
    x.push(ratio);
    const series = [size, -size].map((gain, i) => {
      const values = x.slice(0, -1).map((of) => objectiveOf(of, gain));
      return { label: `A = ${number(gain)}`, values, colour: 2 - i, width: 2 };
    });
    const dot = x.map((of, i) => (i === x.length - 1 ? objectiveOf(of, advantage) : null));
    series.push({ label: "this token", values: dot, colour: 5, points: true });
    const words =
      `Ratio ${fixed(now)} ÷ ${fixed(old)} = ${fixed(ratio)}.` +
      ` ${pushOn(ratio, advantage, token.stopped)}`;
    const range = [-1.05 * highest * size, 1.3 * clip[1] * size];
    objective.show({ x, series, range, domain: [0, highest], words });
    part.querySelector(".detail").replaceChildren(inNumbers(logs, token));
    return words;
  }

  /** What its advantage does to a token whose ratio is this. */
  function pushOn(ratio, advantage, stopped) {
    if (!advantage) return "With an advantage of 0 nothing pushes it.";
    if (stopped) return "The clip stops it: no gradient pushes it further.";
    const way = advantage > 0 ? "up" : "down";
    if ((ratio - 1) * advantage >= 0) return `It is pushed ${way}.`;
    return `It went the wrong way, which is never clipped: it is pushed back ${way}.`;
  }

  /** The loss of the token as equations with their numbers. */
  function inNumbers([now, old, reference], { ratio, unclipped, clipped, kl, loss }) {
    const n = (value) => number(value, 4);
    const [a, bounds] = [n(settings.advantage), clipOf(settings).map(n).join(", ")];
    const smaller = n(Math.min(unclipped, clipped));
    const lines = [
      ["ratio", `exp(${n(now)} − ${n(old)}) = ${n(ratio)}`],
      ["unclipped", `${n(ratio)} × ${a} = ${n(unclipped)}`],
      ["clipped", `clip(${n(ratio)}, ${bounds}) × ${a} = ${n(clipped)}`],
      ["KL", `exp(${n(reference - now)}) − (${n(reference - now)}) − 1 = ${n(kl)}`],
      ["loss", `−(${smaller}) + ${n(settings.beta)} × ${n(kl)} = ${n(loss)}`],
    ];
    return table("sum", ["", "from ln of the probabilities"], lines);
  }

  /** The first ratio of the climb that the clip stops. */
  const truth = () =>
    path.map((now) => now / settings.old).find((ratio) => ratio >= clipOf(settings)[1]);
  return { draw, show, truth };
});

widget("loss", (part, settings, again) => {
  const LIMIT = 40; // max_completion_length, by which dr_grpo divides
  const WIDEST = 1 / 32; // the weight that fills its bar
  const lengthsOfRun = RUN.steps[0].groups[0].completions.map(({ tokens }) => tokens);
  let lengths = [];
  let weights = [];
  function draw(changed) {
    const { own, others, loss_type } = settings;
    if (changed !== "loss_type" || !lengths.length) lengths = [own, ...Array(7).fill(others)];
    if (changed === "run") lengths = lengthsOfRun;
    const batch = { completions: lengths.length, tokens: sum(lengths) };
    const options = { loss_type, max_completion_length: Math.max(LIMIT, ...lengths) };
    weights = lengths.map((tokens) => weightOfToken(tokens, batch, options));
    const rows = lengths.map((tokens, i) => {
      const style = `width: ${(100 * weights[i]) / WIDEST}%`;
      const bar = make("span", { class: i ? "c3" : "c1", style });
      const weight = make("span", { class: "number" }, fixed(weights[i], 5));
      const meter = make("span", { class: "meter" }, bar);
      return make("div", { class: "line" }, make("span", {}, `${tokens} tokens`), meter, weight);
    });
    part.querySelector(".weights").replaceChildren(...rows);
  }
  function show() {
    const [first, last] = [weights[0], weights[lengths.length - 1]].map((value) => fixed(value, 5));
    return `A token of the first answer weighs ${first}, one of the last ${last}.`;
  }
  part.querySelector("[data-lengths]").onclick = () => again("run");
  const truth = () => weights[0] / weights[lengths.length - 1];
  return { draw, show, first: { loss_type: "grpo" }, truth };
});
