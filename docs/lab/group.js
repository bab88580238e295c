"use strict";
// A group of answers to a question: the same answer is good in a weak group and bad in a strong
// one.

{
  const part = partOf("group");
  const { question, gold, early, late } = SETTINGS.group;
  const EQUATIONS = {
    grpo: "(reward − mean of the group) ÷ (its standard deviation + 0.0001)",
    none: "reward − mean of the group",
    rloo: "reward − mean of the others",
  };
  const settings = settingsOf(part, redraw);
  const rewards = early.map(() => 0);
  let texts = early;
  let ownReward = null; // the reward of the answer that is typed

  const list = part.querySelector(".answers");
  const ownRow = answerRow("yours", (reward) => (ownReward = reward));
  const rows = early.map((_, i) => answerRow(String(i + 1), (reward) => (rewards[i] = reward)));
  part.querySelector("[data-question]").textContent = question;

  /** An answer, its reward to drag and its advantage: `show(reward, advantage)`. */
  function answerRow(name, store) {
    const element = html`<div class="answer">
      <span class="of"><b>${name}</b><span class="text"></span></span>
      <span class="drag"><input type="range" min="0" max="1" step="0.05"
        aria-label=${`Reward of answer ${name}`} oninput=${moved}>
        <output class="number"></output></span>
      <span class="drag"><span class="advantage" aria-hidden="true"><span></span></span>
        <output class="number gain"></output></span>
    </div>`;
    const [slider, bar] = ["input", ".advantage span"].map((place) => element.querySelector(place));
    const [earned, gain] = element.querySelectorAll("output");
    list.append(element);
    function moved() {
      store(Number(slider.value));
      redraw();
    }
    function show(reward, advantage) {
      slider.value = reward;
      earned.textContent = number(reward);
      bar.className = advantage < 0 ? "down" : "up";
      bar.style.width = `${(50 * Math.min(Math.abs(advantage), 2.7)) / 2.7}%`;
      gain.textContent = fixed(advantage);
    }
    return { element, text: element.querySelector(".text"), show };
  }

  function redraw() {
    const { kind, size } = settings;
    const group = rewards.slice(0, size);
    if (ownReward !== null) group.unshift(ownReward);
    const scale = kind === "grpo" ? "group" : "none";
    const { mean, std, advantages: gains } = advantages(group, scale, [], kind === "rloo");
    ownRow.element.hidden = ownReward === null;
    if (ownReward !== null) ownRow.show(ownReward, gains[0]);
    const first = ownReward === null ? 0 : 1;
    rows.forEach((row, i) => {
      row.element.hidden = i >= size;
      row.text.textContent = texts[i][0];
      if (i < size) row.show(rewards[i], gains[first + i]);
    });
    part.querySelector(".equation").textContent =
      `advantage = ${EQUATIONS[kind]}. Where it is above 0 the answer is made likelier, where it` +
      " is below 0 less likely.";
    const yours =
      ownReward === null ? "" : `Yours earns ${ownReward}: its advantage is ${fixed(gains[0])}. `;
    const spread =
      `Mean of the ${group.length} rewards ${fixed(mean)}, standard deviation` + ` ${fixed(std)}.`;
    part.querySelector(".sums").textContent =
      `${yours}${firstAnswer(gains[first])} ${spread} ${whyOfGroup(group)}`;
  }

  function firstAnswer(gain) {
    const pushed = { 1: "is pushed up", "-1": "is pushed down" }[Math.sign(gain)] || "is not moved";
    return `Answer 1 earns ${number(rewards[0])} and ${pushed}: its advantage is ${fixed(gain)}.`;
  }

  /** Why a group teaches, or does not. */
  function whyOfGroup(group) {
    if (group.length === 1) {
      return (
        "One answer is its own mean: its advantage is 0 whatever it earns, so it teaches nothing." +
        " trl asks for two at least."
      );
    }
    if (new Set(group).size === 1) {
      return (
        "All earn the same, so nobody is better than the mean: every advantage is 0, and the" +
        " group teaches nothing."
      );
    }
    return "Above the mean is pushed up, below it down, and the advantages add up to 0.";
  }

  const times = part.querySelectorAll("[data-drawn]");
  function drawGroup(name) {
    texts = name === "early" ? early : late;
    texts.forEach(([, reward], i) => (rewards[i] = reward));
    for (const button of times) button.setAttribute("aria-pressed", button.dataset.drawn === name);
    redraw();
  }
  for (const button of times) button.onclick = () => drawGroup(button.dataset.drawn);
  for (const button of part.querySelectorAll("[data-all]")) {
    const { all } = button.dataset;
    button.onclick = () => {
      rewards.forEach((_, i) => (rewards[i] = all === "first" ? Number(i === 0) : Number(all)));
      redraw();
    };
  }

  // An answer of one's own, which the rules for plain numbers judge.
  const form = part.querySelector(".own");
  const field = form.querySelector("input");
  const verdict = form.querySelector(".verdict-of");
  form.onsubmit = (event) => {
    event.preventDefault();
    const answer = field.value.trim();
    if (!answer) return;
    const judged = plainVerdict(answer, gold);
    if (!judged) {
      const reason = ": this page knows plain numbers alone, such as 408, 408.0 or 816/2.";
      verdict.replaceChildren(html`<b class="kind lost">Not judged</b>`, reason);
      return;
    }
    const kind = judged.correct
      ? html`<b class="kind won">Correct</b>`
      : html`<b class="kind lost">Incorrect</b>`;
    verdict.replaceChildren(kind, `: ${judged.reason}.`);
    ownRow.text.textContent = answer;
    ownReward = Number(judged.correct);
    redraw();
  };
  form.querySelector("[data-out]").onclick = () => {
    field.value = "";
    verdict.replaceChildren();
    ownReward = null;
    redraw();
  };
  drawGroup("early");
}
