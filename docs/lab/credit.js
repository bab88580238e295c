"use strict";
// Which token is blamed: GRPO gives all tokens of an answer one advantage, PPO's critic and rewards
// of steps tell them apart.

{
  const part = partOf("credit");
  // Of the three other answers of the group, which of their steps are correct.
  const OTHERS = [
    [1, 1, 1, 1],
    [0, 1, 1, 1],
    [1, 1, 1, 1],
  ];
  const settings = settingsOf(part, redraw);
  const reading = player(part, showToken, 6000);
  const buttons = part.querySelector(".steps-of");
  let mistake = 1; // the step that is incorrect; −1: none
  let credit = null;

  /** The steps of the answer, one of which may be incorrect. */
  function answerSteps() {
    const wrongBy = (step, by) => (step === mistake ? by : 0);
    const packed = 36 + wrongBy(0, 2);
    const remaining = packed - 8 + wrongBy(1, -2);
    const share = remaining / 2 + wrongBy(2, -2);
    const answer = share + wrongBy(3, 1);
    const steps = [
      `3 × 12 = ${packed}`,
      `${packed} − 8 = ${remaining}`,
      `${remaining} ÷ 2 = ${share}`,
    ];
    return [...steps, `Answer: ${answer}`];
  }

  /** The critic's value before a token of this step. One that sees the mistake falls behind it. */
  function valueAt(step) {
    if (settings.critic === "blind") return 0.5;
    return mistake >= 0 && step > mistake ? 0.1 : 0.6 + 0.08 * step;
  }

  /** The answer's tokens with their steps, the critic's values, and the advantages by each way. */
  function credited(steps) {
    const tokens = steps.flatMap((text, step) => text.split(" ").map((token) => ({ token, step })));
    const marks = steps.map((_, step) => Number(step !== mistake));
    const reward = Number(mistake < 0);
    const values = tokens.map(({ step }) => valueAt(step));
    const rewards = tokens.map((_, i) => (i + 1 === tokens.length ? reward : 0));
    const ofOthers = OTHERS.map((steps) => Math.min(...steps));
    const ofAnswer = advantages([reward, ...ofOthers], "group").advantages[0];
    const shares = sharesOfSteps([marks, ...OTHERS]);
    const gains = {
      grpo: tokens.map(() => ofAnswer),
      ppo: estimatedAdvantages(values, rewards, settings.lambda),
      steps: tokens.map(({ step }) => ofAnswer + shares[step]),
    };
    return { tokens, marks, values, rewards, ofAnswer, shares, gains };
  }

  function redraw() {
    const steps = answerSteps();
    credit = credited(steps);
    const place = (step) => {
      mistake = mistake === step ? -1 : step;
      redraw();
      buttons.children[step].focus();
    };
    buttons.replaceChildren(
      ...steps.map((text, step) => {
        const label = `${step + 1}. ${text} ${credit.marks[step] ? "✓" : "✗"}`;
        const isWrong = String(step === mistake);
        return html`<button aria-pressed=${isWrong} onclick=${() => place(step)}>${label}</button>`;
      }),
    );
    reading.to(credit.tokens.length, reading.at() || credit.tokens.length);
  }

  function showToken(at) {
    if (!credit) return;
    const { tokens, gains } = credit;
    // one scale for all three
    const largest = Math.max(...Object.values(gains).flat().map(Math.abs));
    for (const line of part.querySelectorAll("[data-way]")) {
      const ofWay = gains[line.dataset.way];
      line.replaceChildren(
        ...tokens.map(({ token }, i) => {
          const isRead = i < at;
          const cell = html`<span class=${i === at - 1 ? "credit now" : "credit"}>
            <span>${token}</span><span class="number">${isRead ? fixed(ofWay[i], 2) : "…"}</span>
          </span>`;
          if (isRead) cell.style.background = tint(ofWay[i] / largest, 55);
          return cell;
        }),
      );
    }
    part.querySelector(".sums").textContent = at ? ofToken(at - 1) : "Nothing is written yet.";
  }

  function ofToken(i) {
    const { tokens, values, rewards, gains, ofAnswer, shares } = credit;
    const next = i + 1 < tokens.length ? values[i + 1] : 0;
    const difference = rewards[i] + next - values[i];
    return (
      `Token ${i + 1}, “${tokens[i].token}”. GRPO ${fixed(ofAnswer, 2)}, as all. PPO: what it` +
      ` earns, ${rewards[i]}, + value after, ${fixed(next, 2)}, − value before,` +
      ` ${fixed(values[i], 2)}, = ${fixed(difference, 2)}; with λ × what follows` +
      ` ${fixed(gains.ppo[i], 2)}. Steps: ${fixed(ofAnswer, 2)} +` +
      ` ${fixed(shares[tokens[i].step], 2)} = ${fixed(gains.steps[i], 2)}.`
    );
  }
  redraw();
}
