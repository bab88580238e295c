"use strict";
// What the lab's widgets are made of: the frame of one, sliders, charts, bars, and a player that goes through steps.

/** A widget: `lead`, what to try and what it makes appear, once or more; `words`, what its terms mean; the picture beside its
 * controls, the rest below. `learn`: the part of docs/learn.md that explains it. */
function widget(key, title, lead, { words = "", learn, picture, controls, below }) {
  const name = `title-${key}`;
  return h(
    "section",
    { id: `part-${key}`, class: "play", "aria-labelledby": name },
    h("h2", { id: name }, title),
    h("p", { class: "lead" }, lead.map((text, i) => h("span", {}, h("b", {}, i % 2 ? "See" : i ? "Then try" : "Try"), " ", text, " "))),
    h("p", { class: "quiet terms" }, words, " More in docs/learn.md, ", h("q", {}, learn), "."),
    h("div", { class: "bench" }, h("div", { class: "controls-of" }, controls), h("div", { class: "picture" }, picture)),
    below ? h("div", { class: "below" }, below) : null,
  );
}

/** What sets the settings `asked` and then redraws: a slider, a select, a box to tick. */
function playing(asked, redraw) {
  const set = (name, from = Number) => (value) => ((asked[name] = from(value)), redraw());
  const slide = (name, label, low, high, step) => knob(label, low, high, step, asked[name], set(name));
  const pick = (name, label, options) => choice(label, options, asked[name], set(name, String));
  const check = (name, label) => h("label", { class: "tick" }, h("input", { type: "checkbox", checked: asked[name], onchange: (event) => set(name, Boolean)(event.target.checked) }), h("span", {}, label));
  return { slide, pick, check };
}

/** Settings that are seldom moved. */
const moreSettings = (...inside) => h("details", { class: "more" }, h("summary", {}, "More settings"), inside);

/** What the numbers say now, in a sentence that a screen reader is told when it changes. */
const sentence = () => h("p", { class: "sums", role: "status" });

/** Play, pause, one step back or on, and a slider: `draw(at)` shows step `at`, from 0 to the last one, which `to` sets. All of
 * it plays in `lasts` milliseconds, however many steps there are and however slow the machine is: steps are left out then. */
function player(label, draw, lasts = 8000) {
  let [at, last, timer] = [0, 0, null];
  const play = h("button", { class: "plays", onclick: () => (timer ? pause() : begin()) }, "Play");
  const where = h("span", { class: "number" });
  const slider = h("input", { type: "range", min: 0, value: 0, "aria-label": label, oninput: () => (pause(), show(Number(slider.value))) });
  const move = (by) => () => (pause(), show(at + by));
  const element = h("div", { class: "player", role: "group", "aria-label": `${label}, played` }, play, h("button", { onclick: move(-1) }, "Back"), h("button", { onclick: move(1) }, "Step"), slider, where);
  function show(next) {
    at = Math.max(0, Math.min(last, next));
    slider.value = at;
    where.textContent = `${label} ${at} of ${last}`;
    slider.setAttribute("aria-valuetext", where.textContent);
    draw(at);
  }
  /** A screen reader is told where playing ends, and not each step of it. */
  const tell = (live) => element.parentElement.querySelectorAll("[role=status]").forEach((status) => status.setAttribute("aria-live", live));
  function pause() {
    if (timer === null) return;
    clearInterval(timer);
    timer = null;
    play.textContent = "Play";
    tell("polite");
    draw(at);
  }
  function begin() {
    if (at === last) show(0);
    play.textContent = "Pause";
    tell("off");
    const [from, begun] = [at, performance.now()];
    timer = setInterval(() => {
      const next = Math.min(last, from + Math.floor(((performance.now() - begun) * last) / lasts));
      if (next > at && element.isConnected) show(next);
      if (at === last || !element.isConnected) pause();
    }, 30);
  }
  function to(steps, next = at) {
    if (next !== at) pause(); // what was played is of other settings
    last = slider.max = steps;
    show(next);
  }
  return { element, show, to, at: () => at };
}

/** A labelled slider with its value beside it. */
function knob(label, low, high, step, value, oninput) {
  const told = h("output", { class: "number" }, number(value));
  const slider = h("input", { type: "range", min: low, max: high, step, value, "aria-label": label, oninput: () => (say(Number(slider.value)), oninput(Number(slider.value))) });
  const say = (next) => ((slider.value = next), (told.textContent = number(next)));
  return Object.assign(h("label", { class: "knob" }, h("span", {}, label), slider, told), { say });
}

/** Bars side by side with a label under each. `show(shares, marks, chosen, said)`: how high each stands, from 0 to 1; a line
 * across each at another height; which are the ones to see; and all of it in words. */
function columnBars(labels) {
  const bars = labels.map((label) => {
    const [bar, mark, above] = [h("span", { class: "bar" }), h("span", { class: "mark" }), h("span", { class: "number" })];
    return { bar, mark, above, element: h("div", { class: "column" }, above, h("div", { class: "shaft" }, bar, mark), h("span", { class: "name" }, label)) };
  });
  const element = h("div", { class: "columns", role: "img" }, bars.map((column) => column.element));
  function show(shares, marks, chosen, said) {
    bars.forEach(({ bar, mark, above, element: column }, i) => {
      bar.style.height = `${100 * shares[i]}%`;
      mark.hidden = !marks;
      if (marks) mark.style.bottom = `calc(${marks[i]} * (100% - 2px))`;
      above.textContent = `${fixed(100 * shares[i], shares[i] < 0.095 ? 1 : 0)}%`;
      column.classList.toggle("chosen", chosen.includes(i));
    });
    element.setAttribute("aria-label", said);
  }
  return { element, show };
}

/** A bar from the middle, to the right where the value is above 0. */
function sideways(value, most) {
  const bar = h("span", { class: value < 0 ? "down" : "up" });
  bar.style.width = `${(50 * Math.min(Math.abs(value), most)) / most}%`;
  return h("div", { class: "advantage", "aria-hidden": "true" }, bar);
}

function meter(value, colour) {
  const bar = h("span", { class: "meter", "aria-hidden": "true" }, h("span", { class: colour }));
  bar.firstChild.style.width = `${100 * Math.min(1, Math.max(0, value))}%`;
  return bar;
}

/** From 0, or the lowest value below it, to a little above the highest. */
function spanOf(series) {
  const values = series.flatMap((line) => line.values).filter(Number.isFinite);
  const [low, high] = values.reduce(([least, most], value) => [Math.min(least, value), Math.max(most, value)], [0, 0.01]);
  return [1.05 * low, 1.05 * high];
}

/** A figure that `show` draws, and that draws itself again in another width or theme. `reveal(at)` leaves out what comes
 * behind a place of x, and marks that place. */
function chart(title, about) {
  const [words, place] = [h("p", { class: "quiet at" }), h("div", { class: "plot" })];
  const figure = h("figure", { class: "chart" }, h("figcaption", {}, h("b", {}, title), h("span", { class: "quiet" }, ` ${about}`)), words, place);
  let [shown, width, plot, revealed] = [null, 0, null, Infinity];
  const columnsOf = () => shown.series.map((line) => shown.x.map((place, i) => (place > revealed ? null : line.values[i] ?? null)));
  function draw() {
    width = place.clientWidth;
    if (!shown || !width) return;
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const grid = { stroke: colour("--line"), width: 1 };
    const axis = { stroke: colour("--quiet"), grid, ticks: grid, font: "12px system-ui, sans-serif" };
    place.replaceChildren();
    plot = new uPlot(
      {
        width,
        height: width < 420 ? 150 : 200,
        scales: { x: { time: false, range: shown.domain || ((_, low, high) => [low, high]) }, y: { range: shown.range || spanOf(shown.series) } },
        axes: [{ ...axis, size: 32, ...(shown.labels ? { incrs: [1], space: 10, values: (_, ticks) => ticks.map((at) => shown.labels[at] ?? "") } : { values: (_, ticks) => ticks.map(tick) }) }, { ...axis, size: 52, values: (_, ticks) => ticks.map(tick) }],
        legend: { show: false },
        hooks: { draw: [({ ctx, bbox, valToPos }) => markStep(ctx, bbox, valToPos, colour("--ink"))] },
        cursor: { drag: { x: false, y: false } },
        series: [
          {},
          ...shown.series.map((each) => ({
            stroke: colour(COLOURS[each.colour]),
            width: each.width || 1.5,
            pxAlign: 0,
            dash: each.dash,
            fill: each.bars ? colour(COLOURS[each.colour]) : undefined,
            paths: each.bars ? uPlot.paths.bars({ size: [0.9, 60] }) : undefined,
            points: each.point ? { show: true, size: 10, fill: colour(COLOURS[each.colour]) } : { show: false },
          })),
        ],
      },
      [shown.x, ...columnsOf()],
      place,
    );
    plot.root.setAttribute("role", "img");
    plot.root.setAttribute("aria-label", shown.said);
    if (shown.onclick) plot.over.addEventListener("click", () => shown.onclick(plot.cursor.idx));
  }
  /** A line at the step that is played, but for the last. */
  function markStep(ctx, { top, height: tall }, valToPos, ink) {
    if (revealed >= shown.x[shown.x.length - 1]) return;
    const at = Math.round(valToPos(Math.max(revealed, shown.x[0]), "x", true));
    ctx.save();
    ctx.fillStyle = ink;
    ctx.fillRect(at - 1, top, 2, tall);
    ctx.restore();
  }
  new ResizeObserver(() => place.clientWidth !== width && draw()).observe(place);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => place.isConnected && draw());
  const show = (next) => {
    [shown, revealed] = [next, next.at ?? Infinity];
    words.replaceChildren(...(next.legend || []).map((each) => h("span", { class: "key" }, h("span", { class: `chip c${each.colour + 1}` }), each.label)));
    words.hidden = !next.legend;
    draw();
  };
  const reveal = (at) => {
    revealed = at;
    if (plot && shown) plot.setData([shown.x, ...columnsOf()]); // of all x and a fixed range of y: the axes stay
  };
  return { figure, show, reveal };
}
