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

// What a reader would not see, or what would change how the rest is read, as console/terminal.py has it.
const UNSEEN = /[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\udfff\ue000-\uf8ff\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{10ffff}]|(?<![\u0600-\u109f\u2190-\u2bff\u{1f000}-\u{1faff}])[\u200c\u200d\ufe0f]|[\u200c\u200d](?![\u0600-\u109f\u2190-\u2bff\u{1f000}-\u{1faff}])/gu;

/** The text with a mark in place of every character that a reader would not see. */
function visible(text) {
  const parts = document.createDocumentFragment();
  let from = 0;
  for (const found of text.matchAll(UNSEEN)) {
    const code = found[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    parts.append(text.slice(from, found.index), h("span", { class: "unseen", title: `U+${code}` }, `U+${code}`));
    from = found.index + found[0].length;
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
