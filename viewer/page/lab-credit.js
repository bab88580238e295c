"use strict";
// The lab: which token is blamed. GRPO gives all tokens of an answer one advantage, PPO's critic and rewards of steps tell
// them apart.

const PENCILS = { question: "3 boxes hold 12 pencils each. 8 are given away, and two children share what is left. How many has each?", others: [[1, 1, 1, 1], [0, 1, 1, 1], [1, 1, 1, 1]] };
const CREDIT = { grpo: "GRPO: one for all tokens", ppo: "PPO: by token, from its critic", steps: "GRPO with rewards of steps" };

/** The steps of the answer, with a mistake in one of them, -1: in none. */
function pencilSteps(mistake) {
  const wrong = (step, by) => (step === mistake ? by : 0);
  const packed = 36 + wrong(0, 2);
  const left = packed - 8 + wrong(1, -2);
  const share = left / 2 + wrong(2, -2);
  return [`3 × 12 = ${packed}`, `${packed} − 8 = ${left}`, `${left} ÷ 2 = ${share}`, `Answer: ${share + wrong(3, 1)}`];
}

/** All that the widget shows of the answer: its tokens with their steps, the critic's values, and the advantages by each way. */
function credited({ mistake, lambda, critic }) {
  const steps = pencilSteps(mistake);
  const tokens = steps.flatMap((text, step) => text.split(" ").map((token) => ({ token, step })));
  const ends = tokens.map(({ step }, i) => i + 1 === tokens.length || tokens[i + 1].step !== step);
  const marks = steps.map((_, step) => Number(step !== mistake));
  const reward = Number(mistake < 0);
  // A critic that sees the mistake values what was right so far at 0.6 and more, and at 0.1 once the wrong number stands.
  const values = tokens.map(({ step }) => (critic === "blind" ? 0.5 : mistake >= 0 && step > mistake ? 0.1 : 0.6 + 0.08 * step));
  const rewards = tokens.map((_, i) => (i + 1 === tokens.length ? reward : 0));
  const whole = advantages([reward, ...PENCILS.others.map((others) => Math.min(...others))], [], {}).advantages[0];
  const shares = sharesOfSteps([marks, ...PENCILS.others]);
  const gains = { grpo: tokens.map(() => whole), ppo: estimatedAdvantages(values, rewards, lambda), steps: tokens.map(({ step }) => whole + shares[step]) };
  return { steps, tokens, ends, marks, reward, values, rewards, whole, shares, gains };
}

function creditWidget() {
  const asked = { mistake: 1, lambda: 0.5, critic: "sees" };
  const [said, choices] = [sentence(), h("div", { class: "choices steps-of" })];
  const lines = Object.entries(CREDIT).map(([way, label]) => ({ way, tokens: h("div", { class: "tokens" }), label }));
  const reading = player("Token", shown, 6000);
  const { slide, pick } = playing(asked, redraw);
  let all = null;
  const place = (step) => () => ((asked.mistake = asked.mistake === step ? -1 : step), redraw(), choices.children[step].focus());
  function redraw() {
    all = credited(asked);
    choices.replaceChildren(...all.steps.map((text, step) => h("button", { "aria-pressed": String(step === asked.mistake), onclick: place(step) }, `${step + 1}. ${text} ${all.marks[step] ? "✓" : "✗"}`)));
    reading.to(all.tokens.length, reading.at() || all.tokens.length);
  }
  function shown(at) {
    if (!all) return;
    const most = Math.max(...Object.values(all.gains).flat().map(Math.abs)); // one scale of colour for all three
    for (const { way, tokens } of lines) {
      tokens.replaceChildren(...all.tokens.map(({ token }, i) => {
        const gain = all.gains[way][i];
        const cell = h("span", { class: i === at - 1 ? "credit now" : "credit", "data-gain": gain }, h("span", {}, token), h("span", { class: "number" }, i < at ? fixed(gain, 2) : "…"));
        if (i < at) cell.style.background = `color-mix(in srgb, var(${gain < 0 ? "--down" : "--up"}) ${Math.round((55 * Math.abs(gain)) / most)}%, transparent)`;
        return cell;
      }));
    }
    said.textContent = at ? ofToken(at - 1) : "Nothing is written yet.";
  }
  function ofToken(i) {
    const { tokens, values, rewards, gains, whole, shares } = all;
    const next = i + 1 < tokens.length ? values[i + 1] : 0;
    return `Token ${i + 1}, “${tokens[i].token}”. GRPO ${fixed(whole, 2)}, as all. PPO: what it earns, ${rewards[i]}, + value after, ${fixed(next, 2)}, − value before, ${fixed(values[i], 2)}, = ${fixed(rewards[i] + next - values[i], 2)}; with λ × what follows ${fixed(gains.ppo[i], 2)}. Steps: ${fixed(whole, 2)} + ${fixed(shares[tokens[i].step], 2)} = ${fixed(gains.steps[i], 2)}.`;
  }
  redraw();
  return widget("credit", "Which token is blamed", ["press the first step, “1. 3 × 12 = 36”: the mistake moves there.", "GRPO blames every token alike, the right ones too. PPO's critic, which sees the mistake, blames most the token after which the wrong number stands. Rewards of steps blame the wrong step.", "let the critic be one that has learned nothing.", "PPO now blames the end most, where the reward comes, and what led to it less and less."], {
    words: "Critic: PPO's second model, which says before each token what reward it expects. λ: how far what follows counts for a token: 0 not at all, 1 to the end.",
    learn: "How does PPO do it, step by step?",
    controls: [
      h("p", { class: "asked" }, h("b", {}, PENCILS.question)),
      choices,
      h("div", { class: "choices" }, pick("critic", "PPO's critic", [["sees", "sees the mistake"], ["blind", "has learned nothing: 0.5 everywhere"]])),
      slide("lambda", "λ, of generalised advantage estimation", 0, 1, 0.05),
    ],
    picture: [lines.map(({ label, tokens }) => h("div", { class: "credits" }, h("b", {}, label), tokens)), reading.element, said],
    below: h("p", { class: "quiet" }, "The group has three other answers: two right, and one with a mistake in its first step. The critic's values are made up; a real one learns them, as large as the policy. Rewards of steps: each equation is judged by itself, all those of the group are normalised together, and a token has the sum from its own step on, as in tiny-process."),
  });
}

// The loss of a completion, token by token.
function lossWidget() {
  const asked = { loss_type: "dapo", advantage: -0.8, epsilon: 0.2, beta: 0.04, others: 20 };
  const tokens = ["<think>", "7", "−", "4", "=", "2", "</think>", "2"];
  const chances = { old: [0.9, 0.6, 0.8, 0.7, 0.9, 0.3, 0.8, 0.7], now: [0.92, 0.6, 0.82, 0.68, 0.9, 0.21, 0.9, 0.45], reference: [0.8, 0.5, 0.8, 0.7, 0.9, 0.4, 0.7, 0.7] };
  let chosen = 5;
  const figure = chart("What each token adds to the loss of the batch", "its loss × its weight: below 0 pays, above 0 costs. One that the clip stops still has a loss, but no gradient");
  const [total, detail, weights] = [sentence(), h("div", {}), h("div", { class: "weights" })];
  const choose = (i) => () => ((chosen = i), ofToken.forEach(([name, slider]) => slider.say(chances[name][i])), redraw());
  const buttons = tokens.map((text, i) => h("button", { class: "token", onclick: choose(i) }, text));
  const ofToken = [["old", "probability when sampled"], ["now", "its probability now"], ["reference", "its probability in the reference"]].map(([name, label]) => [name, knob(label, 0.01, 0.99, 0.01, chances[name][chosen], (value) => ((chances[name][chosen] = value), redraw()))]);
  const { slide, pick } = playing(asked, redraw);
  function redraw() {
    const batch = { completions: 8, tokens: tokens.length + 7 * asked.others };
    const told = lossByToken({ ...chances, advantage: asked.advantage, settings: lossOf(asked), batch });
    const most = Math.max(...told.loss.map(Math.abs), 1e-9);
    buttons.forEach((button, i) => {
      button.setAttribute("aria-pressed", String(i === chosen));
      button.classList.toggle("stopped", told.stopped[i]);
      button.style.background = `color-mix(in srgb, var(${told.loss[i] > 0 ? "--down" : "--up"}) ${Math.round((50 * Math.abs(told.loss[i])) / most)}%, transparent)`;
    });
    const added = told.loss.map((loss) => loss * told.weight);
    const whole = sum(added);
    const another = weightOfToken(asked.others, batch, { ...told.settings, gradient_accumulation_steps: 1 });
    const full = 1 / 32; // of the bars of weights: what lies beyond it fills its bar
    weights.replaceChildren(...[["of this answer", told.weight, "c1"], ["of another answer", another, "c3"]].map(([whose, weight, colour]) => h("div", { class: "line" }, h("span", {}, `Token ${whose}`), meter(weight / full, colour), h("span", { class: "number" }, fixed(weight, 5)))));
    total.textContent = `Each of its ${tokens.length} tokens weighs ${fixed(told.weight, 5)}, each of another answer's ${asked.others} tokens ${fixed(another, 5)}. The answer adds ${number(sum(told.loss), 4)} × ${fixed(told.weight, 5)} = ${number(whole, 5)} to the loss of its batch.`;
    total.dataset.loss = whole;
    detail.replaceChildren(lossInNumbers(told, tokens, chosen));
    figure.show({ x: tokens.map((_, i) => i), labels: tokens, series: [{ values: added, colour: 0, bars: true }], domain: [-0.6, tokens.length - 0.4], range: [Math.min(0, 1.1 * Math.min(...added)), Math.max(0.02, 1.1 * Math.max(...added))], said: total.textContent });
  }
  redraw();
  const losses = [["dapo", "dapo: ÷ tokens of the batch"], ["grpo", "grpo: ÷ its own tokens, ÷ completions"], ["dr_grpo", "dr_grpo: ÷ 40, the limit, ÷ completions"]];
  return widget("loss", "What a token weighs in the loss", ["choose the loss type “grpo”.", "a token of this short answer weighs 0.01563, one of another answer, 20 tokens long, 0.00625: each answer weighs the same, whatever its length.", "choose “dapo” again, and drag the length of the other answers to 40.", "all tokens of the batch weigh the same, 0.00347: a long answer weighs more than a short one."], {
    words: "Weight: what a token's loss is multiplied by where the losses of a batch are added up.",
    learn: "What is it in PyTorch?",
    controls: [
      h("div", { class: "choices" }, pick("loss_type", "loss_type", losses)),
      slide("others", "tokens of each other answer", 1, 40, 1),
      h("p", { class: "quiet" }, "A wrong answer of eight tokens, in a batch with seven others. Press a token and drag its probabilities; an outline marks one that the clip stops."),
      h("div", { class: "tokens", role: "group", "aria-label": "Tokens of the answer" }, buttons),
      ofToken.map(([, slider]) => slider),
      moreSettings([["advantage", "A, of all its tokens", -2, 2, 0.1], ["epsilon", "ε, the clip", 0.05, 0.9, 0.05], ["beta", "β, the weight of the KL", 0, 0.5, 0.01]].map((one) => slide(...one))),
    ],
    picture: [weights, total, figure.figure],
    below: h("details", {}, h("summary", {}, "Every number of the token"), detail),
  });
}
