"use strict";
// Charts: lines, bars and points over x, drawn as SVG.

const SVG = "http://www.w3.org/2000/svg";
const LEFT = 52; // pixels beside the plot, for the numbers of y
const RIGHT = 16;
const TOP = 6;
const BOTTOM = 24;

function svg(tag, attributes, children = []) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Round numbers between two others, about as many as asked for. */
function ticksBetween(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++)
    ticks.push(i * step);
  return ticks;
}

/** From 0, or the lowest value below it, to a little above the highest. */
function rangeOf(series) {
  let [low, high] = [0, 0.01];
  for (const { values } of series) {
    for (const value of values.filter(Number.isFinite)) {
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  return [1.05 * low, 1.05 * high];
}

/**
 * A chart in a figure of the page, drawn again in another width. `show(content)` draws its `series`
 * over `x`, each with `values`, `label`, `colour` (from 0), and perhaps `width`, `dash`, `bars` or
 * `points`; `domain` and `range` are the ends of x and y, `labels` the names of the places of x,
 * `words` all of it in words, and `onclick` learns the place that is clicked. `reveal(at)` leaves
 * out what comes behind a place of x, and marks that place.
 */
function chart(figure) {
  const legend = html`<p class="quiet at"></p>`;
  const plot = html`<div class="plot"></div>`;
  figure.append(legend, plot);
  let content = null;
  let revealed = Infinity;
  let width = 0;
  let view = null; // of the plot, which hides what is not revealed
  let mark = null;
  let placeOf = null;
  function draw() {
    width = plot.clientWidth;
    if (!content || !width) return;
    const { x, series } = content;
    const height = width < 420 ? 150 : 200;
    const [across, down] = [width - LEFT - RIGHT, height - TOP - BOTTOM];
    const domain = content.domain || [x[0], x[x.length - 1]];
    const range = content.range || rangeOf(series);
    placeOf = (value) => (across * (value - domain[0])) / (domain[1] - domain[0] || 1);
    const heightOf = (value) => down - (down * (value - range[0])) / (range[1] - range[0] || 1);
    view = svg("svg", { x: LEFT, y: TOP, width: across, height: down });
    for (const line of series) view.append(...drawn(line, x, placeOf, heightOf));
    mark = svg("rect", { y: TOP, width: 2, height: down, class: "played" });
    const picture = svg("svg", { width, height, role: "img", "aria-label": content.words }, [
      ...axes(content, domain, range, { across, down, placeOf, heightOf }),
      view,
      mark,
    ]);
    if (content.onclick) {
      const placeAt = (pixel) => ((pixel - LEFT) / across) * (domain[1] - domain[0]) + domain[0];
      picture.addEventListener("click", (event) =>
        content.onclick(Math.round(placeAt(event.offsetX))),
      );
    }
    plot.replaceChildren(picture);
    showRevealed();
  }
  function showRevealed() {
    if (!view) return;
    const { x } = content;
    const isWhole = revealed >= x[x.length - 1];
    const place = placeOf(Math.max(revealed, x[0]));
    view.setAttribute("width", isWhole ? width - LEFT - RIGHT : Math.max(0, place + 1));
    mark.setAttribute("x", isWhole ? -9 : LEFT + place - 1);
  }
  const redraw = () => plot.clientWidth !== width && draw();
  new ResizeObserver(() => requestAnimationFrame(redraw)).observe(plot);
  function show(next) {
    content = next;
    revealed = Infinity;
    const labelled = next.series.filter(({ label }) => label && next.legend !== false);
    legend.hidden = !labelled.length;
    legend.replaceChildren(
      ...labelled.map(
        ({ label, colour }) =>
          html`<span class="key"><span class=${chip(colour)}></span>${label}</span>`,
      ),
    );
    draw();
  }
  function reveal(at) {
    revealed = at;
    showRevealed();
  }
  return { show, reveal };
}

const chip = (colour) => `chip c${colour + 1}`;

/** The numbers and lines beside and behind a plot. */
function axes({ labels }, domain, range, { across, down, placeOf, heightOf }) {
  const parts = [];
  const names = labels ? labels.map((_, i) => i) : ticksBetween(...domain, across / 70);
  for (const at of names) {
    const place = LEFT + placeOf(at);
    if (!labels) parts.push(svg("path", { d: `M${place} ${TOP}v${down}`, class: "grid" }));
    const text = labels ? labels[at] : tick(at);
    parts.push(svg("text", { x: place, y: TOP + down + 17, "text-anchor": "middle" }, [text]));
  }
  for (const at of ticksBetween(...range, down / 30)) {
    const place = TOP + heightOf(at);
    parts.push(svg("path", { d: `M${LEFT} ${place}h${across}`, class: "grid" }));
    parts.push(svg("text", { x: LEFT - 6, y: place + 4, "text-anchor": "end" }, [tick(at)]));
  }
  return parts;
}

/** A number for an axis. */
const tick = (value) => String(Number(value.toPrecision(4))).replace("-", "−");

/** The elements of one of a chart's series. */
function drawn({ values, colour, width = 1.5, dash = [], bars, points }, x, placeOf, heightOf) {
  const paint = `var(--c${colour + 1})`;
  const places = x.map((at, i) => [placeOf(at), values[i]]);
  const present = places.filter(([, value]) => Number.isFinite(value));
  if (points) {
    return present.map(([place, value]) =>
      svg("circle", { cx: place, cy: heightOf(value), r: 5, fill: paint }),
    );
  }
  if (bars) {
    const wide = Math.min(60, 0.9 * (placeOf(x[1]) - placeOf(x[0])));
    return present.map(([place, value]) => {
      const ends = [heightOf(value), heightOf(0)].sort((a, b) => a - b);
      const size = { x: place - wide / 2, y: ends[0], width: wide, height: ends[1] - ends[0] };
      return svg("rect", { ...size, fill: paint });
    });
  }
  const path = present.map(([place, value]) => `${place.toFixed(1)} ${heightOf(value).toFixed(1)}`);
  const line = { "stroke-width": width, "stroke-dasharray": dash.join(" "), fill: "none" };
  return path.length ? [svg("path", { d: `M${path.join("L")}`, stroke: paint, ...line })] : [];
}
