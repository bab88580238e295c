"use strict";
// The family of algorithms, the ten questions at the end, and the sheet for a teacher.

const FAMILY = dataOf("family");

widget("family", (part, settings, again) => {
  const card = part.querySelector(".card");
  const HEADS = ["critic", "baseline", "clip", "KL", "samples", "labels"];
  const members = Object.keys(FAMILY);
  const rows = members.map((name) => [name, ...HEADS.map((head) => FAMILY[name][head])]);
  part.querySelector(".wide").append(table("family", ["", ...HEADS], rows));
  let chosen = "REINFORCE";

  /** The algorithms that came of one, as a list of buttons, each with those that came of it. */
  function branches(parent) {
    const children = members.filter((name) => FAMILY[name].from === parent);
    const items = children.map((name) => {
      const pressed = { "aria-pressed": name === chosen, onclick: () => choose(name) };
      const label = [make("b", {}, name), ` ${FAMILY[name].year}`];
      return make("li", {}, make("button", pressed, label), branches(name));
    });
    return children.length ? make("ul", {}, items) : [];
  }

  function choose(name) {
    chosen = name;
    again();
    part.querySelector(".tree [aria-pressed=true]").focus();
  }

  function draw() {
    part.querySelector(".tree").replaceChildren(branches(null));
    const lines = HEADS.map((head) => [make("dt", {}, head), make("dd", {}, FAMILY[chosen][head])]);
    const title = make("h3", {}, `${chosen} (${FAMILY[chosen].year})`);
    card.replaceChildren(title, make("dl", {}, lines));
  }
  const critics = members.filter((name) => FAMILY[name].critic.startsWith("yes"));
  return { draw, show: () => FAMILY[chosen].new, truth: () => critics.join() };
});

const QUESTIONS = dataOf("questions");
const quiz = document.getElementById("part-questions");
const quizzed = quiz.querySelector(".question");
const scores = []; // of the tries so far

/** How the guesses went: written into the last part. */
function tally() {
  const values = [...guesses.values()];
  const count = (kind) => values.filter((value) => value === kind).length;
  quiz.querySelector(".tally").textContent =
    `Guesses: ${count(true)} near the truth, ${count(false)} not, ${count(null)} skipped, of` +
    ` ${document.querySelectorAll(".guess").length}. The page keeps them until it is loaded anew.`;
}

function ask(answers) {
  const place = answers.length;
  if (place === QUESTIONS.length) return conclude(answers);
  const { question, choices } = QUESTIONS[place];
  const next = (answer) => {
    ask([...answers, answer]);
    quizzed.focus();
  };
  const buttons = choices.map((choice, i) => make("button", { onclick: () => next(i) }, choice));
  const count = make("b", {}, `${place + 1} of ${QUESTIONS.length}. `);
  const row = make("div", { class: "choices" }, buttons);
  quizzed.replaceChildren(make("p", {}, count, question), row);
}

function conclude(answers) {
  const isCorrect = answers.map((answer, i) => answer === QUESTIONS[i].answer);
  scores.push(isCorrect.filter(Boolean).length);
  const rows = QUESTIONS.map(({ question, choices, answer, why, part }, i) => {
    const [kind, sign] = isCorrect[i] ? ["won", "✓ "] : ["lost", "✗ "];
    const mark = make("b", { class: kind }, sign);
    const title = document.querySelector(`#part-${part} h2`).textContent;
    const link = make("a", { href: `#part-${part}` }, title);
    return make("li", {}, mark, `${question} `, make("b", {}, choices[answer]), `. ${why} `, link);
  });
  const list = make("ol", { class: "answers-of" }, rows);
  quizzed.replaceChildren(
    make("p", { class: "verdict" }, `Correct: ${scores.join(", then ")} of ${QUESTIONS.length}.`),
    make("details", {}, make("summary", {}, "The answers, for after the last part"), list),
    make("button", { onclick: () => ask([]) }, "Once more"),
  );
}

tally();
ask([]);

for (const part of document.querySelectorAll("section.play")) {
  part.ariaLabel = part.querySelector("h2").textContent;
  const link = make("a", { href: `#${part.id}` }, part.ariaLabel);
  document.getElementById("parts").append(make("li", {}, link));
}

// The sheet, which is all that is printed.
const sheet = document.querySelector(".sheet tbody");
for (const part of document.querySelectorAll("section:has(.guess)")) {
  const words = (selector) => part.querySelector(selector)?.textContent.trim() || "";
  const [title, question, truth] = ["h2", ".guess p", ".truth p"].map(words);
  const first = make("td", {}, make("b", {}, title), ` ${question}`);
  sheet.append(make("tr", {}, first, make("td", {}), make("td", {}, truth)));
}
document.getElementById("print").onclick = () => print();
