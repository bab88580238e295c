"use strict";
// The lab: a group of answers to a question. The same answer is good in a weak group and bad in a strong one.

const ADVANTAGES = [["grpo", "GRPO: ÷ standard deviation"], ["none", "Dr. GRPO: not divided"], ["rloo", "RLOO: mean of the others"]];
const EQUATIONS = { grpo: "(reward − mean of the group) ÷ (its standard deviation + 0.0001)", none: "reward − mean of the group", rloo: "reward − mean of the others" };

/** The advantages of a group by one of `ADVANTAGES`, with its mean and standard deviation. */
const groupAdvantages = (rewards, kind) => advantages(rewards, [], { scale_rewards: kind === "grpo" ? "group" : "none", loss_type: kind });

function groupWidget({ question, gold, early, late }) {
  const asked = { size: early.length, kind: "grpo", drawn: "early", own: null };
  const rewards = early.map(([, reward]) => reward);
  const [said, equation] = [sentence(), h("p", { class: "quiet" })];
  const head = h("div", { class: "answer head", "aria-hidden": "true" }, ["answer", "reward, set by hand", "advantage"].map((name) => h("span", {}, name)));
  const own = answerRow("yours", 0, (value) => ((asked.own = value), redraw()));
  const rows = early.map((_, i) => answerRow(String(i + 1), rewards[i], (value) => ((rewards[i] = value), redraw())));
  const list = h("div", { class: "answers" }, head, own.element, rows.map((row) => row.element));
  const { slide, pick } = playing(asked, redraw);

  function redraw() {
    const texts = asked.drawn === "early" ? early : late;
    const group = rewards.slice(0, asked.size);
    if (asked.own !== null) group.unshift(asked.own);
    const { mean, std, advantages: gains } = groupAdvantages(group, asked.kind);
    own.element.hidden = asked.own === null;
    if (asked.own !== null) own.show(asked.own, gains[0]);
    const first = asked.own === null ? 0 : 1;
    rows.forEach((row, i) => {
      row.element.hidden = i >= asked.size;
      row.text.textContent = texts[i][0];
      if (i < asked.size) row.show(rewards[i], gains[first + i]);
    });
    equation.textContent = `advantage = ${EQUATIONS[asked.kind]}. Where it is above 0 the answer is made likelier, where it is below 0 less likely.`;
    const yours = asked.own === null ? "" : `Yours earns ${asked.own}: its advantage is ${fixed(gains[0])}. `;
    said.textContent = `${yours}${firstAnswer(gains[first])} Mean of the ${group.length} rewards ${fixed(mean)}, standard deviation ${fixed(std)}. ${whyOfGroup(group)}`;
  }
  const firstAnswer = (gain) => `Answer 1 earns ${number(rewards[0])} and ${gain > 0 ? "is pushed up" : gain < 0 ? "is pushed down" : "is not moved"}: its advantage is ${fixed(gain)}.`;
  function draw(name) {
    asked.drawn = name;
    (name === "early" ? early : late).forEach(([, reward], i) => (rewards[i] = reward));
    times.forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.drawn === name)));
    redraw();
  }
  const times = [["early", "Early in training"], ["late", "Late in training"]].map(([name, label]) => h("button", { "data-drawn": name, onclick: () => draw(name) }, label));
  const all = (values) => () => (rewards.forEach((_, i) => (rewards[i] = values(i))), redraw());
  const ends = [["All earn 1", () => 1], ["All earn 0", () => 0], ["One earns 1", (i) => Number(i === 0)]].map(([label, values]) => h("button", { onclick: all(values) }, label));
  draw("early");
  return widget("group", "A group of answers", ["“Early in training”, then “Late in training”, and look at answer 1.", "the same answer with the same reward, 0.7, is pushed up in a weak group and down in a strong one. Nobody says how good 0.7 is: the group does.", "“All earn 1”.", "every advantage is 0: a group whose answers all earn the same teaches nothing."], {
    words: "The rewards of the eight answers are set by hand, to be dragged: 418 is wrong, and has 0.7 for being close. Your own answer is judged by rules: 1 where it is right, else 0. Advantage: how much better an answer is than its group.",
    learn: "Why subtract a baseline?",
    controls: [
      h("p", { class: "asked" }, h("b", {}, question)),
      h("div", { class: "choices" }, times),
      ownAnswer(gold, own.text, (reward) => ((asked.own = reward), redraw())),
      slide("size", "G, answers in the group", 1, early.length, 1),
      h("div", { class: "choices" }, ends),
      moreSettings(h("div", { class: "choices" }, pick("kind", "Advantage", ADVANTAGES))),
    ],
    picture: [said, list, equation],
  });
}

/** Why a group teaches, or does not. */
function whyOfGroup(group) {
  if (group.length === 1) return "One answer is its own mean: its advantage is 0 whatever it earns, so it teaches nothing. trl asks for two at least.";
  if (new Set(group).size === 1) return "All earn the same, so nobody is better than the mean: every advantage is 0, and the group teaches nothing.";
  return "Above the mean is pushed up, below it down, and the advantages add up to 0.";
}

/** An answer, its reward to drag and its advantage: `show(reward, advantage)`. */
function answerRow(name, reward, moved) {
  const text = h("span", { class: "text" });
  const slider = h("input", { type: "range", min: 0, max: 1, step: 0.05, value: reward, "aria-label": `Reward of answer ${name}`, oninput: () => moved(Number(slider.value)) });
  const [earned, bar, gain] = [h("output", { class: "number" }), h("span", { class: "bar-of" }), h("output", { class: "number gain" })];
  const element = h("div", { class: "answer" }, h("span", { class: "of" }, h("b", {}, name), text), h("span", { class: "drag" }, slider, earned), h("span", { class: "drag" }, bar, gain));
  function show(value, advantage) {
    slider.value = value;
    earned.textContent = number(value);
    bar.replaceChildren(sideways(advantage, 2.7));
    gain.textContent = fixed(advantage);
    gain.dataset.gain = advantage;
  }
  return { element, text, show };
}

const NOT_PLAIN = {
  right: null,
  reason: "this page knows plain numbers alone, such as 408, 408.0 or 816/2",
};

/** A field for an answer of one's own, which the rules for plain numbers judge. */
function ownAnswer(gold, place, judged) {
  const field = h("input", { type: "text", maxlength: 200, placeholder: "say, 816/2", "aria-label": "Your answer", autocomplete: "off", spellcheck: "false" });
  const verdict = h("p", { class: "quiet verdict-of", role: "status" }, "Judged by the rules for plain numbers, 1 or 0.");
  function judge(event) {
    event.preventDefault();
    const answer = field.value.trim();
    if (!answer) return;
    const found = plainVerdict(answer, gold) || NOT_PLAIN;
    verdict.replaceChildren(h("b", { class: found.right ? "kind won" : "kind lost" }, { true: "Right", false: "Wrong" }[found.right] || "Not judged"), visible(`: ${found.reason}.`));
    if (found.right === null) return;
    place.replaceChildren(visible(answer));
    judged(Number(found.right));
  }
  const out = h("button", { type: "button", onclick: () => ((field.value = ""), verdict.replaceChildren(), judged(null)) }, "Take it out");
  return h("form", { class: "own", onsubmit: judge }, h("label", { class: "choice" }, h("span", {}, "Type your own answer"), field), h("button", {}, "Judge it"), out, verdict);
}
