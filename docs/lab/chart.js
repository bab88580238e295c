"use strict";
// Charts: lines, bars and points in an SVG that is stretched to its place; numbers beside it.

const svg = (tag, attributes, ...children) =>
  filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

const chip = (colour) => make("span", { class: `chip c${colour + 1}` });

/** Round numbers between two others, about as many as asked for. */
function ticksBetween([low, high], count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
  const first = Math.ceil(low / step - 1e-9);
  const length = Math.floor(high / step + 1e-9) - first + 1;
  return Array.from({ length }, (_, i) => Number(((first + i) * step).toPrecision(4)));
}

/**
 * A chart in a figure of the page. `show(content)` draws its `series` over `x`, each with `values`,
 * `label`, `colour` (from 0), and perhaps `width`, `dash`, `bars` or `points`; `domain` and `range`
 * are the ends of x and y, `words` all of it in words. `reveal(at)` leaves out what comes behind a
 * place of x, and marks that place.
 */
function chart(figure) {
  const legend = make("p", { class: "quiet at" });
  const plot = make("div", { class: "plot" });
  const mark = make("span", { class: "played" });
  figure.append(legend, plot);
  let across = null; // of a value of x its place, from 0 to 100
  let picture = null;
  let last = 0;
  function show({ x, series, domain = [x[0], x[x.length - 1]], range, words }) {
    const share = (value, [low, high]) => (100 * (value - low)) / (high - low || 1);
    across = (value) => share(value, domain);
    last = x[x.length - 1];
    const down = (value) => 100 - share(value, range);
    const lines = series.map((line) => drawn(line, x, across, down));
    const size = { viewBox: "0 0 100 100", preserveAspectRatio: "none" };
    picture = svg("svg", { ...size, role: "img", "aria-label": words }, lines);
    const ticks = (ends, count, kind, side, place) =>
      ticksBetween(ends, count).map((value) => {
        const style = `${side}: ${place(value)}%`;
        return make("span", { class: kind, style }, String(value).replace("-", "−"));
      });
    const below = ticks(domain, 6, "of-x", "left", across);
    const beside = ticks(range, 4, "of-y", "top", down);
    plot.replaceChildren(...below, ...beside, picture, mark);
    const keys = series.map(({ label, colour }) =>
      label ? make("span", { class: "key" }, chip(colour), label) : [],
    );
    legend.replaceChildren(...keys.flat());
    reveal(Infinity);
  }
  function reveal(at) {
    mark.hidden = at >= last;
    const place = Math.max(0, at >= last ? 100 : across(at));
    picture.style.clipPath = at >= last ? "none" : `inset(-4px ${100 - place}% -4px 0)`;
    mark.style.left = `${place}%`;
  }
  return { show, reveal };
}

/** The elements of one of a chart's series. */
function drawn({ values, colour, width = 1.5, dash = [], bars, points }, x, across, down) {
  const paint = `var(--c${colour + 1})`;
  const places = x.map((at, i) => [across(at), down(values[i]), values[i]]);
  const present = places.filter(([, , value]) => value !== null && Number.isFinite(value));
  if (bars) {
    const wide = 0.9 * (across(x[1]) - across(x[0]));
    return present.map(([place, top]) =>
      svg("rect", { x: place - wide / 2, y: top, width: wide, height: down(0) - top, fill: paint }),
    );
  }
  const path = present.map(([place, top]) => `${place.toFixed(2)} ${top.toFixed(2)}`).join("L");
  const line = { d: path && `M${path}${points ? "h0" : ""}`, stroke: paint, fill: "none" };
  const pen = { "stroke-width": points ? 10 : width, "stroke-linecap": points ? "round" : "butt" };
  return svg("path", { ...line, ...pen, "stroke-dasharray": dash.join(" ") });
}
