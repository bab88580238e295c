"use strict";
// What changed: the same validation questions before and after, first those won or lost.

const QUESTIONS_LISTED = 100; // at a time

/** `open`: what to open, a kind of question, or one by its id. */
async function changedView(place) {
  const [benchmark, before, after, open] = place.map(decodeURIComponent);
  const run = app.runs[app.run];
  const runIndex = app.run;
  const benchmarks = Object.entries(run.evaluations)
    .filter(([, labels]) => labels.length > 1)
    .sort(([a], [b]) => (b === "validation") - (a === "validation"));
  if (!benchmarks.length) {
    return html`<p>No two models of this run have answered the same questions yet.
      ${" "}<code>make evaluate</code> asks them; <code>make grpo</code> ends with that.</p>`;
  }
  const state = { benchmark: benchmarks[0][0], kind: "", listed: QUESTIONS_LISTED };
  const choices = html`<div class="choices"></div>`;
  const list = html`<ol class="list" onkeydown=${moveInList}></ol>`;
  const counts = html`<div class="choices" role="group"
    aria-label="What became of a question"></div>`;
  const detail = html`<section class="detail" aria-label="Both answers"></section>`;
  let changes = null;
  let requests = 0;

  const labelsOf = (name) => (benchmarks.find((entry) => entry[0] === name) || [null, []])[1];
  const labels = () => labelsOf(state.benchmark);
  const later = () => labels().slice(labels().indexOf(state.before) + 1);
  function chooseBefore(label) {
    state.before = label;
    if (!later().includes(state.after)) state.after = later().pop();
  }
  function chooseModels() {
    const all = labels();
    state.after = all.includes(run.stage) ? run.stage : all[all.length - 1];
    chooseBefore(all.includes("sft") && state.after !== "sft" ? "sft" : all[0]);
  }

  function showChoices() {
    const focused = [...choices.querySelectorAll("select")].indexOf(document.activeElement);
    const pairs = (names) => names.map((name) => [name, name]);
    const changing = (change) => (value) => {
      change(value);
      load();
    };
    const setBenchmark = changing((name) => {
      state.benchmark = name;
      chooseModels();
    });
    const setAfter = changing((label) => (state.after = label));
    choices.replaceChildren(
      choice("Questions", pairs(benchmarks.map(([name]) => name)), state.benchmark, setBenchmark),
      choice("Before", pairs(labels().slice(0, -1)), state.before, changing(chooseBefore)),
      choice("After", pairs(later()), state.after, setAfter),
    );
    if (focused >= 0) choices.querySelectorAll("select")[focused].focus();
  }

  async function load(toOpen = "") {
    showChoices();
    list.replaceChildren();
    counts.replaceChildren();
    const request = ++requests;
    const question = `${state.benchmark}/${state.before}/${state.after}`;
    try {
      const answer = await ask(`${runIndex}/changed/${question}`);
      if (request !== requests) return;
      changes = answer;
    } catch (error) {
      detail.replaceChildren(html`<p class="error">${error.message}</p>`);
      return;
    }
    state.kind = toOpen in changes.counts ? toOpen : "";
    refresh();
    const first =
      changes.rows.find((row) => String(row.id) === toOpen) || changes.rows.find(isListed);
    if (first) await show(first);
    else detail.replaceChildren();
  }

  function refresh() {
    const total = Object.values(changes.counts).reduce((a, b) => a + b, 0);
    const kinds = [["", total], ...Object.entries(changes.counts)];
    counts.replaceChildren(...kinds.map(([kind, count]) => kindButton(kind, count)));
    const rows = changes.rows.filter(isListed);
    list.replaceChildren(...rows.slice(0, state.listed).map(entry));
    if (rows.length > state.listed) {
      list.append(
        moreButton(rows.length, () => {
          state.listed += 5 * QUESTIONS_LISTED;
          refresh();
        }),
      );
    }
    if (changes.rows.length < total) {
      const sample =
        `${number(changes.rows.length)} of the ${number(total)} questions, flips` + " first";
      list.append(html`<li class="quiet">This file holds ${sample}.</li>`);
    }
  }
  function isListed(row) {
    if (state.kind && row.kind !== state.kind) return false;
    const name = `${state.benchmark}/${state.before}/${state.after}/${row.id}`;
    const pair = isFiltered() ? ANSWERS[`${runIndex}/pair/${name}`] : null;
    return !isFiltered() || (pair?.answers !== undefined && fitsPair(pair));
  }
  function kindButton(kind, count) {
    const isChosen = String(state.kind === kind);
    const choose = () => {
      Object.assign(state, { kind, listed: QUESTIONS_LISTED });
      refresh();
    };
    return html`<button class=${kindClass(kind)} aria-pressed=${isChosen} disabled=${!count}
      onclick=${choose}>${kind || "all"} ${number(count)}</button>`;
  }
  const kindClass = (kind) => `kind ${kind.replace(" ", "-")}`;
  function entry(row) {
    return html`<li><button class="entry" data-question=${row.id} onclick=${() => show(row)}>
      <span class=${kindClass(row.kind)}>${row.kind}</span>
      <span class="question">${visible(row.question)}</span>
    </button></li>`;
  }

  async function show(row) {
    markOpen(list, (button) => button.dataset.question === String(row.id));
    const request = ++requests;
    const models = `${changes.before}/${changes.after}`;
    try {
      const pair = await ask(`${runIndex}/pair/${state.benchmark}/${models}/${row.id}`);
      if (request !== requests) return;
      detail.replaceChildren(html`<h2 class="asked">${visible(pair.question)}</h2>
        ${cardsOf(pair)}`);
      announce(`Question ${row.id}: ${row.kind}.`);
    } catch (error) {
      detail.replaceChildren(html`<p class="error">${error.message}</p>`);
    }
  }

  filter.changed = () => {
    state.listed = QUESTIONS_LISTED;
    refresh();
    const first = changes?.rows.find(isListed);
    if (first) show(first);
    else detail.replaceChildren(html`<p class="quiet">No completion fits the filter.</p>`);
  };
  const places = [before, after].map((label) => labelsOf(benchmark).indexOf(label));
  if (places[0] >= 0 && places[0] < places[1]) Object.assign(state, { benchmark, before, after });
  else chooseModels();
  await load(open);
  return html`<div class="two reading">
    <section aria-label="Questions">${choices}${counts}${list}</section>${detail}
  </div>`;
}

/** A model's completion, and how it was judged. `ranges`: its parts to mark. */
function completionOf(judgement, ranges) {
  const { label, correct, reason, tokens, truncated, answer, text } = judgement;
  const judged = { true: "correct", false: "incorrect" }[correct] || "not judged";
  const facts = [reason];
  if (tokens !== null && tokens !== undefined) facts.push(`${tokens} tokens`);
  if (truncated) facts.push("truncated");
  const shownAnswer = html`<span>answer <b>${visible(String(answer))}</b></span>`;
  return html`<article class="completion">
    <header>
      <b>${visible(label)}</b>
      <span class=${correct === true ? "kind won" : "kind lost"}>${judged}</span>
      ${answer === null ? "no answer" : shownAnswer}
    </header>
    ${textOf(text, ranges)}
    <p class="quiet">${visible(facts.filter(Boolean).join(", "))}</p>
  </article>`;
}
