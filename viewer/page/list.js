"use strict";
// The list of all runs, and those that are ticked in it laid over one another.

const DIFFERENCES = 3; // settings of a run that its row names
const COLUMNS = {
  run: { title: "run", value: ({ place }) => -place },
  state: { title: "state", value: ({ run }) => Number(run.finished) },
  gain: { title: "gain", value: ({ gain }) => gain.points },
  time: { title: "time", value: ({ seconds }) => seconds },
  differs: { title: "what differs", value: ({ differs }) => differs.length },
};

/** The table, and below it the overview of the runs that are ticked in it; first the newest. */
async function listView() {
  const runs = app.all;
  const results = await askAll("results", [], runs);
  const about = await askAll("about", null, runs);
  const usual = usualValues(about);
  const rows = runs.map((run, place) => ({
    run,
    place,
    gain: gainOf(results[place]),
    seconds: timeByPart(run.columns).total,
    differs: differencesOf(about[place], usual),
  }));
  const state = { column: "run", isDown: true };
  const body = html`<tbody></tbody>`;
  const below = html`<div></div>`;
  const heads = Object.entries(COLUMNS).map(([key, { title }]) => {
    const sort = () => {
      Object.assign(state, { isDown: state.column !== key || !state.isDown, column: key });
      refresh();
    };
    return html`<th scope="col"><button class="sort" onclick=${sort}>${title}</button></th>`;
  });

  function refresh() {
    const { value } = COLUMNS[state.column];
    const sign = state.isDown ? -1 : 1;
    const sorted = [...rows].sort((a, b) => sign * (value(a) - value(b)));
    body.replaceChildren(...sorted.map(rowOf));
    heads.forEach((head, i) => {
      const isSorted = Object.keys(COLUMNS)[i] === state.column;
      const order = state.isDown ? "descending" : "ascending";
      head.setAttribute("aria-sort", isSorted ? order : "none");
    });
  }
  function rowOf({ run, gain, seconds, differs }) {
    const choose = (event) => {
      const isTicked = (another) => (another === run ? event.target.checked : isShown(another));
      app.runs = runs.filter(isTicked);
      showTicked();
    };
    const tick = html`<input type="checkbox" checked=${isShown(run)} onchange=${choose}
      aria-label=${`Show ${run.name}`}>`;
    const name = visible(run.name);
    return html`<tr><th scope="row"><label>${tick}</label>
        ${run.page ? html`<a href=${run.page}>${name}</a>` : html`<span>${name}</span>`}</th>
      <td>${stateOf(run)}</td>
      <td>${gain.isSure ? html`<b>${gain.text}</b>` : gain.text}</td>
      <td>${seconds ? duration(seconds) : ""}</td>
      <td class="differs" title=${differs.join("\n")}>${visible(inShort(differs))}</td></tr>`;
  }
  const isShown = (run) => app.runs.includes(run);
  async function showTicked() {
    below.replaceChildren(app.runs.length ? await overviewView() : html`<p>Tick a run.</p>`);
  }
  refresh();
  await showTicked();
  return html`<div>
    <p class="quiet">Tick two to lay one over the other. A name opens the run's own page.</p>
    <div class="wide"><table class="runs"><thead><tr>${heads}</tr></thead>${body}</table></div>
    ${below}
  </div>`;
}

/** {text, points, isSure} of what a run gained over what it started from. */
function gainOf([result]) {
  const verdict = result && ownVerdict(result);
  const sentence = verdict ? verdict[2] : "";
  const [figures] = sentence.match(/[+-][\d.]+ ± [\d.]+ points/) ?? [""];
  const points = figures ? parseFloat(figures) : -Infinity;
  const isSure = figures !== "" && sentence.startsWith(figures);
  return { text: figures.replace(/^-/, "−"), points, isSure };
}

/** "finished", or how far a run is. */
function stateOf(run) {
  if (run.stopped) return "stopped early";
  if (run.finished) return "finished";
  const steps = number(run.columns.step.at(-1) ?? 0);
  const maxSteps = run.settings.max_steps;
  return maxSteps > 0 ? `step ${steps} of ${number(maxSteps)}` : `step ${steps}`;
}

/** The value that most runs have of each setting; of values as frequent that of the newest run. */
function usualValues(about) {
  const recipes = about.filter(Boolean).map(({ recipe }) => recipe);
  const keys = new Set(recipes.flatMap((recipe) => Object.keys(recipe)));
  const usual = {};
  for (const key of keys) {
    const values = recipes.map((recipe) => recipe[key]);
    const count = (value) => values.filter((another) => another === value).length;
    usual[key] = values.reduce((best, value) => (count(value) > count(best) ? value : best));
  }
  return usual;
}

/** The settings of a run that most runs have otherwise, as texts. */
function differencesOf(inputs, usual) {
  const recipe = inputs?.recipe ?? {};
  const keys = Object.keys(usual).filter((key) => key !== "output_dir");
  const differing = keys.filter((key) => recipe[key] !== usual[key]);
  return differing.map((key) => `${key} ${recipe[key] ?? "not set"}`);
}

function inShort(differences) {
  const more = differences.length - DIFFERENCES;
  const first = differences.slice(0, DIFFERENCES).map((text) => text.slice(0, 60));
  return first.join(", ") + (more > 0 ? `, and ${more} more` : "");
}
