"use strict";
// Elements and text. Whatever a model wrote is only ever text: nothing here parses HTML.

/** An element with attributes, listeners (on…) and children; a string becomes a text node. */
function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((each) => each !== null && each !== undefined && each !== false));
  return element;
}

// What a reader would not see, or what would change how the rest is read: controls, escapes, marks of direction,
// characters without width, and private ones.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ue000-\uf8ff]/g;

/** The text with a mark in place of every character that a reader would not see. */
function visible(text) {
  const parts = document.createDocumentFragment();
  let from = 0;
  for (const found of text.matchAll(UNSEEN)) {
    const code = found[0].charCodeAt(0).toString(16).toUpperCase().padStart(4, "0");
    parts.append(text.slice(from, found.index), h("span", { class: "unseen", title: `U+${code}` }, `U+${code}`));
    from = found.index + 1;
  }
  parts.append(text.slice(from));
  return parts;
}

/** A number to read: three digits behind the point, or an exponent where that would show nothing. */
function number(value, digits = 3) {
  if (value === null || value === undefined) return "none";
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.5 * 10 ** -digits || size >= 1e12)) return value.toExponential(2).replace(/-/g, "−");
  return value.toLocaleString("en", { maximumFractionDigits: digits, useGrouping: size >= 10000 }).replace("-", "−");
}

/** A number in a column, where all have the same digits. */
const fixed = (value, digits = 3) => (Math.abs(value) < 0.5 * 10 ** -digits ? 0 : value).toFixed(digits).replace("-", "−");

/** A number for an axis: as many digits as tell its ticks apart. */
function tick(value) {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return Number(value.toPrecision(4)).toExponential().replace(/-/g, "−");
  return Number(value.toPrecision(6)).toLocaleString("en", { maximumFractionDigits: 6, useGrouping: size >= 10000 }).replace("-", "−");
}

function percent(value) {
  if (value === null || value === undefined) return "none";
  return value !== 0 && Math.abs(value) < 0.0005 ? "< 0.1%" : `${number(100 * value, 1)}%`;
}

/** Tell a screen reader what changed. */
function announce(text) {
  document.getElementById("said").textContent = text;
}

/** A labelled select. `options`: [value, text] pairs. */
function choice(label, options, chosen, onchange) {
  const select = h("select", { onchange: () => onchange(select.value) });
  for (const [value, text] of options) select.append(h("option", { value, selected: String(value) === String(chosen) }, text));
  return h("label", { class: "choice" }, h("span", {}, label), select);
}
