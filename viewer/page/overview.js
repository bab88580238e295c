"use strict";
// The overview: how good each run's model is, what it was made of, and its curves.

const TABLE_STEPS = 24; // of each run in the table
const GOES_ON =
  "A run that goes on writes its page again at each evaluation; make view writes it at once.";
const PARTS = ["sampling", "rewards", "update", "evaluation", "saving", "rest"];

/** The view. `runs`: what describes them; `curves`: the columns of each; `told`: what else was asked of each. */
function overview(runs, curves, { advice, results, about }) {
  const charts = h("div", { class: "charts" });
  const [several, begun] = [runs.length > 1, curves.some(({ step }) => step.length)];
  const drawn = [];
  const missing = [];
  for (const chart of CHARTS) {
    const series = seriesOf(chart, curves);
    if (!series.length) {
      if (!chart.other && runs.some((run) => run.stage === "grpo")) missing.push(chart.close && results.some((each) => each.length) ? `${chart.title} while it trained (grpo.eval_steps logs it)` : chart.title);
    }
    else {
      const figure = h("figure", { class: "chart" });
      drawn.push({ chart, series, figure });
    }
  }
  // What GRPO's loss says little by is what any other stage lowers.
  if (runs.every((run) => run.stage !== "grpo")) drawn.sort((a, b) => Boolean(b.chart.early) - Boolean(a.chart.early));
  charts.append(...drawn.map((each) => each.figure));
  function drawAll() {
    kept.plots = [];
    drawn.forEach((each) => draw(each, runs, curves));
  }
  const view = h(
    "div",
    {},
    h("div", { class: `tiles ${several ? "" : "alone"}` }, runs.map((run, i) => tile(run, curves[i], i, results[i]))),
    begun ? sicknesses(advice, runs) : h("p", {}, "No step was logged when this page was written."),
    runs.every((run) => run.finished) ? null : h("p", { class: "quiet" }, GOES_ON),
    madeOf(runs, about),
    drawn.length ? controls(curves, drawAll, runs) : null,
    charts,
    begun && missing.length ? h("p", { class: "quiet" }, `Not logged by ${several ? "these runs" : "this run"}: ${missing.join(", ")}.`) : null,
    begun && h("details", { open: kept.table, ontoggle: (event) => (kept.table = event.target.open) }, h("summary", {}, "The curves as a table"), table(runs, curves, drawn)),
  );
  // A canvas is as wide as its figure, which has a width only once it is in the page.
  requestAnimationFrame(drawAll);
  return view;
}

/** What docs/trouble.md's rules, which are for GRPO, say of the runs. */
function sicknesses(advice, runs) {
  const [several, well] = [runs.length > 1, runs.filter((run, i) => run.stage === "grpo" && !advice[i].length)];
  const from = (run) => (several ? [visible(run.name), ": "] : []);
  return [
    advice.map((told, i) => (told.length ? h("section", { class: "advice", "aria-label": "What to look at" }, told.map((each) => h("p", {}, from(runs[i]), h("b", {}, `step ${each.step}, ${each.rule}: `), visible(each.message)))) : null)),
    well.length ? h("p", { class: "quiet" }, visible(`The rules of docs/trouble.md have found nothing to look at${several ? ` in ${well.map((run) => run.name).join(", ")}` : ""}.`)) : null,
  ];
}

/** A run: how good its model is, then what it did in a few numbers. */
function tile(run, columns, i, results) {
  const last = (key) => (columns[key] || []).filter((each) => each !== null).pop();
  const first = (key) => (columns[key] || []).find((each) => each !== null);
  const steps = run.steps || columns.step[columns.step.length - 1] || 0;
  const judged = columns["eval_rewards/correct_answer/mean"] || [];
  const accuracies = judged.filter((each) => each !== null);
  const facts = [
    [run.finished ? "finished" : "not finished", `step ${number(steps)} of ${number(run.settings.max_steps > 0 ? run.settings.max_steps : steps)}`],
    ...["reward", "loss"].filter((key) => last(key) !== undefined && (key === "reward") === (run.stage === "grpo")).map((key) => [key, `${number(first(key))} → ${number(last(key))}`]),
  ];
  if (accuracies.length) facts.push(["held out", `${percent(accuracies[0])} at step ${number(columns.step[judged.indexOf(accuracies[0])])} → ${percent(accuracies[accuracies.length - 1])}, best ${percent(accuracies.reduce((a, b) => Math.max(a, b)))}`]);
  if (last("num_tokens")) facts.push(["tokens", number(last("num_tokens"), 0)]);
  if (run.result) facts.push(["its weights", `from ${run.result}`]);
  const hardware = run.hardware.join(", ");
  return h(
    "section",
    { class: "tile" },
    h("h2", {}, h("span", { class: `chip c${(i % COLOURS.length) + 1}` }), visible(run.name)),
    h(
      "div",
      { class: "split" },
      results.map((each) => resultOf(each, i)),
      h("div", {}, h("dl", {}, facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])), run.stopped ? h("p", {}, visible(run.stopped)) : null, time(columns), hardware ? h("p", { class: "quiet" }, visible(hardware)) : null),
    ),
  );
}

/** Where the run's time went, as a bar with its legend. */
function time(columns) {
  const sum = (part) => (columns[`seconds/${part}`] || []).reduce((a, b) => a + (b || 0), 0);
  const seconds = PARTS.map((part) => [part, sum(part)]).filter((each) => each[1] > 0);
  const all = seconds.reduce((a, [, each]) => a + each, 0);
  if (!all) return null;
  const words = seconds.map(([part, each]) => `${part} ${percent(each / all)}`);
  const bar = h("div", { class: "parts", "aria-hidden": "true" });
  seconds.forEach(([, each], i) => {
    const piece = h("span", { class: `c${(i % COLOURS.length) + 1}` });
    piece.style.flexGrow = each / all;
    bar.append(piece);
  });
  return h("div", {}, bar, h("p", { class: "quiet" }, `${all < 90 ? `${number(all, 1)} s` : `${number(all / 60, 1)} min`}: ${words.join(", ")}`));
}

/** A benchmark: each model with its interval, the verdicts, and what was won and lost. `i`: which run's. */
function resultOf({ benchmark, models, verdicts, flips, why }, i) {
  if (!models) return h("section", { class: "result" }, h("h3", {}, visible(benchmark)), h("p", { class: "quiet" }, visible(why)));
  const own = ([a, b]) => flips && a === flips.before && b === flips.after;
  const to = (...at) => `#changed/${i}/${[benchmark, flips.before, flips.after, ...at].map(encodeURIComponent).join("/")}`;
  const said = ([a, b, text], tag) => h(tag, { class: tag === "p" ? "verdict" : null }, visible(`${a} → ${b}: `), visible(text.replace(/(^|[ (])-(?=\d)/g, "$1−")));
  return h(
    "section",
    { class: "result", "aria-label": `Result: ${benchmark}` },
    h("h3", {}, visible(benchmark), h("span", { class: "quiet" }, ` n = ${number(models[0].n)}, 95% intervals`)),
    h("div", { class: "models" }, models.map((model) => [h("span", {}, visible(model.label)), bar(model, i), h("span", { class: "number" }, h("b", {}, percent(model.accuracy)), h("span", { class: "quiet" }, ` ${model.interval.map((each) => number(100 * each, 1)).join("–")}`))])),
    why ? h("p", { class: "error" }, visible(why)) : null,
    verdicts.filter(own).map((each) => said(each, "p")),
    flips ? h("p", {}, ["won", "lost"].map((kind) => h(flips.counts[kind] ? "a" : "span", { class: `kind ${kind}`, href: flips.counts[kind] ? to(kind) : null }, `${number(flips.counts[kind])} ${kind}`))) : null,
    flips && flips.rows.length ? h("ul", { class: "quiet flips" }, flips.rows.map((row) => h("li", {}, h("a", { href: to(row.id) }, visible(row.question)), ` ${row.kind}`))) : null,
    verdicts.length > 1 ? h("ul", { class: "quiet flips" }, verdicts.filter((each) => !own(each)).map((each) => said(each, "li"))) : null,
  );
}

function bar({ accuracy, interval }, i) {
  const [whole, between] = [h("span", { class: `whole-share c${(i % COLOURS.length) + 1}` }), h("span", { class: "between" })];
  whole.style.width = percent(accuracy);
  between.style.left = `${100 * interval[0]}%`;
  between.style.width = `${100 * (interval[1] - interval[0])}%`;
  return h("span", { class: "accuracy", "aria-hidden": "true" }, whole, between);
}

/** Smoothing, and the way back from a zoom. */
function controls(curves, redraw, runs) {
  const chosen = smoothing(curves);
  const buttons = Object.entries(SMOOTHING).map(([weight, name]) => h("button", { "aria-pressed": String(Number(weight) === chosen), onclick: (event) => choose(event.currentTarget, Number(weight)) }, name));
  function choose(button, weight) {
    kept.smoothing = weight;
    buttons.forEach((each) => each.setAttribute("aria-pressed", String(each === button)));
    redraw();
  }
  const opens = runs.some((run) => run.stage === "grpo") ? " Click a point to open its step's groups." : "";
  return [
    h(
      "div",
      { class: "choices controls" },
      h("div", { class: "choices", role: "group", "aria-label": "Smoothing" }, h("span", { class: "quiet" }, "Smoothing"), buttons),
      h("button", { class: "whole", disabled: kept.zoom === null, onclick: () => zoomAll(null) }, "All steps"),
    ),
    h("p", { class: "quiet" }, `Drag across a chart to zoom into all of them.${opens}`),
  ];
}

const TITLES_OF_PARTS = { recipe: "Recipe", data: "Data", versions: "Made with" };

/** What the runs were made of; of several, first what differs, the libraries' defaults included. */
function madeOf(runs, about) {
  if (about.some((each) => each === null)) return h("p", { class: "quiet" }, "The recipe of a run cannot be read.");
  const rows = (part, keys, of = part) => keys.map((key) => h("tr", {}, h("th", { scope: "row" }, key.split(/(?<=[._])/).flatMap((each) => [visible(each), h("wbr")])), about.map((each) => h("td", {}, visible(each[of][key] ?? "")))));
  const keysOf = (part) => [...new Set(about.flatMap((each) => Object.keys(each[part])))];
  const differ = (part) => (key) => new Set(about.map((each) => each[part][key])).size > 1;
  const head = (title) => h("thead", {}, h("tr", {}, h("th", { scope: "col" }, title), about.map((_, i) => h("th", { scope: "col" }, runs.length > 1 ? visible(runs[i].name) : ""))));
  // Where one has no such section, a hundred defaults of the other say nothing.
  const given = (key) => about.some((each) => key in each.recipe);
  const differing = [...rows("filled", keysOf("filled").filter((key) => key !== "output_dir" && given(key)).filter(differ("filled"))), ...["data", "versions"].flatMap((part) => rows(part, keysOf(part).filter((key) => key !== "seed").filter(differ(part))))];
  return [
    runs.length > 1 ? h("section", { "aria-label": "What differs" }, h("h2", {}, "What differs"), differing.length ? h("div", { class: "wide" }, h("table", { class: "settings" }, head("setting"), h("tbody", {}, differing))) : h("p", { class: "quiet" }, "Nothing but the folder.")) : null,
    h(
      "details",
      { class: "made", open: kept.about, ontoggle: (event) => (kept.about = event.target.open) },
      h("summary", {}, "Recipe, data, commit and hardware"),
      h("div", { class: "wide" }, h("table", { class: "settings" }, Object.entries(TITLES_OF_PARTS).map(([part, title]) => [head(title), h("tbody", {}, rows(part, keysOf(part)))]))),
    ),
  ];
}

function table(runs, curves, drawn) {
  const shown = drawn.flatMap(({ chart, series }) => series.map((each) => ({ ...each, chart })));
  return runs.map((run, i) => {
    const mine = shown.filter((each) => each.run === i);
    const steps = curves[i].step;
    const every = Math.max(1, Math.ceil(steps.length / TABLE_STEPS));
    const rows = steps.map((step, at) => at).filter((at) => at % every === 0 || at === steps.length - 1);
    return h(
      "div",
      { class: "wide" },
      h(
        "table",
        {},
        h("caption", {}, visible(run.name)),
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "step"), mine.map(({ chart, label, key }) => h("th", { scope: "col" }, key === "reward" ? "reward" : chart.series instanceof RegExp ? label : chart.title + (label === key ? "" : ` (${label})`))))),
        h("tbody", {}, rows.map((at) => h("tr", {}, h("th", { scope: "row" }, runs[i].stage === "grpo" ? h("a", { href: `#groups/${i}/${steps[at]}` }, String(steps[at])) : String(steps[at])), mine.map(({ key, chart }) => h("td", {}, curves[i][key][at] === null ? "" : chart.share ? percent(curves[i][key][at]) : number(curves[i][key][at], 4)))))),
      ),
    );
  });
}
