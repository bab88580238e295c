"use strict";
// What the parts of the lab share: markup, numbers, controls, a player that goes through steps, and
// bars. The page's words and controls are in index.html.

const SETTINGS = JSON.parse(document.getElementById("settings").textContent);

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

/** A number to read: as many digits as asked for, or an exponent where that would show nothing. */
function number(value, digits = 3) {
  const size = Math.abs(value);
  if (size !== 0 && size < 0.5 * 10 ** -digits) return value.toExponential(2).replace(/-/g, "−");
  const format = { maximumFractionDigits: digits, useGrouping: size >= 10000 };
  return value.toLocaleString("en", format).replace("-", "−");
}

/** A number in a column, where all have the same digits. */
function fixed(value, digits = 3) {
  const isZero = Math.abs(value) < 0.5 * 10 ** -digits;
  return (isZero ? 0 : value).toFixed(digits).replace("-", "−");
}

function percent(share) {
  return share !== 0 && share < 0.0005 ? "< 0.1%" : `${number(100 * share, 1)}%`;
}

/** The part of the page with this name, and the elements in it by their selectors. */
function partOf(name) {
  const part = document.getElementById(`part-${name}`);
  const heading = part.querySelector("h2");
  heading.id = `title-${name}`;
  part.setAttribute("aria-labelledby", heading.id);
  const link = html`<li><a href=${`#${part.id}`}>${heading.textContent}</a></li>`;
  document.getElementById("parts").append(link);
  return part;
}

/** What the named controls of a part are set to, by name; `redraw` is called after each change. */
function settingsOf(part, redraw) {
  const settings = {};
  for (const control of part.querySelectorAll("[name]")) {
    const store = () => {
      settings[control.name] = valueOf(control);
      showValue(control);
    };
    if (control.type === "range") {
      control.setAttribute("aria-label", control.parentElement.querySelector("span").textContent);
    }
    control.addEventListener("input", () => {
      store();
      redraw(control.name);
    });
    store();
  }
  return settings;
}

function valueOf(control) {
  if (control.type === "checkbox") return control.checked;
  return control.type === "range" ? Number(control.value) : control.value;
}

/** Write the value of a slider beside it. */
function showValue(control) {
  if (control.type === "range")
    control.nextElementSibling.textContent = number(Number(control.value));
}

/** Set a control of a part, without a redraw. */
function setControl(part, name, value) {
  const control = part.querySelector(`[name="${name}"]`);
  control.value = value;
  showValue(control);
}

/**
 * Play, pause, one step back or on, and a slider, in the part's player. `draw(at)` shows step `at`,
 * from 0 to the last one, which `to` sets. All of it plays in so many milliseconds, however many
 * steps there are and however slow the machine is: steps are left out then.
 */
function player(part, draw, milliseconds = 8000) {
  const element = part.querySelector(".player");
  const { label } = element.dataset;
  let at = 0;
  let last = 0;
  let timer = null;
  element.setAttribute("role", "group");
  element.setAttribute("aria-label", `${label}, played`);
  element.append(html`
    <button class="plays" onclick=${() => (timer === null ? begin() : pause())}>Play</button>
    <button onclick=${() => move(-1)}>Back</button>
    <button onclick=${() => move(1)}>Step</button>
    <input type="range" min="0" value="0" aria-label=${label}
      oninput=${() => move(slider.value - at)}>
    <span class="number"></span>`);
  const [play, slider, place] = [".plays", "input", ".number"].map((name) =>
    element.querySelector(name),
  );
  function show(next) {
    at = Math.max(0, Math.min(last, next));
    slider.value = at;
    place.textContent = `${label} ${at} of ${last}`;
    slider.setAttribute("aria-valuetext", place.textContent);
    draw(at);
  }
  function move(by) {
    pause();
    show(at + by);
  }
  /** A screen reader hears where playing ends, and not each step of it. */
  function announce(politeness) {
    const sentences = element.parentElement.querySelectorAll("[role=status]");
    for (const sentence of sentences) sentence.setAttribute("aria-live", politeness);
  }
  function pause() {
    if (timer === null) return;
    clearInterval(timer);
    timer = null;
    play.textContent = "Play";
    announce("polite");
    draw(at);
  }
  function begin() {
    if (at === last) show(0);
    play.textContent = "Pause";
    announce("off");
    const first = at;
    const start = performance.now();
    timer = setInterval(() => {
      const passed = performance.now() - start;
      const next = Math.min(last, first + Math.floor((passed * last) / milliseconds));
      if (next > at) show(next);
      if (at === last) pause();
    }, 30);
  }
  function to(steps, next = at) {
    if (next !== at) pause(); // what was played belongs to other settings
    last = steps;
    slider.max = steps;
    show(next);
  }
  return { show, to, at: () => at };
}

/**
 * Bars side by side in the part's columns, with a label under each. `show(shares, marks, chosen,
 * words)`: how high each stands, from 0 to 1; a line across each at another height, or null; the
 * one to look at; and all of it in words.
 */
function columnBars(part, labels) {
  const columns = part.querySelector(".columns");
  for (const label of labels) {
    columns.append(html`<div class="column">
      <span class="number"></span>
      <div class="shaft"><span class="bar"></span><span class="mark"></span></div>
      <span class="name">${label}</span>
    </div>`);
  }
  return function show(shares, marks, chosen, words) {
    [...columns.children].forEach((column, i) => {
      const mark = column.querySelector(".mark");
      const share = fixed(100 * shares[i], shares[i] < 0.095 ? 1 : 0);
      column.querySelector(".bar").style.height = `${100 * shares[i]}%`;
      column.querySelector(".number").textContent = `${share}%`;
      column.classList.toggle("chosen", i === chosen);
      mark.hidden = marks === null;
      if (marks) mark.style.bottom = `calc(${marks[i]} * (100% - 2px))`;
    });
    columns.setAttribute("aria-label", words);
  };
}

/** A bar that fills this share of its place, in one of the page's colours. */
function meter(share, colour) {
  const bar = html`<span class="meter" aria-hidden="true"><span class=${colour}></span></span>`;
  bar.firstChild.style.width = `${100 * Math.min(1, Math.max(0, share))}%`;
  return bar;
}

/**
 * How strongly a token is pushed, as the colour behind it: `share` of the strongest, from −1 to 1.
 */
function tint(share, strength) {
  const amount = Math.round(strength * Math.abs(share));
  return `color-mix(in srgb, var(${share < 0 ? "--down" : "--up"}) ${amount}%, transparent)`;
}
