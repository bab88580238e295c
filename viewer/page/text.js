"use strict";
// Markup and text. Whatever a model wrote is only ever text: nothing here parses it.

/**
 * The elements of a piece of markup. Only the markup is parsed: a value is a text, an element, a
 * list of them, or what an attribute is set to; after `on…=` it is a listener.
 */
function html(strings, ...values) {
  const template = document.createElement("template");
  const markup = strings.map((text, i) => {
    const trimmed = text.replace(/(^|>)\s*\n\s*/g, "$1").replace(/\s*\n\s*(<|$)/g, "$1");
    if (i === values.length) return trimmed;
    return (
      trimmed + (text.endsWith("=") ? `"value ${i}"` : `<template data-value="${i}"></template>`)
    );
  });
  template.innerHTML = markup.join("");
  for (const element of template.content.querySelectorAll("*")) {
    for (const { name, value } of [...element.attributes]) {
      if (value.startsWith("value ")) setAttribute(element, name, values[value.slice(6)]);
    }
  }
  for (const place of template.content.querySelectorAll("template[data-value]")) {
    const children = [values[place.dataset.value]].flat(Infinity);
    place.replaceWith(...children.filter((child) => child !== null && child !== undefined));
  }
  const { childNodes } = template.content;
  return childNodes.length === 1 ? childNodes[0] : template.content;
}

function setAttribute(element, name, value) {
  element.removeAttribute(name);
  if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
  else if (value === true) element.setAttribute(name, "");
  else if (value !== false && value !== null && value !== undefined)
    element.setAttribute(name, value);
}

// What a reader would not see, or what would change how the rest is read, as console/terminal.py
// has it.
const UNSEEN = new RegExp(
  [
    String.raw`[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-`,
    String.raw`\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\udfff`,
    String.raw`\ue000-\uf8ff\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\u{1bca0}-`,
    String.raw`\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{10ffff}]|(?<![\u0600-\u109f\u2190-`,
    String.raw`\u2bff\u{1f000}-\u{1faff}])[\u200c\u200d\ufe0f]|[\u200c\u200d](?![\u0600-`,
    String.raw`\u109f\u2190-\u2bff\u{1f000}-\u{1faff}])`,
  ].join(""),
  "gu",
);

/** The text with a mark in place of every character that a reader would not see. */
function visible(text) {
  const parts = [];
  let start = 0;
  for (const match of text.matchAll(UNSEEN)) {
    const code = `U+${match[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
    parts.push(text.slice(start, match.index));
    parts.push(html`<span class="unseen" title=${code}>${code}</span>`);
    start = match.index + match[0].length;
  }
  return [...parts, text.slice(start)];
}

/**
 * A number to read: three digits behind the point, or an exponent where that would show nothing.
 */
function number(value, digits = 3) {
  if (value === null || value === undefined) return "none";
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.5 * 10 ** -digits || size >= 1e12)) {
    return value.toExponential(2).replace(/-/g, "−");
  }
  const format = { maximumFractionDigits: digits, useGrouping: size >= 10000 };
  return value.toLocaleString("en", format).replace("-", "−");
}

/** A number for an axis: as many digits as tell its ticks apart. */
function tick(value) {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) {
    return Number(value.toPrecision(4)).toExponential().replace(/-/g, "−");
  }
  const format = { maximumFractionDigits: 6, useGrouping: size >= 10000 };
  return Number(value.toPrecision(6)).toLocaleString("en", format).replace("-", "−");
}

function percent(value) {
  if (value === null || value === undefined) return "none";
  return value !== 0 && Math.abs(value) < 0.0005 ? "< 0.1%" : `${number(100 * value, 1)}%`;
}

/** The seconds as a person would say them: 8.3 h, 2 min, 45 s. */
function duration(seconds) {
  if (seconds > 5400) return `${number(seconds / 3600, 1)} h`;
  return seconds > 90 ? `${number(seconds / 60, 0)} min` : `${number(seconds, 0)} s`;
}

/** Tell a screen reader what changed. */
function announce(text) {
  document.getElementById("said").textContent = text;
}

/** A labelled select. `options`: [value, text] pairs. */
function choice(label, options, chosen, onchange) {
  const items = options.map(([value, text]) => {
    const selected = String(value) === String(chosen);
    return html`<option value=${value} selected=${selected}>${text}</option>`;
  });
  const select = html`<select onchange=${() => onchange(select.value)}>${items}</select>`;
  return html`<label class="choice"><span>${label}</span>${select}</label>`;
}
