"use strict";
// How far a token may go, ratio and clip; and what it weighs in the loss of its batch.

widget("ratio", (part, settings) => {
  const objective = chart(part.querySelector(".chart"));
  const slider = part.querySelector("[name=now]");
  const RATE = 0.05;
  const STEPS = 30;
  let path = [];

  function draw(changed) {
    if (changed !== "now") path = climbed({ ...settings, rate: RATE, steps: STEPS });
    else path = path.map(() => settings.now);
    return STEPS;
  }

  function show(at) {
    const { old, reference, advantage, epsilon, beta } = settings;
    const now = path[at];
    slider.value = now;
    slider.nextElementSibling.textContent = number(now);
    const clip = [1 - epsilon, 1 + epsilon];
    const logs = [now, old, reference].map(Math.log);
    const token = terms(...logs, advantage, clip, beta);
    const { ratio } = token;
    const objectiveOf = (of, gain) => -terms(Math.log(of), 0, 0, gain, clip, 0).loss;
    const size = Math.max(Math.abs(advantage), 0.05);
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
    const value = objectiveOf(ratio, advantage);
    const dot = x.map((of) => (of === ratio ? value : null));
    series.push({ label: "this token", values: dot, colour: 5, points: true });
    const words =
      `Ratio ${fixed(now)} ÷ ${fixed(old)} = ${fixed(ratio)}.` +
      ` ${pushOn(ratio, advantage, token.stopped)}`;
    const range = [-1.05 * highest * size, 1.3 * clip[1] * size];
    objective.show({ x, series, range, words });
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
  function inNumbers(logs, { ratio, unclipped, clipped, kl, loss }) {
    const { advantage, epsilon, beta } = settings;
    const [now, old, reference] = logs.map((log) => number(log, 4));
    const [of, a, b, k] = [ratio, unclipped, clipped, kl].map((value) => number(value, 4));
    const smaller = number(Math.min(unclipped, clipped), 4);
    const bounds = `${number(1 - epsilon)}, ${number(1 + epsilon)}`;
    const lines = [
      ["ratio", `exp(${now} − ${old}) = ${of}`],
      ["unclipped", `${of} × ${number(advantage)} = ${a}`],
      ["clipped", `clip(${of}, ${bounds}) × ${number(advantage)} = ${b}`],
      ["KL", `exp(${reference} − ${now}) − (${reference} − ${now}) − 1 = ${k}`],
      ["loss", `−(${smaller}) + ${number(beta)} × ${k} = ${number(loss, 4)}`],
    ];
    return table("sum", ["", "with log-probabilities"], lines);
  }

  /** The first ratio of the climb that the clip stops. */
  function truth() {
    const { old, epsilon } = settings;
    return path.map((now) => now / old).find((ratio) => ratio >= 1 + epsilon);
  }
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
    const limit = Math.max(LIMIT, ...lengths);
    const options = { loss_type, max_completion_length: limit };
    weights = lengths.map((tokens) => weightOfToken(tokens, batch, options));
    const rows = lengths.map((tokens, i) =>
      make("div", { class: "line" }, [
        make("span", {}, `${tokens} tokens`),
        meter(weights[i] / WIDEST, i ? "c3" : "c1"),
        make("span", { class: "number" }, fixed(weights[i], 5)),
      ]),
    );
    part.querySelector(".weights").replaceChildren(...rows);
  }
  function show() {
    const [short, long] = [0, lengths.length - 1].map((i) => [weights[i], weights[i] * lengths[i]]);
    return (
      `A token of the first answer weighs ${fixed(short[0], 5)}, one of the last` +
      ` ${fixed(long[0], 5)}; all tokens of the first ${fixed(short[1], 4)}, of the last` +
      ` ${fixed(long[1], 4)}.`
    );
  }
  part.querySelector("[data-lengths]").onclick = () => again("run");
  const truth = () => weights[0] / weights[lengths.length - 1];
  return { draw, show, first: { loss_type: "grpo" }, truth };
});
