"use strict";
// What changed: the same held-out questions before and after, the ones that were won or lost first.

const SHOWN = 100; // questions at a time

/** `at`: the benchmark, the models before and after, and what to open: a kind of question, or one by its id. */
async function changedView(number_, run, [benchmark, before, after, open] = []) {
  const benchmarks = Object.entries(run.evaluations).filter(([, labels]) => labels.length > 1).sort(([a], [b]) => (b === "held-out") - (a === "held-out"));
  if (!benchmarks.length) {
    return h("p", {}, "No two models of this run have answered the same questions yet. ", h("code", {}, "make evaluate"), " asks them; ", h("code", {}, "make grpo"), " ends with that.");
  }
  const state = { benchmark: benchmarks[0][0], kind: "", shown: SHOWN };
  const choices = h("div", { class: "choices" });
  const list = h("ol", { class: "list", onkeydown: moveInList });
  const counts = h("div", { class: "choices", role: "group", "aria-label": "What became of a question" });
  const detail = h("section", { class: "detail", "aria-label": "Both answers" });
  let found = null;
  let asked = 0;

  const labelsOf = (name) => (benchmarks.find((each) => each[0] === name) || [null, []])[1];
  const labels = () => labelsOf(state.benchmark);
  function choose() {
    const all = labels();
    state.after = all.includes(run.stage) ? run.stage : all[all.length - 1];
    state.before = all.includes("sft") && state.after !== "sft" ? "sft" : all[0];
    if (!later().includes(state.after)) state.after = later().pop();
  }
  const twice = (label) => [label, label];
  const later = () => labels().slice(labels().indexOf(state.before) + 1);
  function chooseBefore(label) {
    state.before = label;
    if (!later().includes(state.after)) state.after = later().pop();
    load();
  }
  async function load(open = "") {
    const focused = [...choices.querySelectorAll("select")].indexOf(document.activeElement);
    choices.replaceChildren(
      choice("Questions", benchmarks.map(([name]) => [name, name]), state.benchmark, (value) => ((state.benchmark = value), choose(), load())),
      choice("Before", labels().slice(0, -1).map(twice), state.before, chooseBefore),
      choice("After", later().map(twice), state.after, (value) => ((state.after = value), load())),
    );
    if (focused >= 0) choices.querySelectorAll("select")[focused].focus();
    list.replaceChildren();
    counts.replaceChildren();
    try {
      const mine = ++asked;
      const answer = await ask(`${number_}/changed/${state.benchmark}/${state.before}/${state.after}`);
      if (mine !== asked) return;
      found = answer;
    } catch (error) {
      detail.replaceChildren(h("p", { class: "error" }, error.message));
      return;
    }
    state.kind = open in found.counts ? open : "";
    refresh();
    const first = found.rows.find((row) => String(row.id) === open) || found.rows.find((row) => !state.kind || row.kind === state.kind);
    if (first) await show(first);
    else detail.replaceChildren();
  }
  function refresh() {
    const all = Object.values(found.counts).reduce((a, b) => a + b, 0);
    const button = (kind, text, n) => h("button", { class: `kind ${kind.replace(" ", "-")}`, "aria-pressed": String(state.kind === kind), disabled: !n, onclick: () => ((state.kind = kind), (state.shown = SHOWN), refresh()) }, `${text} ${number(n)}`);
    counts.replaceChildren(button("", "all", all), ...Object.entries(found.counts).map(([kind, n]) => button(kind, kind, n)));
    const rows = found.rows.filter((row) => !state.kind || row.kind === state.kind);
    list.replaceChildren(...rows.slice(0, state.shown).map((row) => h("li", {}, h("button", { class: "entry", "data-question": row.id, onclick: () => show(row) }, h("span", { class: `kind ${row.kind.replace(" ", "-")}` }, row.kind), h("span", { class: "question" }, visible(row.question))))));
    if (rows.length > state.shown) list.append(h("li", {}, h("button", { class: "more", onclick: () => ((state.shown += 5 * SHOWN), refresh()) }, `Show more of ${number(rows.length)}`)));
    if (found.rows.length < all) list.append(h("li", { class: "quiet" }, `This file holds ${number(found.rows.length)} of the ${number(all)} questions, flips first.`));
  }
  async function show(row) {
    for (const each of list.querySelectorAll(".entry")) {
      if (each.dataset.question === String(row.id)) each.setAttribute("aria-current", "true");
      else each.removeAttribute("aria-current");
    }
    try {
      const mine = ++asked;
      const both = await ask(`${number_}/pair/${state.benchmark}/${found.before}/${found.after}/${row.id}`);
      if (mine !== asked) return;
      detail.replaceChildren(
        h("h2", { class: "asked" }, visible(both.question)),
        h("p", {}, "right answer: ", h("b", {}, visible(both.gold))),
        h("div", { class: "pair" }, both.answers.map(said)),
      );
      announce(`Question ${row.id}: ${row.kind}.`);
    } catch (error) {
      detail.replaceChildren(h("p", { class: "error" }, error.message));
    }
  }
  function said(each) {
    const judged = each.right === true ? "right" : each.right === false ? "wrong" : "not judged";
    const facts = [each.reason, each.tokens === null || each.tokens === undefined ? "" : `${each.tokens} tokens`, each.truncated ? "truncated" : ""].filter(Boolean);
    return h(
      "article",
      { class: "completion" },
      h("header", {}, h("b", {}, visible(each.label)), h("span", { class: `kind ${judged === "right" ? "won" : "lost"}` }, judged), each.answer === null ? "no answer" : h("span", {}, "answer ", h("b", {}, visible(String(each.answer))))),
      h("pre", { class: "said" }, visible(each.text)),
      h("p", { class: "quiet" }, visible(facts.join(", "))),
    );
  }
  const places = [before, after].map((label) => labelsOf(benchmark).indexOf(label));
  if (places[0] >= 0 && places[0] < places[1]) Object.assign(state, { benchmark, before, after });
  else choose();
  await load(open);
  return h("div", { class: "two reading" }, h("section", { "aria-label": "Questions" }, choices, counts, list), detail);
}
