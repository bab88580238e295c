"use strict";
// The frame: views as tabs, and the run that a view is about.

const VIEWS = {
  list: { title: "Runs", draw: listView },
  overview: { title: "Overview", draw: overviewView },
  groups: { title: "Groups", draw: groupsView },
  changed: { title: "What changed", draw: changedView },
};
// `all`: the runs that the page holds; `runs`: those that are shown. `filter`: see filter.js.
const app = { all: [], runs: [], run: 0, view: "", requests: 0 };

/** The address names the view, the run and what is open in it: #groups/0/40/3. */
function remember(view, place = []) {
  history.replaceState(null, "", `#${[view, app.run, ...place].join("/")}`);
}

/** Remember a view and show it. */
function open(view) {
  remember(view);
  show(view);
}

async function show(view, place = []) {
  const request = ++app.requests;
  const isRedrawn = app.view === view;
  app.view = view;
  for (const tab of document.querySelectorAll("[role=tab]")) {
    const isChosen = tab.dataset.view === view;
    tab.setAttribute("aria-selected", String(isChosen));
    tab.tabIndex = isChosen ? 0 : -1;
  }
  const main = document.getElementById("main");
  main.setAttribute("aria-labelledby", `tab-${view}`);
  // Drawn again, the page is as high as before until its curves are there, and the focus is where
  // it was: else its reader is thrown to the top.
  main.style.minHeight = isRedrawn ? `${main.offsetHeight}px` : "";
  const controls = () => [...main.querySelectorAll("a[href], button, select, input, summary")];
  const focused = isRedrawn ? controls().indexOf(document.activeElement) : -1;
  try {
    const content = await VIEWS[view].draw(place);
    if (request !== app.requests) return; // another view was chosen meanwhile
    const needsChoice = app.runs.length > 1 && view !== "overview";
    main.replaceChildren(...(needsChoice ? [runChoice(view)] : []), content);
    controls()[focused]?.focus({ preventScroll: true });
    requestAnimationFrame(() => (main.style.minHeight = ""));
  } catch (error) {
    if (request === app.requests) showError(error);
  }
}

function showError(error) {
  document.getElementById("main").replaceChildren(html`<p class="error">${error.message}</p>`);
}

function runChoice(view) {
  const names = app.runs.map((run, i) => [i, run.name]);
  return choice("Run", names, app.run, (value) => {
    app.run = Number(value);
    open(view);
  });
}

function addTabs() {
  const names = Object.keys(VIEWS);
  function move(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = names[(names.indexOf(app.view) + step + names.length) % names.length];
    open(next);
    document.getElementById(`tab-${next}`).focus();
  }
  const tabs = names.map(
    (name) => html`<button role="tab" id=${`tab-${name}`} data-view=${name} aria-controls="main"
      onclick=${() => open(name)} onkeydown=${move}>${VIEWS[name].title}</button>`,
  );
  document.getElementById("tabs").replaceChildren(...tabs);
  document.getElementById("main").setAttribute("role", "tabpanel");
}

async function load() {
  app.all = await ask("runs");
  for (const [place, run] of app.all.entries()) {
    run.place = place;
    run.columns = await ask(`${place}/curves`);
  }
  const isList = app.all.some((run) => "page" in run);
  app.runs = isList ? app.all.slice(0, 1) : app.all;
  const names = isList ? "Runs" : app.runs.map((run) => run.name).join(", ");
  for (const view of Object.keys(VIEWS)) {
    if ((view === "list") !== isList) delete VIEWS[view];
  }
  document.title = names;
  document.getElementById("title").replaceChildren(...visible(names));
}

/** Open what an address names, as a link does. */
async function goTo(address) {
  const [view, run, ...place] = address.slice(1).split("/");
  if (address && !(view in VIEWS)) return; // the link that skips to the content
  app.run = Number(run) < app.runs.length ? Number(run) || 0 : 0;
  await show(view in VIEWS ? view : Object.keys(VIEWS)[0], place);
}

async function start() {
  try {
    await load();
  } catch (error) {
    showError(error);
    return;
  }
  if (app.runs.every((run) => run.stage !== "grpo")) delete VIEWS.groups;
  if (!("list" in VIEWS)) {
    addTabs();
    document.querySelector("nav").append(filterChoices());
  }
  await goTo(location.hash.slice(1).split("/")[0] in VIEWS ? location.hash : "");
}

// The curves are drawn in colours and widths of their own: a new width or theme draws them again.
let timer;
let width = window.innerWidth;
function redraw() {
  clearTimeout(timer);
  const hasCurves = app.view === "overview" || app.view === "list";
  timer = setTimeout(() => hasCurves && show(app.view), 150);
}
window.addEventListener("hashchange", () => goTo(location.hash));
window.addEventListener("resize", () => {
  if (window.innerWidth === width) return;
  width = window.innerWidth;
  redraw();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
start();
