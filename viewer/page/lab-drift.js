"use strict";
// The lab: the KL over a training, for three β laid over one another.

const DRIFT = { landscape: "plateau", learning_rate: 0.2, max_steps: 400, matched: false };
const DRIFT_SEEDS = 10;
const DRIFT_BETAS = { first: 0, second: 0.04, third: 0.3 };

/** The means over seeds of GRPO's KL, expected reward and largest probability. */
function meanCurves(settings) {
  const runs = Array.from({ length: DRIFT_SEEDS }, (_, seed) => train("grpo", { ...settings, seed }));
  const mean = (name) => runs[0][name].map((_, step) => average(runs.map((run) => run[name][step] ?? NaN)));
  return { kl: mean("kl"), expected_reward: mean("expected_reward"), largest: mean("largest") };
}

function driftWidget(defaults) {
  const asked = { ...defaults, ...DRIFT, ...DRIFT_BETAS };
  const names = Object.keys(DRIFT_BETAS);
  const divergences = chart("KL to the policy that training began with", `in nats, mean of ${DRIFT_SEEDS} seeds`);
  const earned = chart("Expected reward", `mean of ${DRIFT_SEEDS} seeds`);
  const said = sentence();
  const steps = player("Step", shown);
  const computed = new Map(); // thirty trainings take a second: what was computed once is kept
  let [curves, later] = [[], 0];
  const { slide } = playing(asked, () => {
    clearTimeout(later);
    later = setTimeout(redraw, 60);
  });
  async function redraw() {
    const mine = later;
    const next = [];
    for (const name of names) {
      const settings = { ...asked, beta: asked[name] };
      const key = [settings.beta, settings.noise, settings.learning_rate].join();
      if (!computed.has(key)) {
        await new Promise((then) => setTimeout(then)); // so that the page still answers
        if (mine !== later) return;
        computed.set(key, meanCurves(settings));
      }
      next.push(computed.get(key));
    }
    curves = next;
    drawn(divergences, "kl", [0, 2.35]);
    drawn(earned, "expected_reward", [0.35, 1.02]);
    steps.to(asked.max_steps, steps.at() || asked.max_steps);
  }
  function drawn(figure, name, range) {
    const series = curves.map((curve, i) => ({ label: `β = ${number(asked[names[i]])}`, values: curve[name], colour: i, width: 2.5 }));
    figure.show({ x: curves[0].kl.map((_, step) => step), series, legend: series, range, said: series.map(({ label, values }) => `${label}: ${fixed(values[values.length - 1])}`).join(", ") });
  }
  function shown(at) {
    if (!curves.length) return;
    for (const figure of [divergences, earned]) figure.reveal(at);
    const of = (name, step) => curves.map((curve) => fixed(curve[name][step], 2)).join(", ");
    said.textContent = `Step ${at}: KL ${of("kl", at)}${at > 100 ? ` (at step 100: ${of("kl", 100)})` : ""}; reward ${of("expected_reward", at)}; chance of the likeliest answer ${of("largest", at)}.`;
  }
  later = setTimeout(redraw);
  return widget("drift", "What β holds", ["press Play.", "after some 100 steps the reward has little to gain, and without a KL the policy drifts on: luck makes one of four equally good answers ever likelier. With β = 0.04 it moves little from there.", "drag “β of the first” to 0.3.", "its KL ends at 0.62 and no longer at 1.77, and its reward at 0.92 and no longer at 1: what holds it back costs."], {
    words: "KL: how far the policy is from the one that training began with, in nats; 0: not at all. β: how much of it the loss adds.",
    learn: "How do I choose G, β, ε and temperature?",
    controls: [
      slide("first", "β of the first", 0, 0.5, 0.01),
      slide("second", "β of the second", 0, 0.5, 0.01),
      slide("third", "β of the third", 0, 0.5, 0.01),
      moreSettings(slide("learning_rate", "learning rate", 0.05, 0.6, 0.05), slide("noise", "noise of a reward", 0, 0.5, 0.05)),
    ],
    picture: [h("div", { class: "charts" }, divergences.figure, earned.figure), steps.element, said],
    below: [h("p", { class: "quiet" }, "GRPO on ten answers of which four earn 1, with eight answers a step. Finding these four takes a KL of ln(10 / 4) = 0.92; 2.30 is the most there is: one answer, and no other.")],
  });
}
