"use strict";
// The charts of the overview: what the runs logged, over their steps, one above the other where there are several.

const CHARTS = [
  { title: "Reward", about: "mean total reward of a batch", series: ["reward"], std: () => "reward_std" },
  { title: "Parts of the reward", about: "mean of each reward, before its weight", series: /^rewards\/(.+)\/mean$/, std: (key) => key.replace(/mean$/, "std") },
  { title: "Held-out accuracy", about: "greedy answers to held-out problems while it trained, with the 95% interval", series: ["eval_rewards/correct_answer/mean"], band: ["held_out/low", "held_out/high"], asked: "held_out/n", share: true, close: true, exact: true },
  { title: "Groups without signal", about: "all completions of the group earned the same", series: ["groups_without_signal"], share: true },
  { title: "Completion length", about: "tokens: mean and longest", series: ["completions/mean_length", "completions/max_length"] },
  { title: "Truncated", about: "completions cut off by max_completion_length", series: ["completions/clipped_ratio"], share: true },
  { title: "Entropy", about: "of the policy, mean over tokens, in nats", series: ["entropy"] },
  { title: "KL to the reference", about: "mean over tokens, in nats; logged where beta is above 0", series: ["kl"] },
  { title: "Clipped tokens", about: "whose ratio left the clip range on the side that stops them", series: ["clip_ratio/region_mean", "clip_ratio/low_mean", "clip_ratio/high_mean", "cispo_clip_ratio"], share: true },
  { title: "Difference to vLLM", about: "of a token's log-probability in training and in vLLM, mean, in nats; logged where vLLM samples", series: ["sampling/sampling_logp_difference/mean"] },
  { title: "Gradient norm", about: "before it is clipped", series: ["grad_norm"] },
  { title: "Loss", about: "what the optimizer lowers; GRPO's says little by its size", series: ["loss", "eval_loss"], early: true },
  { title: "Right tokens", about: "of the solutions that it learns from, where its likeliest token is theirs", series: ["mean_token_accuracy", "eval_mean_token_accuracy"], share: true, other: true, early: true },
  { title: "Learning rate", about: "of the optimizer", series: ["learning_rate"], exact: true },
  { title: "Seconds a step", about: "sampling, rewards and update", series: ["step_time"] },
];
const COLOURS = ["--c1", "--c2", "--c3", "--c4", "--c5", "--c6"];
const DASHES = [[], [6, 4], [2, 3]];
const SMOOTHING = { 0: "off", 0.6: "0.6", 0.9: "0.9" };
const BANDS = 3; // lines; the bands of more hide one another
// What a reader has opened, zoomed into or smoothed stays so while a run that goes on is drawn again.
const kept = { table: false, about: false, zoom: null, smoothing: null, plots: [] };

/** [{run, key, label}] of the columns that a chart shows and a run has. */
function seriesOf(chart, curves) {
  return curves.flatMap((columns, run) => {
    const keys = chart.series instanceof RegExp ? Object.keys(columns).filter((key) => chart.series.test(key)) : chart.series;
    return keys
      .filter((key) => columns[key] && columns[key].some((each) => each !== null))
      .map((key) => ({ run, key, label: chart.series instanceof RegExp ? key.match(chart.series)[1] : key.replace(/^.*\/(?=min$|max$|mean$|margins$|chosen$|rejected$|max_length$|mean_length$|(?:region|low|high)_mean$)/, "") }));
  });
}

/** The weight that smoothing gives to what came before: as chosen, else some where runs logged at other steps. */
function smoothing(curves) {
  if (kept.smoothing !== null) return kept.smoothing;
  const intervals = curves.map(({ step }) => Math.round(interval(step, step)));
  return new Set(intervals).size > 1 ? 0.6 : 0;
}

/** The mean number of steps between two values that are there. */
function interval(steps, values) {
  const there = steps.filter((_, i) => values[i] !== null);
  return there.length > 1 ? (there[there.length - 1] - there[0]) / (there.length - 1) : 1;
}

/** The exponential moving average, without the pull of its start; a value is worth `weight` as much after `every` steps. */
function smoothed(steps, values, weight, every) {
  let [sum, mass, before] = [0, 0, 0];
  return values.map((value, i) => {
    if (value === null || !weight) return value;
    const decay = weight ** ((steps[i] - before) / every);
    [sum, mass, before] = [sum * decay + value, mass * decay + 1, steps[i]];
    return sum / mass;
  });
}

/** [low, high] around a line, where there is what it takes: the interval that was logged, or its standard deviation. */
function bandOf(chart, columns, { key }, line, weight, every) {
  if (chart.band) return columns[chart.band[0]] ? chart.band.map((each) => columns[each]) : null;
  const std = chart.std && columns[chart.std(key)];
  const wide = std && smoothed(columns.step, std, weight, every);
  return wide ? [-1, 1].map((sign) => line.map((value, i) => (value === null || wide[i] === null ? null : value + sign * wide[i]))) : null;
}

function zoomTo(plot, zoom) {
  const steps = plot.data[0];
  plot.told = zoom || { min: steps[0], max: steps[steps.length - 1] };
  if (steps.length > 1 || zoom) plot.setScale("x", plot.told);
}

/** Show these steps in every chart; null shows all. */
function zoomAll(zoom) {
  kept.zoom = zoom;
  for (const plot of kept.plots) zoomTo(plot, zoom);
  document.querySelector(".whole").disabled = zoom === null;
}

function draw({ chart, series, figure }, runs, curves) {
  const style = getComputedStyle(document.documentElement);
  const colour = (i) => style.getPropertyValue(COLOURS[i % COLOURS.length]).trim();
  const grid = { stroke: style.getPropertyValue("--line").trim(), width: 1 };
  const axis = { stroke: style.getPropertyValue("--quiet").trim(), grid, ticks: grid, font: "12px system-ui, sans-serif" };
  const several = runs.length > 1;
  // Runs that logged at other steps are smoothed over as many: those of the one that logged least often.
  const weight = chart.exact ? 0 : smoothing(curves);
  const every = Math.max(...series.map(({ run, key }) => interval(curves[run].step, curves[run][key])));
  const lines = series.map(({ run, key }) => smoothed(curves[run].step, curves[run][key], weight, every));
  // A band lies between two lines of its own that are not drawn, behind the line it belongs to.
  const bands = series.map((each, i) => bandOf(chart, curves[each.run], each, lines[i], weight, every)).flatMap((edges, of) => (edges && series.length <= BANDS ? [{ edges, of }] : []));
  const raw = weight ? series.map(({ run, key }) => curves[run][key]) : [];
  const runOf = [...series, ...bands.flatMap(({ of }) => [series[of], series[of]]), ...(weight ? series : [])];
  const columns = [...lines, ...bands.flatMap(({ edges }) => edges), ...raw];
  const data = uPlot.join(columns.map((each, i) => [curves[runOf[i].run].step, each]), columns.map(() => [2]));
  const show = chart.share ? percent : (value) => number(value, 4);
  const within = series.map(({ run, key }) => series.filter((each) => each.run === run).findIndex((each) => each.key === key));
  const options = {
    width: figure.clientWidth,
    height: 180,
    scales: { x: { time: false }, y: { range: chart.share && !chart.close ? (plot, low, high) => [0, Math.min(1, Math.max(0.05, 1.1 * high))] : undefined } },
    axes: [
      { ...axis, space: 60, size: 32, values: (plot, ticks) => ticks.map((each, i) => `${i ? "" : "step "}${tick(each)}`) },
      { ...axis, size: 64, values: (plot, ticks) => ticks.map((each) => (chart.share ? `${tick(100 * each)}%` : tick(each))) },
    ],
    series: [
      { label: "step" },
      ...series.map(({ run }, i) => ({
        stroke: colour(several ? run : i),
        dash: several ? DASHES[within[i] % DASHES.length] : [],
        width: 1.5,
        points: { show: data[0].length < 30 && !weight },
        spanGaps: true,
      })),
      ...bands.flatMap(() => [0, 0]).map(() => ({ stroke: "transparent", width: 0, points: { show: false }, spanGaps: true })),
      ...raw.map((_, i) => ({ stroke: `${colour(several ? series[i].run : i)}55`, width: 1, points: { show: false }, spanGaps: true })),
    ],
    bands: bands.map(({ of }, i) => ({ series: [series.length + 2 * i + 2, series.length + 2 * i + 1], fill: `${colour(several ? series[of].run : of)}${several ? "22" : "33"}` })),
    legend: { show: false },
    cursor: { drag: { x: true, y: false }, sync: { key: "steps", filters: { pub: (kind) => kind === "mousemove" || kind === "mouseleave" } } },
  };
  figure.replaceChildren(
    h("figcaption", {}, h("b", {}, chart.title), h("span", { class: "quiet" }, ` ${chart.about}${bands.length && chart.std ? ", ± one standard deviation" : ""}${problems(chart, curves)}`)),
    h("p", { class: "quiet at" }, legend(series, several)),
  );
  const names = series.map(({ run, label }) => (several ? runs[run].name : "") + (new Set(series.map((each) => each.label)).size > 1 ? ` ${label}` : ""));
  const tell = (plot) => {
    const at = plot.cursor.idx;
    const known = at === null || at === undefined ? [] : names.map((name, i) => [name, plot.data[i + 1][at]]).filter((each) => each[1] !== null && each[1] !== undefined);
    const text = known.map(([name, value]) => `${name} ${show(value)}`.trim()).join(", ");
    figure.querySelector(".at").replaceChildren(...(text ? [`step ${plot.data[0][at]}: ${text}`] : legend(series, several)));
  };
  const steps = data[0];
  const zoomed = (plot, axis) => {
    const { min, max } = plot.scales[axis];
    const told = plot.told && plot.told.min === min && plot.told.max === max; // as all charts were
    if (axis !== "x" || told || min === null || min === undefined || !kept.plots.includes(plot)) return;
    zoomAll(min <= steps[0] && max >= steps[steps.length - 1] ? null : { min, max });
  };
  const plot = new uPlot({ ...options, hooks: { setCursor: [tell], setScale: [zoomed] } }, data, figure);
  zoomTo(plot, kept.zoom);
  kept.plots.push(plot);
  // A click on a point opens the groups of its step; the end of a drag is none.
  const sampled = (i) => runs[series[i].run].stage === "grpo";
  let from = 0;
  byTouch(plot);
  plot.over.addEventListener("mousedown", (event) => (from = event.clientX));
  plot.over.addEventListener("click", (event) => {
    const at = plot.cursor.idx;
    if (at === null || at === undefined || Math.abs(event.clientX - from) > 3) return;
    const near = (i) => Math.abs(plot.valToPos(plot.data[i + 1][at], "y") - plot.cursor.top);
    const there = series.map((_, i) => i).filter((i) => sampled(i) && plot.data[i + 1][at] !== null && plot.data[i + 1][at] !== undefined);
    const nearest = there.sort((a, b) => near(a) - near(b))[0];
    if (nearest !== undefined) location.hash = `#groups/${series[nearest].run}/${steps[at]}`;
  });
  plot.over.classList.toggle("opens", series.some((_, i) => sampled(i)));
  plot.root.setAttribute("role", "img");
  plot.root.setAttribute("aria-label", `${chart.title}. ${series.map((each) => inWords(each, runs, curves, show, several)).join(" ")}`);
}

/** A finger drags as a mouse does (uPlot passes over moves that say no movement); what turns out to scroll the page (touch-action: pan-y) selects nothing. */
function byTouch(plot) {
  const as = (name) => (event) => {
    if (event.pointerType !== "touch") return;
    if (event.type === "pointercancel") plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    plot.over.dispatchEvent(new MouseEvent(name, { bubbles: true, movementX: 1, clientX: event.clientX, clientY: event.clientY }));
  };
  const names = { pointerdown: "mousedown", pointermove: "mousemove", pointerup: "mouseup", pointercancel: "mouseup" };
  for (const [name, mouse] of Object.entries(names)) plot.over.addEventListener(name, as(mouse));
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

