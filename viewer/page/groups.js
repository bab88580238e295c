"use strict";
// The groups: every completion to one question, what it earned, and what that makes of its advantage.

const KINDS_OF_GROUP = {
  all: ["all groups", () => true],
  mixed: ["mixed", (each) => each.right !== null && each.right > 0 && each.right < each.n],
  right: ["all right", (each) => each.right !== null && each.right === each.n],
  wrong: ["all wrong", (each) => each.right === 0],
  flat: ["without signal", (each) => each.std !== null && each.std < 1e-6],
  truncated: ["with truncated completions", (each) => each.truncated > 0],
  flagged: ["flagged", (each) => each.flagged > 0],
  again: ["held-out, at each evaluation", (each) => each.group < 0],
};
const ORDERS = {
  step: ["as sampled", () => 0],
  newest: ["newest first", (a, b) => b.step - a.step || a.group - b.group],
  std: ["widest spread first", (a, b) => b.std - a.std],
  low: ["lowest reward first", (a, b) => a.mean - b.mean],
  high: ["highest reward first", (a, b) => b.mean - a.mean],
};
const LISTED = 60; // groups at a time
const TIMES = 24; // that a question came, about as many as are listed

/** Where a group was sampled: the questions of every evaluation have the places −1, −2, … */
const placeOf = ({ step, group }) => `step ${step}, ${group < 0 ? `held-out question ${-group}` : `group ${group}`}`;

/** The view of a run's groups. `chosen`: {step, group} to open; `went(step, group)` learns what is opened. */
async function groupsView(number_, run, chosen, went) {
  const { groups, of, unreadable, why } = await ask(`${number_}/groups`);
  if (!groups.length && !unreadable) return h("p", {}, "This run has written no completions yet.");
  let asked = 0;
  const steps = [...new Set(groups.map((each) => each.step))];
  const state = { kind: "all", order: "step", step: "", listed: LISTED, found: groups, words: "", holding: null };
  if (chosen && chosen.group === null) {
    // Of a step whose completions were not written, the one before it.
    state.step = String(steps.findLast((each) => each <= chosen.step) ?? steps[0] ?? "");
    chosen = groups.find((each) => each.step === Number(state.step)) || null;
  }
  const list = h("ol", { class: "list", onkeydown: moveInList });
  const count = h("p", { class: "quiet list-count" });
  const detail = h("section", { class: "detail", "aria-label": "The chosen group" });
  const kinds = Object.entries(KINDS_OF_GROUP).filter(([key, [, fits]]) => key !== "again" || groups.some(fits)).map(([key, [text, fits]]) => [key, `${text} (${groups.filter(fits).length})`]);

  const isOpen = (each) => chosen !== null && each.step === chosen.step && each.group === chosen.group;

  function refresh() {
    const found = groups.filter((each) => KINDS_OF_GROUP[state.kind][1](each) && (state.step === "" || each.step === Number(state.step)) && (!state.holding || state.holding.has(`${each.step}/${each.group}`)));
    state.found = found;
    if (state.order !== "step") found.sort(ORDERS[state.order][1]);
    count.textContent = `${number(found.length)} groups${of > groups.length ? `, of an even sample of ${number(groups.length)} of the ${number(of)} that the run wrote` : ""}.`;
    if (unreadable) count.append(visible(` Not read: ${number(unreadable)} of its files. ${why}.`));
    if (state.words && !found.length) count.append(visible(` None holds “${state.words}”.`));
    state.listed = Math.max(state.listed, found.findIndex(isOpen) + 1);
    list.replaceChildren(...found.slice(0, state.listed).map(item));
    if (found.length > state.listed) list.append(h("li", {}, h("button", { class: "more", onclick: () => ((state.listed += 5 * LISTED), refresh()) }, `Show more of ${number(found.length)}`)));
  }
  function item(each) {
    const right = each.right === null ? "" : `${each.right} of ${each.n} right, `;
    const marks = [each.truncated ? `${each.truncated} truncated` : "", each.flagged ? `${each.flagged} flagged` : ""].filter(Boolean);
    return h(
      "li",
      {},
      h(
        "button",
        { class: "entry", "aria-current": isOpen(each) ? "true" : null, "data-group": `${each.step}/${each.group}`, onclick: () => show(each.step, each.group) },
        h("span", { class: "where" }, placeOf(each)),
        h("span", { class: "question" }, visible(each.question)),
        h("span", { class: "quiet" }, `${right}mean ${number(each.mean)}, std ${number(each.std)}${marks.length ? `, ${marks.join(", ")}` : ""}`),
        share(each),
      ),
    );
  }
  function share(each) {
    if (each.right === null) return null;
    const bar = h("span", { class: "share", "aria-hidden": "true" }, h("span", {}));
    bar.firstChild.style.width = `${(100 * each.right) / each.n}%`;
    return bar;
  }
  async function show(step, group) {
    chosen = { step, group };
    went(step, group);
    if (state.found.findIndex(isOpen) >= state.listed) refresh();
    for (const each of list.querySelectorAll(".entry")) {
      if (each.dataset.group === `${step}/${group}`) each.setAttribute("aria-current", "true");
      else each.removeAttribute("aria-current");
    }
    reveal(list);
    try {
      const mine = ++asked;
      const found = await ask(`${number_}/group/${step}/${group}`);
      if (mine !== asked) return;
      detail.replaceChildren(groupDetail(run, found));
      detail.querySelector("h2").after(...overSteps(step, group));
      announce(`S${placeOf(found).slice(1)}, ${found.rows.length} completions.`);
    } catch (error) {
      detail.replaceChildren(h("p", { class: "error" }, error.message));
    }
  }

  /** The same question at other steps, where it was asked more than once: what was right, and what was written most often. */
  function overSteps(step, group) {
    const asked = groups.find((each) => each.step === step && each.group === group)?.asked;
    const all = groups.filter((each) => each.asked === asked).sort((a, b) => a.step - b.step || a.group - b.group);
    if (all.length < 2) return [];
    const here = (each) => each.step === step && each.group === group;
    const every = Math.ceil(all.length / TIMES);
    const times = all.filter((each, i) => i % every === 0 || i === all.length - 1 || here(each));
    return [h("section", { class: "over", "aria-label": "This question over the steps" }, h("h3", {}, "This question over the steps"), h("ol", {}, times.map((each) => time(each, here(each)))))];
  }
  function time(each, here) {
    const name = `step ${each.step}`;
    const right = each.right === null ? "" : `${each.right} of ${each.n} right`;
    const often = h("span", { class: "often" });
    ask(`${number_}/group/${each.step}/${each.group}`).then((found) => often.append(...mostOften(found.rows).flat()), () => {});
    return h(
      "li",
      {},
      here ? h("b", {}, name) : h("a", { href: `#groups/${number_}/${each.step}/${each.group}` }, name),
      h("span", {}, right, share(each)),
      h("span", { class: "quiet" }, `reward ${number(each.mean)}, ${number(each.tokens, 0)} tokens`),
      often,
    );
  }

  /** Open the next group of the list, or the one before it. */
  function go(by) {
    const at = state.found.findIndex(isOpen);
    const next = state.found[at < 0 ? 0 : at + by];
    if (next) show(next.step, next.group);
  }
  /** Once the list has changed: what is open is in it, if anything is. */
  function renew() {
    state.listed = LISTED;
    refresh();
    if (state.found.length && !state.found.some(isOpen)) show(state.found[0].step, state.found[0].group);
    else reveal(list);
  }
  async function search(words) {
    state.words = words.trim();
    const mine = ++searched;
    try {
      const found = state.words ? await holding(number_, groups, state.words) : null;
      if (mine !== searched) return;
      state.holding = found && new Set(found.map((at) => at.join("/")));
      renew();
    } catch (error) {
      count.textContent = error.message;
    }
  }
  const onKey = (event) => {
    if (!list.isConnected) return;
    const by = { j: 1, k: -1 }[event.key];
    if (!by || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input:not([type=range]), select, textarea")) return;
    go(by);
  };
  document.onkeydown = onKey; // in place of that of the list that was here before
  let searched = 0;
  let typing;
  const words = h("input", { type: "search", oninput: () => (clearTimeout(typing), (typing = setTimeout(() => search(words.value), 300))) });

  refresh();
  const start = chosen || groups.findLast(KINDS_OF_GROUP.mixed[1]) || groups[0];
  if (start) await show(start.step, start.group);
  requestAnimationFrame(() => reveal(list)); // once it is in the page
  const again = (key) => (value) => {
    state[key] = value;
    renew();
  };
  return h(
    "div",
    { class: "two reading" },
    h(
      "section",
      { "aria-label": "Groups" },
      h(
        "div",
        { class: "choices" },
        choice("Step", [["", "all"], ...steps.map((each) => [each, String(each)])], state.step, again("step")),
        choice("Show", kinds, state.kind, again("kind")),
        choice("Order", Object.entries(ORDERS).map(([key, [text]]) => [key, text]), state.order, again("order")),
        h("label", { class: "choice" }, h("span", {}, "Search questions and completions"), words),
      ),
      h("div", { class: "steps" }, h("button", { title: "key k", onclick: () => go(-1) }, "← previous"), h("button", { title: "key j", onclick: () => go(1) }, "next →")),
      count,
      list,
    ),
    detail,
  );
}

/** The text that most of these completions have, how many they are, and whether it is right. */
function mostOften(rows) {
  const copies = (row) => rows.filter((each) => each.text === row.text).length;
  const [most] = [...rows].sort((a, b) => copies(b) - copies(a));
  const right = most.rewards.correct_answer;
  const judged = right === undefined || right === null ? "" : right >= 1 ? "right" : "wrong";
  return [h("b", { class: `kind ${judged === "right" ? "won" : judged && "lost"}` }, `×${copies(most)} ${judged}`), " ", visible(most.text)];
}

function moveInList(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step) return;
  const entries = [...event.currentTarget.querySelectorAll("button")];
  const next = entries[entries.indexOf(document.activeElement) + step];
  if (next) {
    event.preventDefault();
    next.focus();
    if (next.classList.contains("entry")) next.click();
  }
}

/** Let a list show what is open, without moving the page. */
function reveal(list) {
  const open = list.querySelector("[aria-current]");
  if (!open) return;
  const [outer, inner] = [list.getBoundingClientRect(), open.getBoundingClientRect()];
  if (inner.top < outer.top || inner.bottom > outer.bottom) list.scrollTop += inner.top - outer.top - (outer.height - inner.height) / 2;
}

/** [step, group] of each group that holds these words. */
async function holding(number_, groups, words) {
  const sought = words.toLowerCase();
  const holds = ({ question, rows }) => [question, ...rows.map((row) => row.text)].some((text) => text.toLowerCase().includes(sought));
  return groups.filter((each) => holds(ANSWERS[`${number_}/group/${each.step}/${each.group}`])).map((each) => [each.step, each.group]);
}

/** One group, with rewards that can be moved and a G that can be thinned. */
function groupDetail(run, group) {
  const settings = run.settings;
  const logged = group.rows.map((row) => row.total);
  const totals = [...logged];
  const size = totals.length;
  const batch = { completions: group.batch_completions, tokens: group.batch_tokens };
  const movable = settings.multi_objective_aggregation !== "normalize_then_sum" && totals.every((each) => each !== null);
  let drawn = totals.map((_, i) => i); // the completions in the order in which a thinner group takes them
  let few = size;
  const lowest = Math.min(0, ...totals.filter((each) => each !== null));
  const highest = Math.max(...Object.values(run.rewards).reduce((sum, each) => [sum[0] + Math.max(0, each)], [0]), ...totals.filter((each) => each !== null));
  const head = h("p", { class: "sums", role: "status" });
  const thin = h("p", { class: "quiet after" });
  const cards = group.rows.map(card);
  // Equal completions are shown once, until someone moves one of them or wants to see each.
  const alike = new Map();
  group.rows.forEach((row, i) => {
    const key = JSON.stringify([row.text, row.length, row.total, row.advantage, row.truncated]);
    alike.set(key, [...(alike.get(key) || []), i]);
  });
  const copies = [...alike.values()].filter((each) => each.length > 1);
  let folded = true;
  const unfold = () => {
    folded = false;
    refresh();
  };
  const times = new Map(copies.map((each) => [each[0], h("button", { class: "times", title: `show each: ${each.map((i) => `#${group.rows[i].row}`).join(", ")}`, onclick: unfold }, `×${each.length}`)]));
  times.forEach((button, i) => cards[i].element.querySelector("header b").after(button));

  function card(row, i) {
    const bar = h("span", { class: "advantage", "aria-hidden": "true" }, h("span", {}));
    const told = h("output", { class: "number", "data-advantage": i });
    const earned = h("output", { class: "number", "data-reward": i }, number(totals[i]));
    const slider = h("input", { type: "range", min: lowest, max: highest, step: 0.01, value: totals[i] ?? 0, disabled: !movable, "aria-label": `Reward of completion ${row.row}`, oninput: () => move(i, Number(slider.value)) });
    const parts = Object.entries(row.rewards).map(([name, each]) => `${name} ${number(each)}`);
    const weight = group.group < 0 ? null : weightOfToken(row.tokens, batch, settings);
    const facts = [
      `${row.tokens} tokens`,
      row.truncated ? "truncated" : "",
      weight === null ? "" : `each token weighs ${number(100 * weight)}% of the batch's loss`,
    ].filter(Boolean);
    const text = h("pre", { class: "said" }, visible(row.text));
    const steps = row.steps ? stepsOf(row) : null;
    return {
      steps,
      bar,
      told,
      earned,
      slider,
      element: h(
        "article",
        { class: "completion", "aria-label": `Completion ${row.row}` },
        h("header", {}, h("b", {}, `#${row.row}`), h("span", { class: "quiet" }, parts.join(", ")), row.flags.map((each) => h("span", { class: "flag" }, each))),
        h("label", { class: "line" }, h("span", {}, "reward"), slider, earned),
        h("div", { class: "line" }, h("span", {}, steps ? "advantage without its steps" : "advantage"), bar, told),
        steps ? steps.element : null,
        text,
        row.length > row.text.length ? h("p", { class: "quiet" }, `the first ${number(row.text.length)} of ${number(row.length)} characters`) : null,
        h("p", { class: "quiet" }, facts.join(", ")),
      ),
    };
  }
  function move(i, value) {
    totals[i] = value;
    folded = false;
    refresh();
  }
  function refresh() {
    folded = folded && few === size;
    times.forEach((button) => (button.hidden = !folded));
    for (const each of copies) for (const i of each.slice(1)) cards[i].element.hidden = folded;
    const kept = drawn.slice(0, few);
    const found = advantages(kept.map((i) => totals[i]), group.others, settings);
    const all = cards.map((_, i) => (kept.includes(i) ? found.advantages[kept.indexOf(i)] : null));
    const largest = Math.max(1, ...all.map((each) => Math.abs(each || 0)));
    const moved = totals.some((each, i) => each !== logged[i]);
    cards.forEach(({ element, bar, told, earned, slider, steps }, i) => {
      const value = movable ? all[i] : group.rows[i].advantage;
      element.classList.toggle("left-out", value === null);
      told.textContent = value === null ? "not drawn" : number(value);
      told.dataset.value = value;
      if (steps) steps.tell(value);
      earned.textContent = number(totals[i]);
      slider.value = totals[i] ?? 0;
      bar.firstChild.className = value < 0 ? "down" : "up";
      bar.firstChild.style.width = `${(50 * Math.abs(value || 0)) / largest}%`;
    });
    const divisor = { group: `(${number(found.std)} + 0.0001)`, batch: `(${number(found.divisor - SMALLEST_STD)} of the batch + 0.0001)`, none: "1, not scaled" }[scaling(settings)];
    head.replaceChildren(
      "mean ", h("output", { "data-mean": found.mean }, number(found.mean)), ", std ", h("output", { "data-std": found.std }, number(found.std)),
      movable ? `; advantage = (reward − mean) / ${divisor}` : `; each reward is normalised before they are summed, so these are the advantages that the run logged`,
      moved ? " — you have moved rewards" : "",
    );
    const noise = deviationOfMean(totals, few);
    thin.textContent = few < size
      ? `With ${few} of the ${size} the baseline is ${number(found.mean)}, with all it is ${number(moments(totals).mean)}. Over all ways to draw ${few} of them it scatters by ± ${number(noise)}.`
      : `G = ${size}. Fewer completions make a noisier baseline: move the slider.`;
  }
  const thinner = h("input", { type: "range", min: Math.min(2, size), max: size, step: 1, value: size, disabled: !movable || size < 3, "aria-label": "Completions in the group", oninput: () => ((few = Number(thinner.value)), refresh()) });
  const redraw = h("button", { disabled: !movable || size < 3, onclick: () => ((drawn = shuffled(drawn)), refresh()) }, "Draw others");
  const reset = h("button", { onclick: () => (logged.forEach((each, i) => (totals[i] = each)), (few = size), (thinner.value = size), (drawn = logged.map((_, i) => i)), refresh()) }, "As it was");
  refresh();
  return h(
    "div",
    {},
    h("p", { class: "quiet where" }, placeOf(group), group.group < 0 ? ": sampled as in training, and not trained on" : null),
    h("h2", { class: "asked" }, visible(group.question)),
    h("p", {}, "right answer: ", h("b", {}, visible(group.gold))),
    head,
    h("div", { class: "line thin after" }, h("span", {}, "G"), thinner, redraw, reset),
    thin,
    h("div", { class: "completions" }, cards.map((each) => each.element)),
    group.system ? h("details", {}, h("summary", {}, "System prompt"), h("pre", { class: "said" }, visible(group.system))) : null,
  );
}

/** The table of a completion's steps, and `tell`, which fills in its last column for an advantage of the completion. */
function stepsOf(row) {
  const cells = row.steps.map((_, k) => h("td", { "data-step": `${row.row}/${k}` }));
  const from = row.steps.map((_, k) => (k ? row.steps[k - 1].end : 0) + 1);
  const rows = row.steps.map((each, k) => h("tr", {}, h("th", {}, from[k] < each.end ? `${from[k]}–${each.end}` : String(each.end)), h("td", {}, number(each.reward)), h("td", {}, number(each.share)), cells[k]));
  const head = h("tr", {}, ["tokens", "reward of the step", "its share", "their advantage"].map((name) => h("th", {}, name)));
  const element = h("div", { class: "wide", title: "A token's advantage is the completion's and the shares of its own step and of those after it." }, h("table", {}, head, rows));
  function tell(advantage) {
    let value = advantage;
    for (let k = cells.length - 1; k >= 0; k--) {
      if (advantage !== null) value += row.steps[k].share;
      cells[k].textContent = number(value);
      cells[k].dataset.value = value;
    }
  }
  return { element, tell };
}

function shuffled(items) {
  const mixed = [...items];
  for (let i = mixed.length - 1; i > 0; i--) {
    const j = Math.floor(Math.random() * (i + 1));
    [mixed[i], mixed[j]] = [mixed[j], mixed[i]];
  }
  return mixed;
}
