"use strict";
// What the parts of the course share: elements, numbers, bars, a player, and the widget that asks
// for a guess, plays, and shows it beside the truth. The words are in index.html.

const dataOf = (id) => JSON.parse(document.getElementById(id).textContent);
const SETTINGS = dataOf("settings");
const RUN = dataOf("run");
const IS_STILL = matchMedia("(prefers-reduced-motion: reduce)").matches;

/** An element with attributes (`on…`: listeners) and children: texts, elements, lists. */
function make(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity));
  return element;
}

/** A number to read: as many digits as asked for, or an exponent where that would show nothing. */
function number(value, digits = 3) {
  const size = Math.abs(value);
  if (size !== 0 && size < 0.5 * 10 ** -digits) return value.toExponential(2).replace(/-/g, "−");
  return value.toLocaleString("en", { maximumFractionDigits: digits }).replace("-", "−");
}

/** A number in a column, where all have the same digits. */
function fixed(value, digits = 3) {
  const isZero = Math.abs(value) < 0.5 * 10 ** -digits;
  return (isZero ? 0 : value).toFixed(digits).replace("-", "−");
}

function percent(share) {
  return share !== 0 && share < 0.0005 ? "< 0.1%" : `${number(100 * share, 1)}%`;
}

/**
 * A part of the course. `define(part, settings, again)` gets its element, what its named controls
 * are set to, and a function that draws anew; it returns draw(changed), which draws by the settings
 * and returns how many steps can be played; show(at), which draws step `at`, from 0, and returns it
 * in words; truth(), a number or the value of one of the guess's choices; and perhaps first, the
 * settings that the guess is about, because(), more of the explanation, and the milliseconds in
 * which all of it plays.
 */
function widget(name, define) {
  const part = document.getElementById(`part-${name}`);
  const settings = {};
  const controls = [...part.querySelectorAll("[name]")];
  const spec = define(part, settings, again);
  const played = part.querySelector(".player") && player(part, say, spec.milliseconds);
  function say(at) {
    part.querySelector(".sums").textContent = spec.show(at);
  }
  function again(changed) {
    for (const control of controls) settings[control.name] = valueOf(control);
    const steps = spec.draw(changed);
    if (played) played.to(steps, changed && played.at() === 0 ? steps : played.at());
    else say(0);
  }
  for (const control of controls) control.addEventListener("input", () => again(control.name));
  again();
  const first = { ...settings, ...spec.first };
  asking(part, spec, (finish) => {
    for (const control of controls) setControl(control, first[control.name]);
    again();
    const value = spec.truth();
    if (played) played.play(() => finish(value));
    else finish(value);
  });
}

/** What a control is set to; a slider's value is also written beside it. */
function valueOf(control) {
  if (control.type === "checkbox") return control.checked;
  if (control.type !== "range") return control.value;
  control.ariaLabel = control.parentElement.querySelector("span").textContent;
  control.nextElementSibling.textContent = number(Number(control.value));
  return Number(control.value);
}

function setControl(control, value) {
  control[control.type === "checkbox" ? "checked" : "value"] = value;
}

const guesses = new Map(); // by part: whether the guess was near the truth, or null if skipped

/**
 * The part's question, with a slider or choices. `begin(finish)` plays what it is about, and then
 * calls `finish` with the truth, which shows the guess beside it.
 */
function asking(part, { because }, begin) {
  const form = part.querySelector(".guess");
  const explained = part.querySelector(".truth");
  const slider = form.querySelector("input");
  const choices = slider ? [make("button", {}, "See")] : [...form.querySelectorAll("button")];
  const skip = make("button", { class: "skips" }, "Skip");
  const buttons = make("div", { class: "choices" }, choices, skip);
  const verdict = make("p", { class: "verdict", role: "status", tabindex: -1 });
  form.append(buttons);
  if (slider) {
    slider.ariaLabel = "Your guess";
    slider.oninput = () => (slider.nextElementSibling.textContent = slider.value);
    slider.oninput();
  }
  form.onsubmit = (event) => {
    event.preventDefault();
    for (const control of [...choices, skip, slider || skip]) control.disabled = true;
    begin((value) => {
      let [isNear, words] = [null, "Skipped."];
      if (event.submitter !== skip) {
        [isNear, words] = slider ? dragged(slider, value) : chosen(event.submitter, choices, value);
      }
      guesses.set(part.id, isNear);
      verdict.classList.add({ true: "won", false: "lost" }[isNear] || "quiet");
      filled(verdict, {}, [words]);
      buttons.replaceWith(verdict);
      if (because) explained.prepend(make("p", {}, because()));
      explained.hidden = false;
      explained.querySelector(".then").open = innerWidth > 544; // a phone's page is long enough
      verdict.focus({ preventScroll: true });
      tally();
    });
  };
}

/** Whether the choice is the true one, and both in words. */
function chosen(button, choices, value) {
  const guess = `You guessed “${button.textContent}”.`;
  if (button.value === value) return [true, `${guess} So it is.`];
  const truth = choices.find((choice) => choice.value === value).textContent;
  return [false, `${guess} It is “${truth}”.`];
}

/** Whether the guess is within a tenth of its slider, where it is then shown beside the truth. */
function dragged(slider, value) {
  const { unit = "" } = slider.dataset;
  const [low, high, guess] = [slider.min, slider.max, slider.value].map(Number);
  const isNear = Math.abs(guess - value) <= 0.1 * (high - low);
  const dot = (kind, style = "") => make("span", { class: kind, style });
  const placed = (at) => `left: ${(100 * (at - low)) / (high - low)}%`;
  const marks = [dot("of-truth", placed(value)), dot("of-guess", placed(guess))];
  slider.parentElement.replaceWith(make("div", { class: "both", "aria-hidden": true }, marks));
  const guessed = `You guessed ${number(guess)}${unit}, `;
  const truth = `it is ${number(value, unit ? 1 : 3)}${unit}: ${isNear ? "" : "not "}near.`;
  return [isNear, [dot("of-guess"), guessed, dot("of-truth"), truth]];
}

/**
 * Play, pause and a slider. `draw(at)` shows step `at`, from 0 to the last one, which `to` sets. It
 * all plays in so many milliseconds, however slow the machine is: steps are left out then. Whoever
 * wants less motion sees the last step at once.
 */
function player(part, draw, milliseconds = 6000) {
  const element = part.querySelector(".player");
  const { label } = element.dataset;
  let [at, last, timer, ended] = [0, 0, null, null];
  const pressed = { class: "plays", onclick: () => (timer ? pause() : begin()) };
  const play = make("button", pressed, "Play");
  const slider = make("input", { type: "range", min: 0, "aria-label": label });
  const place = make("span", { class: "number" });
  slider.oninput = () => {
    pause();
    show(Number(slider.value));
  };
  const named = { role: "group", "aria-label": `${label}, played` };
  filled(element, named, [play, slider, place]);
  function show(next) {
    at = Math.max(0, Math.min(last, next));
    slider.value = at;
    place.textContent = slider.ariaValueText = `${label} ${at} of ${last}`;
    draw(at);
  }
  function pause() {
    clearInterval(timer);
    timer = null;
    play.textContent = "Play";
    part.querySelector(".sums").ariaLive = "polite";
    const finish = ended;
    ended = null;
    if (finish) finish();
  }
  function begin(finish = null) {
    pause();
    ended = finish;
    if (finish || at === last) show(0);
    if (IS_STILL) show(last);
    play.textContent = "Pause";
    part.querySelector(".sums").ariaLive = "off"; // a screen reader hears where it ends alone
    const [first, start] = [at, performance.now()];
    timer = setInterval(() => {
      const share = (performance.now() - start) / milliseconds;
      const next = Math.min(last, first + Math.floor(share * last));
      if (next > at) show(next);
      if (at === last) pause();
    }, 30);
  }
  function to(steps, next) {
    if (next !== at) pause(); // what was played belongs to other settings
    last = steps;
    slider.max = steps;
    show(next);
  }
  return { to, at: () => at, play: begin };
}

/**
 * Bars in the part's columns, with labels. `show(shares, marks, chosen, words)`: how high each is,
 * from 0 to 1; a line across each at another height, or null; the one to look at; all in words.
 */
function columnBars(part, labels) {
  const columns = part.querySelector(".columns");
  return function show(shares, marks, chosen, words) {
    columns.ariaLabel = words;
    const bars = labels.map((label, i) => {
      const share = `${fixed(100 * shares[i], shares[i] < 0.095 ? 1 : 0)}%`;
      const bar = make("span", { class: "bar", style: `height: ${100 * shares[i]}%` });
      const height = `bottom: calc(${marks ? marks[i] : 0} * (100% - 2px))`;
      const mark = marks ? make("span", { class: "mark", style: height }) : [];
      return make("div", { class: i === chosen ? "column chosen" : "column" }, [
        make("span", { class: "number" }, share),
        make("div", { class: "shaft" }, bar, mark),
        make("span", { class: "name" }, label),
      ]);
    });
    columns.replaceChildren(...bars);
  };
}

/** Whether a value grows, falls or stays, as the choices of a guess name it. */
function trend(before, after) {
  if (Math.abs(after - before) < 0.05) return "stays";
  return after > before ? "grows" : "falls";
}

/** A table whose rows begin with their heading. */
function table(kind, heads, rows) {
  const headings = heads.map((head) => make("th", { scope: "col" }, head));
  const lines = rows.map(([head, ...values]) => {
    const cells = values.map((value) => make("td", {}, value));
    return make("tr", {}, make("th", { scope: "row" }, head), cells);
  });
  const head = make("thead", {}, make("tr", {}, headings));
  return make("table", { class: kind }, head, make("tbody", {}, lines));
}
