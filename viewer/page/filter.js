"use strict";
// The filter of completions, which holds on every tab.

const VERDICTS = {
  "": "all completions",
  correct: "correct",
  incorrect: "incorrect",
  truncated: "truncated",
};
const filter = { verdict: "", words: "", changed: null };

const isFiltered = () => filter.verdict !== "" || filter.words !== "";

/** Whether any of these texts holds the words that are sought. */
function holdsWords(texts) {
  const sought = filter.words.toLowerCase();
  return texts.some((text) => text.toLowerCase().includes(sought));
}

function fitsVerdict(correct, truncated) {
  if (filter.verdict === "truncated") return Boolean(truncated);
  return filter.verdict === "" || (filter.verdict === "correct") === correct;
}

/** Whether a question's completion after the training fits; the words may stand in either. */
function fitsPair({ question, answers }) {
  const { correct, truncated } = answers[1];
  const texts = [question, ...answers.map(({ text }) => text)];
  return fitsVerdict(correct === true, truncated) && holdsWords(texts);
}

/** Whether a sampled completion fits; the words may stand in its question. */
function fitsRow({ text, rewards, truncated }, question) {
  const correct = rewards.correct_answer ?? null;
  return (
    fitsVerdict(correct === null ? null : correct >= 1, truncated) && holdsWords([text, question])
  );
}

/** Which completions to show, and the words to seek. A view that is open sets `filter.changed`. */
function filterChoices() {
  let timer;
  const change = (values) => {
    Object.assign(filter, values);
    if (filter.changed) filter.changed();
    else show(app.view);
  };
  const typed = (event) => {
    const words = event.target.value.trim();
    clearTimeout(timer);
    timer = setTimeout(() => change({ words }), 300);
  };
  const verdicts = Object.entries(VERDICTS);
  const options = verdicts.map(([value, text]) => html`<option value=${value}>${text}</option>`);
  const chosen = (event) => change({ verdict: event.target.value });
  return html`<div class="choice filter">
    <select aria-label="Which completions" onchange=${chosen}>${options}</select>
    <input type="search" placeholder="search" aria-label="Search questions and completions"
      oninput=${typed}>
  </div>`;
}
