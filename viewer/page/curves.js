"use strict";
// The overview: what the runs logged, as curves over their steps, one above the other where there are several.

const CHARTS = [
  { title: "Reward", about: "mean total reward of a batch", series: ["reward"] },
  { title: "Parts of the reward", about: "mean of each reward, before its weight", series: /^rewards\/(.+)\/mean$/ },
  { title: "Held-out accuracy", about: "greedy answers to held-out problems while it trained, with the 95% interval", series: ["eval_rewards/correct_answer/mean"], band: ["held_out/low", "held_out/high"], asked: "held_out/n", share: true, zoom: true },
  { title: "Groups without signal", about: "all completions of the group earned the same", series: ["groups_without_signal"], share: true },
  { title: "Completion length", about: "tokens: mean and longest", series: ["completions/mean_length", "completions/max_length"] },
  { title: "Truncated", about: "completions cut off by max_completion_length", series: ["completions/clipped_ratio"], share: true },
  { title: "Entropy", about: "of the policy, mean over tokens, in nats", series: ["entropy"] },
  { title: "KL to the reference", about: "mean over tokens, in nats; logged where beta is above 0", series: ["kl"] },
  { title: "Clipped tokens", about: "whose ratio left the clip range on the side that stops them", series: ["clip_ratio/region_mean", "cispo_clip_ratio"], share: true },
  { title: "Importance ratio", about: "probability in training over that in vLLM; logged where vLLM samples", series: ["sampling/importance_sampling_ratio/mean", "sampling/importance_sampling_ratio/min", "sampling/importance_sampling_ratio/max"] },
  { title: "Gradient norm", about: "before it is clipped", series: ["grad_norm"] },
  { title: "Learning rate", about: "of the optimizer", series: ["learning_rate"] },
  { title: "Seconds a step", about: "sampling, rewards and update", series: ["step_time"] },
];
const COLOURS = ["--c1", "--c2", "--c3", "--c4", "--c5", "--c6"];
const DASHES = [[], [6, 4], [2, 3]];
const TABLE_STEPS = 24; // of each run in the table
const PARTS = ["sampling", "rewards", "update", "evaluation", "saving", "rest"];
// What a reader has opened or zoomed into stays so while a run that goes on is drawn again.
const kept = { table: false, zooms: new Map() };

/** The view. `runs`: what describes them; `curves`: the columns of each. */
function overview(runs, curves, advice) {
  const charts = h("div", { class: "charts" });
  const drawn = [];
  const missing = [];
  for (const chart of CHARTS) {
    const series = seriesOf(chart, curves);
    if (!series.length) missing.push(chart.title);
    else {
      const figure = h("figure", { class: "chart" });
      charts.append(figure);
      drawn.push({ chart, series, figure });
    }
  }
  const view = h(
    "div",
    {},
    h("div", { class: "tiles" }, runs.map((run, i) => tile(run, curves[i], i))),
    advice.map((told, i) => sicknesses(told, runs[i], runs.length > 1)),
    charts,
    missing.length ? h("p", { class: "quiet" }, `Not logged by ${runs.length > 1 ? "these runs" : "this run"}: ${missing.join(", ")}.`) : null,
    h("details", { open: kept.table, ontoggle: (event) => (kept.table = event.target.open) }, h("summary", {}, "The curves as a table"), table(runs, curves, drawn)),
  );
  // A canvas is as wide as its figure, which has a width only once it is in the page.
  requestAnimationFrame(() => drawn.forEach((each) => draw(each, runs, curves)));
  return view;
}

/** What docs/health.md's rules say of a run. */
function sicknesses(told, run, several) {
  if (!told.length) return h("p", { class: "quiet" }, several ? [visible(run.name), ": "] : null, "no rule of docs/health.md speaks.");
  const from = several ? [visible(run.name), ": "] : [];
  return h("section", { class: "advice", "aria-label": "What to look at" }, told.map((each) => h("p", {}, from, h("b", {}, `step ${each.step}, ${each.rule}: `), visible(each.message))));
}

/** [{run, key, label}] of the columns that a chart shows and a run has. */
function seriesOf(chart, curves) {
  return curves.flatMap((columns, run) => {
    const keys = chart.series instanceof RegExp ? Object.keys(columns).filter((key) => chart.series.test(key)) : chart.series;
    return keys
      .filter((key) => columns[key] && columns[key].some((each) => each !== null))
      .map((key) => ({ run, key, label: chart.series instanceof RegExp ? key.match(chart.series)[1] : key.replace(/^.*\/(?=min$|max$|mean$|max_length$|mean_length$)/, "") }));
  });
}

function draw({ chart, series, figure }, runs, curves) {
  const style = getComputedStyle(document.documentElement);
  const colour = (i) => style.getPropertyValue(COLOURS[i % COLOURS.length]).trim();
  const grid = { stroke: style.getPropertyValue("--line").trim(), width: 1 };
  const axis = { stroke: style.getPropertyValue("--quiet").trim(), grid, ticks: grid, font: "12px system-ui, sans-serif" };
  const several = runs.length > 1;
  // An interval is a band between two lines of its own that are not drawn, behind the line it belongs to.
  const bands = (chart.band || []).length ? series.flatMap(({ run }, i) => (curves[run][chart.band[0]] ? [{ run, of: i }] : [])) : [];
  const edges = bands.flatMap(({ run }) => chart.band.map((key) => ({ run, key })));
  const data = uPlot.join([...series, ...edges].map(({ run, key }) => [curves[run].step, curves[run][key]]), [...series, ...edges].map(() => [2]));
  const show = chart.share ? percent : (value) => number(value, 4);
  const within = series.map(({ run, key }) => series.filter((each) => each.run === run).findIndex((each) => each.key === key));
  const options = {
    width: figure.clientWidth,
    height: 180,
    scales: { x: { time: false }, y: { range: chart.share && !chart.zoom ? (plot, low, high) => [0, Math.min(1, Math.max(0.05, 1.1 * high))] : undefined } },
    axes: [
      { ...axis, space: 60, size: 32 },
      { ...axis, size: 64, values: (plot, ticks) => ticks.map((each) => (chart.share ? `${tick(100 * each)}%` : tick(each))) },
    ],
    series: [
      { label: "step" },
      ...series.map(({ run }, i) => ({
        stroke: colour(several ? run : i),
        dash: several ? DASHES[within[i] % DASHES.length] : [],
        width: 1.5,
        points: { show: data[0].length < 30 },
        spanGaps: true,
      })),
      ...edges.map(() => ({ stroke: "transparent", width: 0, points: { show: false }, spanGaps: true })),
    ],
    bands: bands.map(({ run, of }, i) => ({ series: [series.length + 2 * i + 2, series.length + 2 * i + 1], fill: `${colour(several ? run : of)}33` })),
    legend: { show: false },
    cursor: { drag: { x: true, y: false } },
  };
  figure.replaceChildren(
    h("figcaption", {}, h("b", {}, chart.title), h("span", { class: "quiet" }, ` ${chart.about}${problems(chart, curves)}`)),
    h("p", { class: "quiet at" }, legend(series, several)),
  );
  const names = series.map(({ run, label }) => (several ? runs[run].name : "") + (new Set(series.map((each) => each.label)).size > 1 ? ` ${label}` : ""));
  const tell = (plot) => {
    const at = plot.cursor.idx;
    const known = at === null || at === undefined ? [] : names.map((name, i) => [name, plot.data[i + 1][at]]).filter((each) => each[1] !== null && each[1] !== undefined);
    const text = known.map(([name, value]) => `${name} ${show(value)}`.trim()).join(", ");
    figure.querySelector(".at").replaceChildren(...(text ? [`step ${plot.data[0][at]}: ${text}`] : legend(series, several)));
  };
  const zoom = kept.zooms.get(chart.title);
  const steps = data[0];
  const zoomed = (plot, axis) => {
    const { min, max } = plot.scales[axis];
    if (axis !== "x" || min === null || min === undefined) return;
    if (min <= steps[0] && max >= steps[steps.length - 1]) kept.zooms.delete(chart.title);
    else kept.zooms.set(chart.title, { min, max });
  };
  const plot = new uPlot({ ...options, hooks: { setCursor: [tell], setScale: [zoomed] } }, data, figure);
  if (zoom) plot.setScale("x", zoom);
  plot.root.setAttribute("role", "img");
  plot.root.setAttribute("aria-label", `${chart.title}. ${series.map((each) => inWords(each, runs, curves, show, several)).join(" ")}`);
}

/** How many problems an evaluation asked, where the run wrote it. */
function problems(chart, curves) {
  const counts = chart.asked ? [...new Set(curves.flatMap((columns) => columns[chart.asked] || []).filter((each) => each !== null))] : [];
  return counts.length ? ` (n = ${counts.map((each) => number(each)).join(", ")})` : "";
}

/** Which line is which: by colour in a chart of one run; of several, whose colours are theirs, by dashes. */
function legend(series, several) {
  const labels = [...new Set(series.map((each) => each.label))];
  if (labels.length < 2) return ["\u00a0"];
  const dashes = ["solid", "dashed", "dotted"];
  return labels.map((label, i) => h("span", { class: "key" }, several ? h("i", {}, dashes[i % 3]) : h("span", { class: `chip c${(i % COLOURS.length) + 1}` }), label));
}

function inWords({ run, key, label }, runs, curves, show, several) {
  const given = curves[run].step.map((step, i) => [step, curves[run][key][i]]).filter((each) => each[1] !== null);
  const [first, last] = [given[0], given[given.length - 1]];
  const values = given.map((each) => each[1]);
  const lowest = values.reduce((a, b) => Math.min(a, b));
  const highest = values.reduce((a, b) => Math.max(a, b));
  return `${several ? `${runs[run].name}, ` : ""}${label}: ${show(first[1])} at step ${first[0]}, ${show(last[1])} at step ${last[0]}, between ${show(lowest)} and ${show(highest)}.`;
}

/** A run in a few numbers. */
function tile(run, columns, i) {
  const last = (key) => (columns[key] || []).filter((each) => each !== null).pop();
  const first = (key) => (columns[key] || []).find((each) => each !== null);
  const steps = run.steps || columns.step[columns.step.length - 1] || 0;
  const judged = columns["eval_rewards/correct_answer/mean"] || [];
  const accuracies = judged.filter((each) => each !== null);
  const facts = [
    [run.finished ? "finished" : "not finished", `step ${number(steps)} of ${number(run.settings.max_steps > 0 ? run.settings.max_steps : steps)}`],
    ["reward", `${number(first("reward"))} → ${number(last("reward"))}`],
  ];
  if (accuracies.length) facts.push(["held out", `${percent(accuracies[0])} at step ${number(columns.step[judged.indexOf(accuracies[0])])} → ${percent(accuracies[accuracies.length - 1])}, best ${percent(accuracies.reduce((a, b) => Math.max(a, b)))}`]);
  if (last("num_tokens")) facts.push(["tokens", number(last("num_tokens"), 0)]);
  if (run.result) facts.push(["its weights", `from ${run.result}`]);
  const hardware = run.hardware.join(", ");
  return h(
    "section",
    { class: "tile" },
    h("h2", {}, h("span", { class: `chip c${(i % COLOURS.length) + 1}` }), visible(run.name)),
    h("dl", {}, facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
    run.stopped ? h("p", {}, visible(run.stopped)) : null,
    time(columns),
    hardware ? h("p", { class: "quiet" }, visible(hardware)) : null,
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
  return h("div", {}, bar, h("p", { class: "quiet" }, `${number(all / 60, 1)} min: ${words.join(", ")}`));
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
        h("tbody", {}, rows.map((at) => h("tr", {}, h("th", { scope: "row" }, String(steps[at])), mine.map(({ key, chart }) => h("td", {}, curves[i][key][at] === null ? "" : chart.share ? percent(curves[i][key][at]) : number(curves[i][key][at], 4)))))),
      ),
    );
  });
}
