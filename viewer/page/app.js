"use strict";
// The frame: views as tabs, and the run that a view is about.

const VIEWS = {
  overview: ["Overview", async () => overview(app.runs, app.curves, { advice: await ofEach("advice", []), results: await ofEach("results", []), about: await ofEach("about", null) })],
  groups: ["Groups", async ([step, group]) => groupsView(app.run, app.runs[app.run], step === undefined ? null : { step: Number(step), group: group === undefined ? null : Number(group) }, (...at) => remember("groups", at))],
  changed: ["What changed", async (at) => changedView(app.run, app.runs[app.run], at.map(decodeURIComponent))],
  lab: ["Lab", labView],
};
const app = { runs: [], curves: [], run: 0, view: "overview", shown: 0 };

/** The answers of all runs; `otherwise` of one whose files are not what a run wrote. */
function ofEach(question, otherwise) {
  return Promise.all(app.runs.map((_, i) => ask(`${i}/${question}`).catch(() => otherwise)));
}

/** The address names the view, the run and what is open in it: #groups/0/40/3. */
function remember(view, at = []) {
  history.replaceState(null, "", `#${[view, app.run, ...at].join("/")}`);
}

async function show(view, at = []) {
  const mine = ++app.shown;
  const redrawn = app.view === view;
  app.view = view;
  for (const tab of document.querySelectorAll("[role=tab]")) {
    const chosen = tab.dataset.view === view;
    tab.setAttribute("aria-selected", String(chosen));
    tab.tabIndex = chosen ? 0 : -1;
  }
  const main = document.getElementById("main");
  main.setAttribute("aria-labelledby", `tab-${view}`);
  // Drawn again, the page is as high as before until its curves are there, and the focus is where it was: else its
  // reader is thrown to the top.
  main.style.minHeight = redrawn ? `${main.offsetHeight}px` : "";
  const within = () => [...main.querySelectorAll("a[href], button, select, input, summary")];
  const focused = redrawn ? within().indexOf(document.activeElement) : -1;
  try {
    const content = await VIEWS[view][1](at);
    if (mine !== app.shown) return; // another view was chosen meanwhile
    const chooser = app.runs.length > 1 && view !== "overview"
      ? choice("Run", app.runs.map((run, i) => [i, run.name]), app.run, (value) => ((app.run = Number(value)), remember(view), show(view)))
      : null;
    main.replaceChildren(...[chooser, content].filter(Boolean));
    within()[focused]?.focus({ preventScroll: true });
    requestAnimationFrame(() => (main.style.minHeight = ""));
  } catch (error) {
    if (mine !== app.shown) return;
    main.replaceChildren(h("p", { class: "error" }, error.message));
  }
}

function tabs() {
  const names = Object.keys(VIEWS);
  const move = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = names[(names.indexOf(app.view) + step + names.length) % names.length];
    remember(next);
    show(next);
    document.getElementById(`tab-${next}`).focus();
  };
  document.getElementById("tabs").replaceChildren(
    ...names.map((name) => h("button", { role: "tab", id: `tab-${name}`, "data-view": name, "aria-controls": "main", onclick: () => (remember(name), show(name)), onkeydown: move }, VIEWS[name][0])),
  );
  document.getElementById("main").setAttribute("role", "tabpanel");
}

async function load() {
  app.runs = await ask("runs");
  app.curves = await Promise.all(app.runs.map((_, i) => ask(`${i}/curves`)));
  const names = app.runs.map((run) => run.name).join(", ") || "The lab";
  document.title = names;
  document.getElementById("title").replaceChildren(visible(names));
}

/** Open what an address names, as a link does. */
async function goTo(address) {
  const [view, run, ...at] = address.slice(1).split("/");
  if (address && !(view in VIEWS)) return; // the link that skips to the content
  app.run = Number(run) < app.runs.length ? Number(run) || 0 : 0;
  await show(view in VIEWS ? view : Object.keys(VIEWS)[0], at);
}

async function start() {
  try {
    await load();
    if (!app.runs.length) for (const name of Object.keys(VIEWS)) if (name !== "lab") delete VIEWS[name];
    if (app.runs.every((run) => run.stage !== "grpo")) delete VIEWS.groups;
    tabs();
  } catch (error) {
    document.getElementById("main").replaceChildren(h("p", { class: "error" }, error.message));
    return;
  }
  await goTo(location.hash.slice(1).split("/")[0] in VIEWS ? location.hash : "");
}

// The curves are drawn in colours and widths of their own, so a new width or theme draws them again.
let resized;
function again() {
  clearTimeout(resized);
  resized = setTimeout(() => app.view === "overview" && app.runs.length && show("overview"), 150);
}
window.addEventListener("hashchange", () => goTo(location.hash));
let width = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth !== width) {
    width = window.innerWidth;
    again();
  }
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
start();
