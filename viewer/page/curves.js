"use strict";
// The charts of the overview: what the runs logged, over their steps, one above the other where
// there are several.

const ACCURACY = "eval_rewards/correct_answer/mean";
const CHARTS = [
  {
    title: "Validation accuracy",
    about: "greedy answers to validation problems while it trained, with the 95% interval",
    series: [ACCURACY],
    band: ["validation/low", "validation/high"],
    size: "validation/n",
    isShare: true,
    isExact: true,
  },
  {
    title: "Reward",
    about: "mean total reward of a batch",
    series: ["reward"],
    std: () => "reward_std",
  },
  {
    title: "Parts of the reward",
    about: "mean of each reward, before its weight",
    series: /^rewards\/(.+)\/mean$/,
    std: (key) => key.replace(/mean$/, "std"),
  },
  {
    title: "Zero-variance groups",
    about: "all completions of the group earned the same; trl's frac_reward_zero_std in float64",
    series: ["zero_variance_groups"],
    isShare: true,
  },
  {
    title: "Completion length",
    about: "tokens: mean and longest",
    series: ["completions/mean_length", "completions/max_length"],
  },
  {
    title: "Truncated",
    about: "completions cut off by max_completion_length",
    series: ["completions/clipped_ratio"],
    isShare: true,
  },
  { title: "Entropy", about: "of the policy, mean over tokens, in nats", series: ["entropy"] },
  {
    title: "KL to the reference",
    about: "mean over tokens, in nats; logged where beta is above 0",
    series: ["kl"],
  },
  {
    title: "Clipped tokens",
    about: "whose ratio left the clip range on the side that stops them",
    series: [
      "clip_ratio/region_mean",
      "clip_ratio/low_mean",
      "clip_ratio/high_mean",
      "cispo_clip_ratio",
    ],
    isShare: true,
  },
  {
    title: "Difference to vLLM",
    about:
      "of a token's log-probability in training and in vLLM, mean, in nats; logged where vLLM" +
      " samples",
    series: ["sampling/sampling_logp_difference/mean"],
  },
  { title: "Gradient norm", about: "before it is clipped", series: ["grad_norm"] },
  {
    title: "Loss",
    about: "what the optimizer lowers; GRPO's says little by its size",
    series: ["loss", "eval_loss"],
    isEarly: true,
  },
  {
    title: "Correct tokens",
    about: "of the solutions that it learns from, where its likeliest token is theirs",
    series: ["mean_token_accuracy", "eval_mean_token_accuracy"],
    isShare: true,
    isOther: true, // than what GRPO logs
    isEarly: true,
  },
  { title: "Learning rate", about: "of the optimizer", series: ["learning_rate"], isExact: true },
  { title: "Seconds a step", about: "sampling, rewards and update", series: ["step_time"] },
  {
    title: "GPU memory",
    about: "GiB, the peak so far of what PyTorch reserved; vLLM's own is not in it",
    series: ["memory/peak_gib"],
    isExact: true,
    isOther: true,
  },
];
const COLOURS = ["--c1", "--c2", "--c3", "--c4", "--c5", "--c6"];
const DASHES = { solid: [], dashed: [6, 4], dotted: [2, 3] };
const SMOOTHING = { 0: "off", 0.6: "0.6", 0.9: "0.9" };
const USUAL_SMOOTHING = 0.6;
const FEWEST_SMOOTHED = 12; // logged steps
const MOST_BANDS = 3; // those of more lines hide one another
// What a reader has opened, zoomed into or smoothed stays so while a run that goes on is drawn
// again.
const reading = {
  areInputsOpen: false,
  zoom: null,
  smoothing: null,
  plots: [],
};

/** [{run, key, label}] of the columns that a chart shows and a run has. */
function seriesOf({ series }, curves) {
  return curves.flatMap((columns, run) => {
    const isPattern = series instanceof RegExp;
    const keys = isPattern ? Object.keys(columns).filter((key) => series.test(key)) : series;
    const logged = keys.filter((key) => columns[key]?.some((value) => value !== null));
    return logged.map((key) => ({
      run,
      key,
      label: isPattern ? key.match(series)[1] : shortened(key),
    }));
  });
}

/** A key without its path, where its last name says enough. */
const shortened = (key) =>
  key.replace(/^.*\/(?=(?:max_length|mean_length|(?:(?:region|low|high)_)?mean)$)/, "");

/** The weight that smoothing gives to what came before: as chosen, else some where enough steps
 * were logged. */
function smoothing(curves) {
  if (reading.smoothing !== null) return reading.smoothing;
  const isShort = curves.every(({ step }) => step.length < FEWEST_SMOOTHED);
  return isShort ? 0 : USUAL_SMOOTHING;
}

/** The mean number of steps between two values that are there. */
function interval(steps, values) {
  const logged = steps.filter((_, i) => values[i] !== null);
  return logged.length > 1 ? (logged[logged.length - 1] - logged[0]) / (logged.length - 1) : 1;
}

/** The exponential moving average, without the pull of its start; a value is worth `weight` as much
 * after `every` steps. */
function smoothed(steps, values, weight, every) {
  let [sum, mass, last] = [0, 0, 0];
  return values.map((value, i) => {
    if (value === null || !weight) return value;
    const decay = weight ** ((steps[i] - last) / every);
    [sum, mass, last] = [sum * decay + value, mass * decay + 1, steps[i]];
    return sum / mass;
  });
}

/**
 * [low, high] around a line: the interval that was logged, or its standard deviation; else null.
 */
function bandOf(chart, columns, key, line, weight, every) {
  if (chart.band) return columns[chart.band[0]] ? chart.band.map((name) => columns[name]) : null;
  const std = chart.std && columns[chart.std(key)];
  if (!std) return null;
  const widths = smoothed(columns.step, std, weight, every);
  const isKnown = (i) => line[i] !== null && widths[i] !== null;
  return [-1, 1].map((sign) =>
    line.map((value, i) => (isKnown(i) ? value + sign * widths[i] : null)),
  );
}

function zoomTo(plot, zoom) {
  const steps = plot.data[0];
  plot.shown = zoom || { min: steps[0], max: steps[steps.length - 1] };
  if (steps.length > 1 || zoom) plot.setScale("x", plot.shown);
}

/** Show these steps in every chart; null shows all. */
function zoomAll(zoom) {
  reading.zoom = zoom;
  for (const plot of reading.plots) zoomTo(plot, zoom);
  document.querySelector(".whole").disabled = zoom === null;
}

/**
 * The columns of a chart over their steps: its lines, the edges of their bands, and, where the
 * lines are smoothed, what was logged. Each has `values`, the `run` whose steps they belong to, and
 * the `place` of its line among the chart's.
 */
function columnsOf(chart, series, curves) {
  // Runs that logged at other steps are smoothed over as many: those of the one that logged least.
  const weight = chart.isExact ? 0 : smoothing(curves);
  const logged = series.map(({ run, key }, place) => ({ run, place, values: curves[run][key] }));
  const intervals = logged.map(({ run, values }) => interval(curves[run].step, values));
  const every = Math.max(...intervals);
  const lines = logged.map((column) => {
    const { step } = curves[column.run];
    return { ...column, values: smoothed(step, column.values, weight, every) };
  });
  const bands = lines.flatMap(({ run, place, values }) => {
    const edges = bandOf(chart, curves[run], series[place].key, values, weight, every) || [];
    return edges.map((edge) => ({ run, place, values: edge }));
  });
  const shownBands = series.length <= MOST_BANDS ? bands : [];
  return { lines, bands: shownBands, logged: weight ? logged : [] };
}

function draw({ chart, series, figure }, runs, curves) {
  const isSeveral = runs.length > 1;
  const { lines, bands, logged } = columnsOf(chart, series, curves);
  const columns = [...lines, ...bands, ...logged];
  const data = uPlot.join(
    columns.map(({ run, values }) => [curves[run].step, values]),
    columns.map(() => [2]),
  );
  const show = chart.isShare ? percent : (value) => number(value, 4);
  const isSpread = bands.length && chart.std;
  const legend = legendOf(series, isSeveral);
  const place = html`<p class="quiet at">${legend}</p>`;
  const spread = isSpread ? ", ± one standard deviation" : "";
  figure.replaceChildren(
    html`<figcaption><b>${chart.title}</b><span
      class="quiet"> ${chart.about}${spread}${problemsOf(chart, curves)}</span></figcaption>`,
    place,
  );
  const hasLabels = new Set(series.map(({ label }) => label)).size > 1;
  const names = series.map(({ run, label }) => {
    const name = isSeveral ? runs[run].name : "";
    return hasLabels ? `${name} ${label}` : name;
  });
  /** The values below the cursor, or else the legend. */
  function showValues(plot) {
    const at = plot.cursor.idx ?? -1;
    const values = names.map((name, i) => ({ name, value: plot.data[i + 1][at] ?? null }));
    const present = values.filter(({ value }) => value !== null);
    const words = present.map(({ name, value }) => `${name} ${show(value)}`.trim()).join(", ");
    place.replaceChildren(...(words ? [`step ${data[0][at]}: ${words}`] : legend));
  }
  const options = optionsOf(chart, { lines, bands, logged }, series, isSeveral);
  const hooks = { setCursor: [showValues], setScale: [zoomed] };
  const plot = new uPlot({ ...options, width: figure.clientWidth, hooks }, data, figure);
  zoomTo(plot, reading.zoom);
  reading.plots.push(plot);
  dragByTouch(plot);
  openGroups(plot, series, runs);
  const words = series.map((line) => inWords(line, runs, curves, show));
  plot.root.setAttribute("role", "img");
  plot.root.setAttribute("aria-label", `${chart.title}. ${words.join(" ")}`);
}

/** Zoom all charts as a reader has zoomed this one. */
function zoomed(plot, axis) {
  const { min, max } = plot.scales[axis];
  const isShown = plot.shown && plot.shown.min === min && plot.shown.max === max;
  if (axis !== "x" || isShown || !Number.isFinite(min) || !reading.plots.includes(plot)) return;
  const steps = plot.data[0];
  const isWhole = min <= steps[0] && max >= steps[steps.length - 1];
  zoomAll(isWhole ? null : { min, max });
}

/** How uPlot draws these columns. */
function optionsOf(chart, { lines, bands, logged }, series, isSeveral) {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();
  const colourOf = ({ run, place }) => colour(COLOURS[(isSeveral ? run : place) % COLOURS.length]);
  const grid = { stroke: colour("--line"), width: 1 };
  const font = "12px system-ui, sans-serif";
  const axis = { stroke: colour("--quiet"), grid, ticks: grid, font };
  const stepsOf = (plot, ticks) => ticks.map((at, i) => `${i ? "" : "step "}${tick(at)}`);
  const valueOf = (value) => (chart.isShare ? `${tick(100 * value)}%` : tick(value));
  const valuesOf = (plot, ticks) => ticks.map(valueOf);
  const fromZero = (plot, low, high) => [0, Math.min(1, Math.max(0.05, 1.1 * high))];
  const dashOf = ({ run, place }) => {
    const ofRun = series.filter((line) => line.run === run);
    const i = ofRun.indexOf(series[place]);
    return isSeveral ? Object.values(DASHES)[i % 3] : [];
  };
  const isSparse = ({ values }) => values.filter((value) => value !== null).length < 30;
  const unmarked = { spanGaps: true, points: { show: false } };
  // A band lies between two lines of its own that are not drawn, behind the line it belongs to.
  const fills = bands
    .filter((_, i) => i % 2 === 0)
    .map((band, i) => ({
      series: [lines.length + 2 * i + 2, lines.length + 2 * i + 1],
      fill: `${colourOf(band)}${isSeveral ? "22" : "33"}`,
    }));
  return {
    height: 180,
    scales: {
      x: { time: false },
      y: { range: chart.isShare && !chart.size ? fromZero : undefined },
    },
    axes: [
      { ...axis, space: 60, size: 32, values: stepsOf },
      { ...axis, size: 64, values: valuesOf },
    ],
    series: [
      { label: "step" },
      ...lines.map((line) => ({
        stroke: colourOf(line),
        dash: dashOf(line),
        width: 1.5,
        spanGaps: true,
        points: { show: isSparse(line) && !logged.length },
      })),
      ...bands.map(() => ({ ...unmarked, stroke: "transparent", width: 0 })),
      ...logged.map((line) => ({ ...unmarked, stroke: `${colourOf(line)}55`, width: 1 })),
    ],
    bands: fills,
    legend: { show: false },
    cursor: {
      drag: { x: true, y: false },
      sync: { key: "steps", filters: { pub: (kind) => /^mouse(move|leave)$/.test(kind) } },
    },
  };
}

/** A click on a point opens the groups of its step; the end of a drag is none. */
function openGroups(plot, series, runs) {
  const address = (i, step = "") => addressIn(runs[series[i].run], "groups", [step]);
  const isOpened = (i) => isPolicy(runs[series[i].run]) && address(i) !== null;
  const sampled = [...series.keys()].filter(isOpened);
  let start = 0;
  plot.over.classList.toggle("opens", sampled.length > 0);
  plot.over.addEventListener("mousedown", (event) => (start = event.clientX));
  plot.over.addEventListener("click", (event) => {
    const at = plot.cursor.idx ?? -1;
    if (Math.abs(event.clientX - start) > 3) return;
    const value = (i) => plot.data[i + 1][at] ?? null;
    const distance = (i) => Math.abs(plot.valToPos(value(i), "y") - plot.cursor.top);
    const present = sampled.filter((i) => value(i) !== null);
    present.sort((a, b) => distance(a) - distance(b));
    if (present.length) location.href = address(present[0], plot.data[0][at]);
  });
}

/** A finger drags as a mouse does (uPlot passes over moves that say no movement); what turns out to
 * scroll the page (touch-action: pan-y) selects nothing. */
function dragByTouch(plot) {
  const names = { pointerdown: "mousedown", pointermove: "mousemove", pointerup: "mouseup" };
  names.pointercancel = "mouseup";
  for (const [name, mouse] of Object.entries(names)) {
    plot.over.addEventListener(name, (event) => {
      if (event.pointerType !== "touch") return;
      const nothing = { left: 0, top: 0, width: 0, height: 0 };
      if (name === "pointercancel") plot.setSelect(nothing, false);
      const { clientX, clientY } = event;
      const options = { bubbles: true, movementX: 1, clientX, clientY };
      plot.over.dispatchEvent(new MouseEvent(mouse, options));
    });
  }
}

/** How many problems an evaluation asked, where the run wrote it. */
function problemsOf({ size }, curves) {
  const values = size ? curves.flatMap((columns) => columns[size] || []) : [];
  const counts = [...new Set(values.filter((value) => value !== null))];
  return counts.length ? ` (n = ${counts.map((count) => number(count)).join(", ")})` : "";
}

/** Which line is which: by colour in a chart of one run; of several, whose colours are theirs, by
 * dashes. */
function legendOf(series, isSeveral) {
  const labels = [...new Set(series.map(({ label }) => label))];
  if (labels.length < 2) return ["\u00a0"];
  return labels.map((label, i) => {
    const dash = html`<i>${Object.keys(DASHES)[i % 3]}</i>`;
    const key = isSeveral ? dash : html`<span class=${chip(i)}></span>`;
    return html`<span class="key">${key}${label}</span>`;
  });
}

/** A line of a chart for those who do not see it. */
function inWords({ run, key, label }, runs, curves, show) {
  const points = curves[run].step.map((step, i) => [step, curves[run][key][i]]);
  const logged = points.filter(([, value]) => value !== null);
  const [first, last] = [logged[0], logged[logged.length - 1]];
  const values = logged.map(([, value]) => value);
  const lowest = values.reduce((a, b) => Math.min(a, b));
  const highest = values.reduce((a, b) => Math.max(a, b));
  const name = runs.length > 1 ? `${runs[run].name}, ` : "";
  const ends = `${show(first[1])} at step ${first[0]}, ${show(last[1])} at step ${last[0]}`;
  return `${name}${label}: ${ends}, between ${show(lowest)} and ${show(highest)}.`;
}
