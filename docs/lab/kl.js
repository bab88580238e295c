"use strict";
// How far a policy has gone: the KL of a distribution with k3 beside it, and over a training.

widget("kl", (part, settings) => {
  const { words: WORDS, reference: REFERENCE, weights: WEIGHTS } = SETTINGS.france;
  const DRAWS_SHOWN = 300;
  const X = Array.from({ length: DRAWS_SHOWN }, (_, i) => i + 1);
  const figure = chart(part.querySelector(".chart"));
  let now = REFERENCE;
  let estimates = null;

  function draw() {
    const weights = [settings.paris, ...WEIGHTS.slice(1)];
    now = weights.map((weight) => weight / sum(weights));
    estimates = divergence(now, REFERENCE, DRAWS_SHOWN, settings.seed);
    const { k1, k3, exact, means } = estimates;
    const rows = WORDS.map((word, i) => {
      const estimate = [k1, k3].map((values) => fixed(values[i], 2));
      return [word, percent(now[i]), percent(REFERENCE[i]), ...estimate];
    });
    const heads = ["", "now", "reference", "k1", "k3"];
    part.querySelector(".wide").replaceChildren(table("words", heads, rows));
    const series = [
      { label: "mean of k1", values: means.k1, colour: 1 },
      { label: "mean of k3", values: means.k3, colour: 0, width: 3 },
      { label: "exact KL", values: X.map(() => exact), colour: 5, dash: [6, 4] },
    ];
    const high = Math.max(0.1, 1.5 * exact, ...means.k3.slice(20));
    figure.show({ x: X, series, range: [-0.6 * high, 1.3 * high], words: `KL ${fixed(exact)}` });
    return DRAWS_SHOWN;
  }

  function show(at) {
    const { means, exact } = estimates;
    figure.reveal(at || 0.5);
    if (!at) return `Exact KL ${fixed(exact)} nats. No word is drawn yet.`;
    const [k1, k3] = ["k1", "k3"].map((name) => fixed(means[name][at - 1]));
    return `Exact KL ${fixed(exact)} nats. After ${at} words the mean of k1 is ${k1}, of k3 ${k3}.`;
  }

  /** Whose single values scatter less about their mean. */
  function truth() {
    const [k1, k3] = ["k1", "k3"].map((name) =>
      sum(now.map((chance, i) => chance * (estimates[name][i] - estimates.exact) ** 2)),
    );
    return k3 < k1 ? "k3" : "k1";
  }
  return { draw, show, truth };
});

// The KL over a training, for three β laid over one another.
widget("drift", (part, settings) => {
  const SEEDS = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
  const STEPS = 400;
  const X = Array.from({ length: STEPS + 1 }, (_, step) => step);
  const [divergences, rewards] = [...part.querySelectorAll(".chart")].map(chart);
  const computed = new Map(); // ten trainings take a third of a second: they are kept
  let curves = [];

  /** The means over seeds of GRPO's KL, expected reward and largest probability. */
  function meanCurves(beta, learning_rate) {
    const problem = { landscape: "plateau", max_steps: STEPS, matched: false };
    const options = { ...SETTINGS.defaults, ...problem, beta, learning_rate };
    const runs = SEEDS.map((seed) => train("grpo", { ...options, seed }));
    const mean = (name) => X.map((step) => average(runs.map((run) => run[name][step] ?? NaN)));
    return { kl: mean("kl"), expected_reward: mean("expected_reward"), largest: mean("largest") };
  }

  function draw() {
    const betas = [settings.first, 0.04, 0.3];
    curves = betas.map((beta) => {
      const key = `${beta} ${settings.learning_rate}`;
      if (!computed.has(key)) computed.set(key, meanCurves(beta, settings.learning_rate));
      return computed.get(key);
    });
    const show = (figure, name, range) => {
      const series = curves.map((curve, i) => {
        return { label: `β = ${number(betas[i])}`, values: curve[name], colour: i, width: 2.5 };
      });
      const ends = series.map(({ label, values }) => `${label}: ${fixed(values[STEPS])}`);
      figure.show({ x: X, series, range, words: ends.join(", ") });
    };
    show(divergences, "kl", [0, 2.35]);
    show(rewards, "expected_reward", [0.35, 1.02]);
    return STEPS;
  }

  const listed = (name, step) => curves.map((curve) => fixed(curve[name][step], 2)).join(", ");

  function show(at) {
    for (const figure of [divergences, rewards]) figure.reveal(at);
    const earlier = at > 100 ? ` (at step 100: ${listed("kl", 100)})` : "";
    return (
      `Step ${at}: KL ${listed("kl", at)}${earlier}; reward ${listed("expected_reward", at)};` +
      ` chance of the likeliest answer ${listed("largest", at)}.`
    );
  }

  const truth = () => trend(curves[0].kl[100], curves[0].kl[STEPS]);
  return { draw, show, truth };
});
