"use strict";
// The groups of a run: a list to choose from, and the same question over the steps.

const KINDS_OF_GROUP = {
  all: ["all groups", () => true],
  mixed: ["mixed", ({ correct, n }) => correct !== null && correct > 0 && correct < n],
  correct: ["all correct", ({ correct, n }) => correct === n],
  incorrect: ["all incorrect", ({ correct }) => correct === 0],
  flat: ["zero variance", ({ std }) => std !== null && std < 1e-6],
  truncated: ["with truncated completions", ({ truncated }) => truncated > 0],
  flagged: ["flagged", ({ flagged }) => flagged > 0],
  again: ["validation, at each evaluation", ({ group }) => group < 0],
};
const ORDERS = {
  step: ["as sampled", () => 0],
  newest: ["newest first", (a, b) => b.step - a.step || a.group - b.group],
  std: ["widest spread first", (a, b) => b.std - a.std],
  low: ["lowest reward first", (a, b) => a.mean - b.mean],
  high: ["highest reward first", (a, b) => b.mean - a.mean],
};
const GROUPS_LISTED = 60; // at a time
const TIMES = 24; // that a question came, about as many as are listed

/** Where a group was sampled: the questions of every evaluation have the places −1, −2, … */
const placeOf = ({ step, group }) =>
  `step ${step}, ${group < 0 ? `validation question ${-group}` : `group ${group}`}`;
const nameOf = ({ step, group }) => `${step}/${group}`;

/** The view of a run's groups. `place`: the step, and perhaps the group, to open. */
async function groupsView([step, group]) {
  const run = app.runs[app.run];
  const runIndex = app.run;
  const { groups, of, unreadable, why } = await ask(`${runIndex}/groups`);
  if (!groups.length && !unreadable) return html`<p>This run has written no completions yet.</p>`;
  const steps = [...new Set(groups.map((entry) => entry.step))];
  const state = { kind: "all", order: "step", step: "", limit: GROUPS_LISTED };
  let listed = groups; // those of the chosen kind
  let opened = null; // the name of the group that is shown
  let requests = 0;
  const list = html`<ol class="list" onkeydown=${moveInList}></ol>`;
  const count = html`<p class="quiet list-count"></p>`;
  const detail = html`<section class="detail" aria-label="The chosen group"></section>`;

  function refresh() {
    const [, fits] = KINDS_OF_GROUP[state.kind];
    const isStep = (entry) => state.step === "" || entry.step === Number(state.step);
    listed = groups.filter((entry) => fits(entry) && isStep(entry) && isSought(entry));
    if (state.order !== "step") listed.sort(ORDERS[state.order][1]);
    count.replaceChildren(...countInWords());
    state.limit = Math.max(state.limit, placeOfOpened() + 1);
    list.replaceChildren(...listed.slice(0, state.limit).map(entryOf));
    if (listed.length > state.limit) {
      list.append(
        moreButton(listed.length, () => {
          state.limit += 5 * GROUPS_LISTED;
          refresh();
        }),
      );
    }
  }
  /** Whether a completion of the group fits the page's filter. */
  function isSought(entry) {
    if (!isFiltered()) return true;
    const { question, rows } = ANSWERS[`${runIndex}/group/${nameOf(entry)}`];
    return rows.some((row) => fitsRow(row, question));
  }
  const placeOfOpened = () => listed.findIndex((entry) => nameOf(entry) === opened);
  function countInWords() {
    const parts = [`${number(listed.length)} groups`];
    if (of > groups.length) {
      const share = `${number(groups.length)} of the ${number(of)}`;
      parts.push(`, of an even sample of ${share} that the run wrote`);
    }
    parts.push(".");
    if (unreadable)
      parts.push(...visible(` Not read: ${number(unreadable)} of its files. ${why}.`));
    if (isFiltered() && !listed.length) parts.push(" No completion fits the filter.");
    return parts;
  }
  function entryOf(entry) {
    const facts = [`mean ${number(entry.mean)}`, `std ${number(entry.std)}`];
    if (entry.correct !== null) facts.unshift(`${entry.correct} of ${entry.n} correct`);
    if (entry.truncated) facts.push(`${entry.truncated} truncated`);
    if (entry.flagged) facts.push(`${entry.flagged} flagged`);
    const isOpen = nameOf(entry) === opened ? "true" : null;
    return html`<li><button class="entry" aria-current=${isOpen} data-group=${nameOf(entry)}
      onclick=${() => show(entry)}>
      <span class="where">${placeOf(entry)}</span>
      <span class="question">${visible(entry.question)}</span>
      <span class="quiet">${facts.join(", ")}</span>${shareBar(entry)}
    </button></li>`;
  }
  async function show(entry) {
    opened = nameOf(entry);
    remember("groups", [entry.step, entry.group]);
    if (placeOfOpened() >= state.limit) refresh();
    markOpen(list, (button) => button.dataset.group === opened);
    reveal(list);
    const request = ++requests;
    try {
      const answer = await ask(`${runIndex}/group/${opened}`);
      if (request !== requests) return;
      detail.replaceChildren(groupDetail(run, answer));
      detail.querySelector("h2").after(...overSteps(groups, entry, runIndex));
      announce(`S${placeOf(answer).slice(1)}, ${answer.rows.length} completions.`);
    } catch (error) {
      detail.replaceChildren(html`<p class="error">${error.message}</p>`);
    }
  }
  /** Open the next group of the list, or the one before it. */
  function go(by) {
    const place = placeOfOpened();
    const next = listed[place < 0 ? 0 : place + by];
    if (next) show(next);
  }
  /** Once the list has changed: what is open is in it, if anything is. */
  function renew() {
    state.limit = GROUPS_LISTED;
    refresh();
    if (listed.length && placeOfOpened() < 0) show(listed[0]);
    else reveal(list);
  }
  filter.changed = () => {
    const isOpen = opened !== null;
    renew();
    if (isOpen && placeOfOpened() >= 0) show(listed[placeOfOpened()]);
  };
  // In place of the listener of the list that was here before.
  document.onkeydown = (event) => {
    const by = { j: 1, k: -1 }[event.key];
    const isTyping = event.target.matches("input:not([type=range]), select, textarea");
    const hasModifier = event.ctrlKey || event.metaKey || event.altKey;
    if (by && list.isConnected && !isTyping && !hasModifier) go(by);
  };

  if (step !== undefined && group === undefined) {
    // Of a step whose completions were not written, the one before it.
    const before = steps.findLast((written) => written <= Number(step)) ?? steps[0];
    state.step = String(before ?? "");
  }
  refresh();
  const isAsked = (entry) =>
    group === undefined ? String(entry.step) === state.step : nameOf(entry) === `${step}/${group}`;
  const isMixed = KINDS_OF_GROUP.mixed[1];
  const first = groups.find(isAsked) || groups.findLast(isMixed) || groups[0];
  if (group !== undefined) await show({ step: Number(step), group: Number(group) });
  else if (first) await show(first);
  requestAnimationFrame(() => reveal(list)); // once it is in the page
  return html`<div class="two reading">
    <section aria-label="Groups">
      ${chooser(groups, steps, state, renew)}
      <div class="steps">
        <button title="key k" onclick=${() => go(-1)}>← previous</button>
        <button title="key j" onclick=${() => go(1)}>next →</button>
      </div>
      ${count}${list}
    </section>${detail}
  </div>`;
}

/** What chooses the groups of the list. */
function chooser(groups, steps, state, renew) {
  const set = (key) => (value) => {
    state[key] = value;
    renew();
  };
  const kinds = [];
  for (const [key, [text, fits]] of Object.entries(KINDS_OF_GROUP)) {
    const count = groups.filter(fits).length;
    if (count || key !== "again") kinds.push([key, `${text} (${count})`]);
  }
  const orders = Object.entries(ORDERS).map(([key, [text]]) => [key, text]);
  const stepOptions = [["", "all"], ...steps.map((step) => [step, String(step)])];
  return html`<div class="choices">
    ${choice("Step", stepOptions, state.step, set("step"))}
    ${choice("Show", kinds, state.kind, set("kind"))}
    ${choice("Order", orders, state.order, set("order"))}
  </div>`;
}

/** The share of a group's completions that are correct, as a bar. */
function shareBar({ correct, n }) {
  if (correct === null) return null;
  const bar = html`<span class="share" aria-hidden="true"><span></span></span>`;
  bar.firstChild.style.width = `${(100 * correct) / n}%`;
  return bar;
}

/**
 * The same question at other steps, if there are any: what was correct, and what was written most.
 */
function overSteps(groups, { step, group }, runIndex) {
  const isOpen = (entry) => entry.step === step && entry.group === group;
  const question = groups.find(isOpen)?.asked;
  const times = groups.filter((entry) => entry.asked === question);
  if (times.length < 2) return [];
  times.sort((a, b) => a.step - b.step || a.group - b.group);
  const every = Math.ceil(times.length / TIMES);
  const isListed = (entry, i) => i % every === 0 || i === times.length - 1 || isOpen(entry);
  const lines = times
    .filter(isListed)
    .map((entry) => timeOfQuestion(entry, isOpen(entry), runIndex));
  return [
    html`<section class="over" aria-label="This question over the steps">
      <h3>This question over the steps</h3><ol>${lines}</ol>
    </section>`,
  ];
}

function timeOfQuestion(entry, isOpen, runIndex) {
  const name = `step ${entry.step}`;
  const link = html`<a href=${`#groups/${runIndex}/${nameOf(entry)}`}>${name}</a>`;
  const correct = entry.correct === null ? "" : `${entry.correct} of ${entry.n} correct`;
  const often = html`<span class="often"></span>`;
  ask(`${runIndex}/group/${nameOf(entry)}`).then(
    ({ rows }) => often.append(mostOften(rows)),
    () => {}, // a part of the page's data may be left out
  );
  return html`<li>
    ${isOpen ? html`<b>${name}</b>` : link}
    <span>${correct}${shareBar(entry)}</span>
    <span class="quiet">reward ${number(entry.mean)}, ${number(entry.tokens, 0)} tokens</span>
    ${often}
  </li>`;
}

/** The text that most of these completions have, how many they are, and whether it is correct. */
function mostOften(rows) {
  const copies = ({ text }) => rows.filter((row) => row.text === text).length;
  const [first] = [...rows].sort((a, b) => copies(b) - copies(a));
  const reward = first.rewards.correct_answer ?? null;
  const judged =
    reward >= 1 ? { word: "correct", kind: "won" } : { word: "incorrect", kind: "lost" };
  const { word, kind } = reward === null ? { word: "", kind: "" } : judged;
  const count = html`<b class=${`kind ${kind}`}>×${copies(first)} ${word}</b>`;
  return html`<span>${count} ${visible(first.text)}</span>`;
}

/** A line that shows more of a list. */
function moreButton(count, onclick) {
  const label = `Show more of ${number(count)}`;
  return html`<li><button class="more" onclick=${onclick}>${label}</button></li>`;
}

/** Mark the entry of a list that is open. */
function markOpen(list, isOpen) {
  for (const button of list.querySelectorAll(".entry")) {
    if (isOpen(button)) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  }
}

function moveInList(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  const entries = [...event.currentTarget.querySelectorAll("button")];
  const next = entries[entries.indexOf(document.activeElement) + step];
  if (!next) return;
  event.preventDefault();
  next.focus();
  if (next.classList.contains("entry")) next.click();
}

/** Let a list show what is open, without moving the page. */
function reveal(list) {
  const opened = list.querySelector("[aria-current]");
  if (!opened) return;
  const [outer, inner] = [list.getBoundingClientRect(), opened.getBoundingClientRect()];
  if (inner.top >= outer.top && inner.bottom <= outer.bottom) return;
  list.scrollTop += inner.top - outer.top - (outer.height - inner.height) / 2;
}
