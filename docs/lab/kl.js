"use strict";
// How far a policy has gone: the KL of a distribution with k3 beside it, and over a training.

{
  const part = partOf("kl");
  const WORDS = ["Paris", "Lyon", "a", "the", "called"];
  const REFERENCE = [0.5, 0.2, 0.15, 0.1, 0.05];
  const DRAWS_SHOWN = 300;
  const weights = [20, 50, 15, 10, 10];
  const figure = chart(part.querySelector(".chart"));
  const settings = settingsOf(part, redraw);
  const drawing = player(part, showDraws, 6000);
  let estimates = null;
  const rows = WORDS.map((word, i) => {
    const move = (event) => {
      weights[i] = Number(event.target.value);
      redraw();
    };
    return html`<tr>
      <th scope="row">${word}</th>
      <td class="slide"><input type="range" min="1" max="100" value=${weights[i]}
        aria-label=${`weight of ${word}`} oninput=${move}></td>
      <td class="now"></td><td>${percent(REFERENCE[i])}</td><td class="k1"></td><td class="k3"></td>
    </tr>`;
  });
  part.querySelector("tbody").append(...rows);

  function redraw() {
    const total = sum(weights);
    const now = weights.map((weight) => weight / total);
    estimates = divergence(now, REFERENCE, DRAWS_SHOWN, settings.seed);
    const { k1, k3, exact, means } = estimates;
    rows.forEach((row, i) => {
      row.querySelector(".now").textContent = percent(now[i]);
      row.querySelector(".k1").textContent = fixed(k1[i], 2);
      row.querySelector(".k3").textContent = fixed(k3[i], 2);
    });
    const x = Array.from({ length: DRAWS_SHOWN }, (_, i) => i + 1);
    const series = [
      { label: "mean of k1, log now − log reference", values: means.k1, colour: 1 },
      { label: "mean of k3", values: means.k3, colour: 0, width: 3 },
      { label: "exact KL", values: x.map(() => exact), colour: 5, dash: [6, 4] },
    ];
    const high = Math.max(0.1, 1.5 * exact, ...means.k3.slice(20));
    const last = `k1 ${fixed(means.k1[DRAWS_SHOWN - 1])}, k3 ${fixed(means.k3[DRAWS_SHOWN - 1])}`;
    const words = `After ${DRAWS_SHOWN} words ${last}, exact ${fixed(exact)}`;
    figure.show({ x, series, range: [-0.6 * high, 1.3 * high], words });
    drawing.to(DRAWS_SHOWN, drawing.at() || DRAWS_SHOWN);
  }

  function showDraws(at) {
    const { means, exact, k1, k3 } = estimates;
    figure.reveal(at || 0.5);
    const mean = (name) => (at ? fixed(means[name][at - 1]) : "none");
    part.querySelector(".sums").textContent =
      `Exact KL ${fixed(exact)} nats. After ${at} words drawn the mean of k1 is ${mean("k1")},` +
      ` that of k3 ${mean("k3")}. The smallest k3 of a word is ${fixed(Math.min(...k3))}, the` +
      ` smallest k1 ${fixed(Math.min(...k1))}.`;
  }
  part.querySelector("[data-reset]").onclick = () => {
    rows.forEach((row, i) => {
      weights[i] = 100 * REFERENCE[i];
      row.querySelector("input").value = weights[i];
    });
    redraw();
  };
  redraw();
}

// The KL over a training, for three β laid over one another.
{
  const part = partOf("drift");
  const SEEDS = 10;
  const STEPS = 400;
  const BETAS = ["first", "second", "third"];
  const [divergences, rewards] = [...part.querySelectorAll(".chart")].map(chart);
  const steps = player(part, showStep);
  const computed = new Map(); // thirty trainings take a second: what was computed once stays here
  let curves = [];
  let timer = 0;
  const settings = settingsOf(part, () => {
    clearTimeout(timer);
    timer = setTimeout(redraw, 60);
  });

  /** The means over seeds of GRPO's KL, expected reward and largest probability. */
  function meanCurves(beta) {
    const { noise, learning_rate } = settings;
    const problem = { landscape: "plateau", max_steps: STEPS, matched: false };
    const options = { ...SETTINGS.defaults, ...problem, beta, noise, learning_rate };
    const seeds = Array.from({ length: SEEDS }, (_, seed) => seed);
    const runs = seeds.map((seed) => train("grpo", { ...options, seed }));
    const mean = (name) =>
      runs[0][name].map((_, step) => average(runs.map((run) => run[name][step] ?? NaN)));
    return { kl: mean("kl"), expected_reward: mean("expected_reward"), largest: mean("largest") };
  }

  async function redraw() {
    const started = timer;
    const next = [];
    for (const name of BETAS) {
      const key = [settings[name], settings.noise, settings.learning_rate].join();
      if (!computed.has(key)) {
        await new Promise((resolve) => setTimeout(resolve)); // so that the page still answers
        if (started !== timer) return;
        computed.set(key, meanCurves(settings[name]));
      }
      next.push(computed.get(key));
    }
    curves = next;
    drawCurves(divergences, "kl", [0, 2.35]);
    drawCurves(rewards, "expected_reward", [0.35, 1.02]);
    steps.to(STEPS, steps.at() || STEPS);
  }

  function drawCurves(figure, name, range) {
    const series = curves.map((curve, i) => {
      const label = `β = ${number(settings[BETAS[i]])}`;
      return { label, values: curve[name], colour: i, width: 2.5 };
    });
    const ends = series.map(({ label, values }) => `${label}: ${fixed(values[STEPS])}`);
    figure.show({ x: curves[0].kl.map((_, step) => step), series, range, words: ends.join(", ") });
  }

  function showStep(at) {
    if (!curves.length) return;
    divergences.reveal(at);
    rewards.reveal(at);
    const of = (name, step) => curves.map((curve) => fixed(curve[name][step], 2)).join(", ");
    const earlier = at > 100 ? ` (at step 100: ${of("kl", 100)})` : "";
    part.querySelector(".sums").textContent =
      `Step ${at}: KL ${of("kl", at)}${earlier}; reward ${of("expected_reward", at)};` +
      ` chance of the likeliest answer ${of("largest", at)}.`;
  }
  timer = setTimeout(redraw);
}
