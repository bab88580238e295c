"use strict";
// Which token is blamed: by GRPO all alike, by PPO's critic and by rewards of steps each its own.

widget("credit", (part, settings) => {
  // Of the three other answers of the group, which of their steps are correct.
  const OTHERS = [1, 0, 1].map((first) => [first, 1, 1, 1]);
  let credit = null;

  /** The steps of the answer, of which the one at `mistake` is incorrect; −1: none. */
  function stepsWith(mistake) {
    const wrongBy = (step, by) => (step === mistake ? by : 0);
    const packed = 36 + wrongBy(0, 2);
    const remaining = packed - 8 + wrongBy(1, -2);
    const share = remaining / 2 + wrongBy(2, -2);
    const steps = [`3 × 12 = ${packed}`, `${packed} − 8 = ${remaining}`];
    return [...steps, `${remaining} ÷ 2 = ${share}`, `Answer: ${share + wrongBy(3, 1)}`];
  }

  /** What a critic that sees the mistake expects before a token of this step. */
  const seenAt = (step, mistake) => (mistake >= 0 && step > mistake ? 0.1 : 0.6 + 0.08 * step);

  function draw() {
    const mistake = Number(settings.mistake);
    const steps = stepsWith(mistake);
    const tokens = steps.flatMap((text, step) => text.split(" ").map((token) => ({ token, step })));
    const reward = Number(mistake < 0);
    const isBlind = settings.critic === "blind";
    const values = tokens.map(({ step }) => (isBlind ? 0.5 : seenAt(step, mistake)));
    const rewards = tokens.map((_, i) => (i + 1 === tokens.length ? reward : 0));
    const ofOthers = OTHERS.map((marks) => Math.min(...marks));
    const ofAnswer = advantages([reward, ...ofOthers], "group").advantages[0];
    const shares = sharesOfSteps([steps.map((_, step) => Number(step !== mistake)), ...OTHERS]);
    const gains = {
      grpo: tokens.map(() => ofAnswer),
      ppo: estimatedAdvantages(values, rewards, settings.lambda),
      steps: tokens.map(({ step }) => ofAnswer + shares[step]),
    };
    credit = { tokens, values, rewards, gains, ofAnswer, shares };
    return tokens.length;
  }

  function show(at) {
    const { tokens, gains } = credit;
    const largest = Math.max(...Object.values(gains).flat().map(Math.abs));
    for (const line of part.querySelectorAll("[data-way]")) {
      const cells = tokens.map(({ token }, i) => {
        const gain = gains[line.dataset.way][i];
        const text = make("span", { class: "number" }, i < at ? fixed(gain, 2) : "…");
        const strength = i < at ? Math.round((55 * Math.abs(gain)) / largest) : 0;
        const colour = `var(${gain < 0 ? "--down" : "--up"}) ${strength}%, transparent`;
        const style = `background: color-mix(in srgb, ${colour})`;
        const kind = i === at - 1 ? "credit now" : "credit";
        return make("span", { class: kind, style }, make("span", {}, token), text);
      });
      line.replaceChildren(...cells);
    }
    return at ? inWords(at - 1) : "Nothing is written yet.";
  }

  function inWords(i) {
    const { tokens, values, rewards, gains, ofAnswer, shares } = credit;
    const next = i + 1 < tokens.length ? values[i + 1] : 0;
    return (
      `Token ${i + 1}, “${tokens[i].token}”. GRPO ${fixed(ofAnswer, 2)}, as all. PPO: reward` +
      ` ${rewards[i]} + value after ${fixed(next, 2)} − value before ${fixed(values[i], 2)} =` +
      ` ${fixed(rewards[i] + next - values[i], 2)}; with λ × what follows` +
      ` ${fixed(gains.ppo[i], 2)}. Steps: ${fixed(ofAnswer, 2)} +` +
      ` ${fixed(shares[tokens[i].step], 2)} = ${fixed(gains.steps[i], 2)}.`
    );
  }

  /** Which steps rewards of steps push down harder than GRPO does, such as "123". */
  const truth = () => credit.shares.map((share, step) => (share < 0 ? step + 1 : "")).join("");
  return { draw, show, truth };
});
