"use strict";
// The overview: how good each run's model is, what it was made of, and its curves.

const PARTS = ["sampling", "rewards", "update", "evaluation", "saving", "rest"];
const GOES_ON =
  "A run that goes on writes its page again at each evaluation; make view writes it at once.";

const isPolicy = (run) => run.stage === "grpo";
const chip = (i) => `chip c${(i % COLOURS.length) + 1}`;

/** The answers of these runs; `otherwise` for one whose files are not what a run wrote. */
function askAll(question, otherwise, runs = app.runs) {
  return Promise.all(runs.map((run) => ask(`${run.place}/${question}`).catch(() => otherwise)));
}

/** Where a view of a run is: in this page, or in the run's own, where this is the list of runs and
 * it has one; else null. */
function addressIn(run, view, place) {
  const isList = "page" in run;
  if (isList && !run.page) return null;
  const names = [view, isList ? 0 : run.place, ...place.map(encodeURIComponent)];
  return `${run.page ?? ""}#${names.join("/")}`;
}

async function overviewView() {
  const { runs } = app;
  const curves = runs.map((run) => run.columns);
  const [advice, results] = [await askAll("advice", []), await askAll("results", [])];
  const about = await askAll("about", null);
  filter.changed = null;
  const hasSteps = curves.some(({ step }) => step.length);
  const charts = chartsOf(runs, curves);
  function drawAll() {
    reading.plots = [];
    for (const chart of charts) draw(chart, runs, curves);
  }
  // A canvas is as wide as its figure, which has a width only once it is in the page.
  requestAnimationFrame(drawAll);
  const none = html`<p>No step was logged when this page was written.</p>`;
  const first = runs.length > 1 ? null : await opening(runs[0], results[0]);
  return html`<div>
    ${first ?? html`<div class="tiles">${runs.map((run, i) => tile(run, i, results[i]))}</div>`}
    ${warningsOf(runs, results)}
    ${hasSteps ? adviceOn(runs, advice) : none}
    ${runs.every((run) => run.finished) ? null : html`<p class="quiet">${GOES_ON}</p>`}
    ${inputsOf(runs, about)}
    ${charts.length ? controls(curves, drawAll, runs) : null}
    <div class="charts">${charts.map(({ figure }) => figure)}</div>
    ${hasSteps ? notLogged(runs, curves, results) : null}
  </div>`;
}

/** The charts that have something to draw. Of a warm start, what it lowers comes first. */
function chartsOf(runs, curves) {
  const charts = CHARTS.map((chart) => {
    const figure = html`<figure class="chart"></figure>`;
    return { chart, series: seriesOf(chart, curves), figure };
  }).filter(({ series }) => series.length);
  const isEarly = ({ chart }) => Boolean(chart.isEarly);
  if (!runs.some(isPolicy)) charts.sort((a, b) => isEarly(b) - isEarly(a));
  return charts;
}

/** Which curves a GRPO run could have and has not. */
function notLogged(runs, curves, results) {
  if (!runs.some(isPolicy)) return null;
  const isEvaluated = results.some((ofRun) => ofRun.length);
  const missing = CHARTS.filter((chart) => !chart.isOther && !seriesOf(chart, curves).length);
  if (!missing.length) return null;
  const names = missing.map(({ title, size }) =>
    size && isEvaluated ? `${title} while it trained (grpo.eval_steps logs it)` : title,
  );
  const subject = runs.length > 1 ? "these runs" : "this run";
  return html`<p class="quiet">Not logged by ${subject}: ${names.join(", ")}.</p>`;
}

/** What docs/trouble.md's rules, which are for GRPO, say of the runs. */
function adviceOn(runs, advice) {
  const isSeveral = runs.length > 1;
  const sections = runs.map((run, i) => {
    if (!advice[i].length) return null;
    const sentences = advice[i].map(
      ({ step, rule, message }) => html`<p>
        ${isSeveral ? [visible(run.name), ": "] : null}<b>step ${step}, ${rule}: </b>
        ${visible(message)}
      </p>`,
    );
    return html`<section class="advice" aria-label="What to look at">${sentences}</section>`;
  });
  const well = runs.filter((run, i) => isPolicy(run) && !advice[i].length);
  if (!well.length) return sections;
  const names = isSeveral ? ` in ${well.map((run) => run.name).join(", ")}` : "";
  const sentence = `No warnings${names}: no rule of docs/trouble.md applies.`;
  return [sections, html`<p class="quiet">${visible(sentence)}</p>`];
}

/** What the reports of the runs warn of. */
function warningsOf(runs, results) {
  return runs.map((run, i) => {
    const sentences = results[i].flatMap(({ warnings = [] }) => warnings);
    if (run.stopped) sentences.unshift(run.stopped);
    if (!sentences.length) return null;
    const name = runs.length > 1 ? [visible(run.name), ": "] : null;
    const lines = sentences.map((sentence) => html`<p>${name}<b>${visible(sentence)}</b></p>`);
    return html`<section class="advice" aria-label="Warnings">${lines}</section>`;
  });
}

/** What the page of one run begins with: what changed, how good its model is, a few numbers. */
async function opening(run, results) {
  const [main, ...others] = results;
  return html`<div>
    <section class="tile opening">
      ${main ? await storyOf(main, 0) : null}
      ${main ? resultOf(main, run, 0) : html`<p class="quiet">It was not evaluated yet.</p>`}
    </section>
    ${figuresOf(run)}
    <section class="tile split">
      ${others.map((result) => resultOf(result, run, 0))}
      ${whatItDid(run)}
    </section>
  </div>`;
}

/** One of several runs. */
function tile(run, i, results) {
  return html`<section class="tile">
    <h2><span class=${chip(i)}></span>${visible(run.name)}</h2>
    <div class="split">
      ${results.map((result) => resultOf(result, run, i))}
      ${whatItDid(run)}
    </div>
  </section>`;
}

function whatItDid(run) {
  const facts = factsOf(run).map(
    ([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`,
  );
  return html`<div><dl>${facts}</dl>${timeOf(run.columns)}</div>`;
}

/** [name, value] of what a run did. */
function factsOf(run) {
  const { columns } = run;
  const logged = (key) => (columns[key] || []).filter((value) => value !== null);
  const last = (values) => values[values.length - 1];
  const steps = run.steps || last(columns.step) || 0;
  const maxSteps = run.settings.max_steps > 0 ? run.settings.max_steps : steps;
  const state = run.finished ? "finished" : "not finished";
  const facts = [[state, `step ${number(steps)} of ${number(maxSteps)}`]];
  const accuracies = logged(ACCURACY);
  if (accuracies.length) {
    const first = columns.step[columns[ACCURACY].indexOf(accuracies[0])];
    const best = accuracies.reduce((a, b) => Math.max(a, b));
    const start = `${percent(accuracies[0])} at step ${number(first)}`;
    const further = ` → ${percent(last(accuracies))}, best ${percent(best)}`;
    const [problems] = logged("validation/n");
    const where = problems ? `on ${number(problems)} validation problems ` : "";
    facts.push([`${where}while it trained`, start + (accuracies.length > 1 ? further : "")]);
  }
  const tokens = last(logged("num_tokens"));
  if (tokens) facts.push(["tokens", number(tokens, 0)]);
  if (run.result) facts.push(["its weights", `from ${run.result}`]);
  const peak = last(logged("memory/peak_gib"));
  if (peak) facts.push(["GPU memory", `${number(peak, 1)} GiB at its peak`]);
  if (run.hardware.length) facts.push(["on", visible(run.hardware.join(", "))]);
  return facts;
}

/** {total, spent} of the seconds of a run: in all, and of each part that took any. */
function timeByPart(columns) {
  const sum = (values) => values.reduce((a, b) => a + (b || 0), 0);
  const parts = PARTS.map((part) => ({ part, seconds: sum(columns[`seconds/${part}`] || []) }));
  const spent = parts.filter(({ seconds }) => seconds > 0);
  return { total: sum(spent.map(({ seconds }) => seconds)), spent };
}

/** Where the run's time went, as a bar with its legend. */
function timeOf(columns) {
  const { total, spent } = timeByPart(columns);
  if (!total) return null;
  const pieces = spent.map(({ seconds }, i) => {
    const piece = html`<span class=${`c${(i % COLOURS.length) + 1}`}></span>`;
    piece.style.flexGrow = seconds / total;
    return piece;
  });
  const legend = spent.map(({ part, seconds }, i) => {
    const share = percent(seconds / total);
    return html`<span class="key"><span class=${chip(i)}></span>${part} ${share}</span> `;
  });
  return html`<div>
    <div class="parts" aria-hidden="true">${pieces}</div>
    <p class="quiet">${duration(total)}: ${legend}</p>
  </div>`;
}

/** The verdict on a run's model and the one that it started from. */
function ownVerdict({ verdicts = [], flips }) {
  return verdicts.find(
    ([before, after]) => flips && before === flips.before && after === flips.after,
  );
}

/** A benchmark: the gain in words, each model with its interval, the verdicts, what changed. */
function resultOf(result, run, i) {
  const { benchmark, models, verdicts, flips, why } = result;
  if (!models) {
    return html`<section class="result">
      <h3>${visible(benchmark)}</h3><p class="quiet">${visible(why)}</p>
    </section>`;
  }
  const sentence = ([before, after, text]) => [
    visible(`${before} → ${after}: `),
    visible(text.replace(/(^|[ (]|\de)-(?=\d)/g, "$1−")),
  ];
  const verdict = ownVerdict(result);
  const further = verdicts.filter((another) => another !== verdict);
  return html`<section class="result" aria-label=${`Result: ${benchmark}`}>
    ${headlineOf(result)}
    <h3>${visible(benchmark)}<span
      class="quiet"> n = ${number(models[0].n)}, 95% intervals</span></h3>
    <div class="models">${models.map((model) => accuracyOf(model, i))}</div>
    ${why ? html`<p class="error">${visible(why)}</p>` : null}
    ${verdict ? html`<p class="verdict">${sentence(verdict)}</p>` : null}
    ${flips ? flipsOf(benchmark, flips, run) : null}
    ${
      further.length
        ? html`<ul class="quiet flips">
            ${further.map((another) => html`<li>${sentence(another)}</li>`)}
          </ul>`
        : null
    }
  </section>`;
}

/** How many questions were won and lost, with links to them. */
function flipsOf(benchmark, { before, after, counts }, run) {
  const kinds = ["won", "lost"].map((kind) => {
    const text = `${number(counts[kind])} ${kind}`;
    const address = addressIn(run, "changed", [benchmark, before, after, kind]);
    if (!counts[kind] || !address) return html`<span class=${`kind ${kind}`}>${text}</span>`;
    return html`<a class=${`kind ${kind}`} href=${address}>${text}</a>`;
  });
  return html`<p>${kinds}</p>`;
}

/** A model's accuracy with its interval, as a bar and in numbers. */
function accuracyOf({ label, accuracy, interval }, i) {
  const share = html`<span class=${`whole-share c${(i % COLOURS.length) + 1}`}></span>`;
  const between = html`<span class="between"></span>`;
  share.style.width = percent(accuracy);
  between.style.left = `${100 * interval[0]}%`;
  between.style.width = `${100 * (interval[1] - interval[0])}%`;
  const ends = interval.map((end) => number(100 * end, 1)).join("–");
  return html`<span>${visible(label)}</span>
    <span class="accuracy" aria-hidden="true">${share}${between}</span>
    <span class="number"><b>${percent(accuracy)}</b><span class="quiet"> ${ends}</span></span>`;
}

/** Smoothing, and the way back from a zoom. */
function controls(curves, redraw, runs) {
  const chosen = smoothing(curves);
  const buttons = Object.entries(SMOOTHING).map(([weight, name]) => {
    const isChosen = String(Number(weight) === chosen);
    const choose = (event) => {
      reading.smoothing = Number(weight);
      for (const button of buttons) {
        button.setAttribute("aria-pressed", String(button === event.currentTarget));
      }
      redraw();
    };
    return html`<button aria-pressed=${isChosen} onclick=${choose}>${name}</button>`;
  });
  const isOpened = (run) => isPolicy(run) && addressIn(run, "groups", []) !== null;
  const click = runs.some(isOpened) ? " Click a point to open its step's groups." : "";
  const isWhole = reading.zoom === null;
  return html`<div class="choices controls">
      <div class="choices" role="group" aria-label="Smoothing">
        <span class="quiet">Smoothing</span>${buttons}
      </div>
      <button class="whole" disabled=${isWhole} onclick=${() => zoomAll(null)}>All steps</button>
    </div>
    <p class="quiet">Drag across a chart to zoom into all of them.${click}</p>`;
}

/** What the runs were made of; of several, first what differs, the libraries' defaults included. */
function inputsOf(runs, about) {
  if (about.includes(null)) return html`<p class="quiet">The recipe of a run cannot be read.</p>`;
  const keysOf = (part) => [...new Set(about.flatMap((inputs) => Object.keys(inputs[part])))];
  const parts = Object.entries({ recipe: "Recipe", data: "Data", versions: "Made with" });
  const tables = parts.map(([part, title]) => [
    headOf(title, runs),
    html`<tbody>${keysOf(part).map((key) => inputRow(key, part, about))}</tbody>`,
  ]);
  const rememberInputs = (event) => (reading.areInputsOpen = event.target.open);
  return [
    runs.length > 1 ? differences(runs, about, keysOf) : null,
    html`<details class="made" open=${reading.areInputsOpen} ontoggle=${rememberInputs}>
      <summary>Recipe, data, commit and hardware</summary>
      <div class="wide"><table class="settings">${tables}</table></div>
    </details>`,
  ];
}

function differences(runs, about, keysOf) {
  const rows = [];
  for (const part of ["filled", "data", "versions"]) {
    for (const key of keysOf(part)) {
      const differs = new Set(about.map((inputs) => inputs[part][key])).size > 1;
      // Where one has no such section, a hundred defaults of the other say nothing.
      const isSet = part !== "filled" || about.some(({ recipe }) => key in recipe);
      const isPlace = key === (part === "filled" ? "output_dir" : "seed");
      if (differs && isSet && !isPlace) rows.push(inputRow(key, part, about));
    }
  }
  const table = html`<div class="wide"><table class="settings">
    ${headOf("setting", runs)}<tbody>${rows}</tbody>
  </table></div>`;
  return html`<section aria-label="What differs">
    <h2>What differs</h2>
    ${rows.length ? table : html`<p class="quiet">Nothing but the folder.</p>`}
  </section>`;
}

function headOf(title, runs) {
  const names = runs.map(
    (run) => html`<th scope="col">${runs.length > 1 ? visible(run.name) : ""}</th>`,
  );
  return html`<thead><tr><th scope="col">${title}</th>${names}</tr></thead>`;
}

function inputRow(key, part, about) {
  const name = key.split(/(?<=[._])/).map((piece) => [visible(piece), html`<wbr>`]);
  const cells = about.map((inputs) => html`<td>${visible(inputs[part][key] ?? "")}</td>`);
  return html`<tr><th scope="row">${name}</th>${cells}</tr>`;
}
