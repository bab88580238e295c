"use strict";
// One completion token by token: what the run did to each, and its loss worked out in numbers.

const SHADES = {
  push: ["advantage × ratio", (told, i) => told.advantages[i] * told.ratio[i], "green is pushed up, red down; an outline marks a token that the clip would stop"],
  moved: ["log ratio", (told, i) => told.new[i] - told.old[i], "green has become likelier since it was sampled, red less likely"],
  kl: ["KL to the reference", (told, i) => -told.kl[i], "the darker, the further from the reference"],
  entropy: ["entropy", (told, i) => -told.entropy[i], "the darker, the less certain the policy was here"],
};

async function tokensView(number_, run, chosen, went) {
  const there = await ask(`${number_}/explained`);
  const start = chosen || there[there.length - 1];
  if (!start) return notYet(run, null, number_);
  const listed = there.some((each) => each.step === start.step && each.row === start.row);
  const options = there.map((each) => [`${each.step}/${each.row}`, `step ${each.step}, completion ${each.row}`]);
  const place = h("div", {});
  const pick = (value) => {
    const [step, row] = value.split("/").map(Number);
    went(step, row);
    goTo(location.hash);
  };
  const head = options.length ? h("div", { class: "choices" }, choice("Worked out", listed ? options : [["", "not this one yet"], ...options], listed ? `${start.step}/${start.row}` : "", pick)) : null;
  if (listed) place.replaceChildren(tokenByToken(await ask(`${number_}/tokens/${start.step}/${start.row}`), run.settings));
  else {
    place.replaceChildren(notYet(run, start, number_));
    const look = async () => {
      if (!place.isConnected) return;
      if ((await ask(`${number_}/explained`)).some((each) => each.step === start.step && each.row === start.row)) goTo(location.hash);
      else setTimeout(look, 3000);
    };
    if (!ANSWERS) setTimeout(look, 3000); // it may be worked out meanwhile
  }
  return h("div", {}, head, place);
}

function notYet(run, start, number_) {
  const command = run.explain.replace("%step", start ? start.step : "…").replace("%row", start ? start.row : "…");
  const told = h("p", { role: "status" });
  async function work(button) {
    button.disabled = true;
    told.className = "quiet";
    told.textContent = "Loading the run's weights: some twenty seconds for a small model, minutes for a large one …";
    try {
      await fetched(`${number_}/explain/${start.step}/${start.row}`, "POST");
      if (told.isConnected) goTo(location.hash);
    } catch (error) {
      told.className = "error";
      told.replaceChildren(visible(error.message));
      button.disabled = false;
    }
  }
  return h(
    "section",
    {},
    h("p", {}, start ? `Completion ${start.row} of step ${start.step} has not been worked out. That loads the run's own weights${ANSWERS ? ", in a terminal:" : ":"}` : ["No completion has been worked out token by token. Choose one among the ", h("a", { href: `#groups/${number_}` }, "groups"), " (“its tokens”), or name it in a terminal:"]),
    start && !ANSWERS ? [h("p", {}, h("button", { onclick: (event) => work(event.currentTarget) }, "Work out its tokens")), told, h("p", {}, "Or in a terminal:")] : null,
    h("pre", { class: "said" }, visible(command)),
    h("button", { onclick: () => navigator.clipboard.writeText(command).then(() => announce("Copied."), () => announce("The browser did not allow it.")) }, "Copy"),
  );
}

function tokenByToken(told, settings) {
  let shade = "push";
  const detail = h("section", { class: "detail", "aria-live": "polite" });
  const words = h("p", { class: "quiet" });
  const buttons = told.tokens.map((text, i) => h("button", { class: "token", "aria-pressed": "false", "data-token": i, onclick: () => pick(i) }, visible(text.replace(/ /g, "·").replace(/\n/g, "↵")), text.includes("\n") ? h("br") : null));
  const box = h("div", { class: "tokens", role: "group", "aria-label": "Tokens of the completion", onkeydown: move });

  function move(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const next = step && buttons[buttons.indexOf(document.activeElement) + step];
    if (!next) return;
    event.preventDefault();
    next.focus();
    next.click();
  }
  function colour() {
    const values = told.tokens.map((_, i) => SHADES[shade][1](told, i));
    const most = values.reduce((a, b) => Math.max(a, Math.abs(b)), 1e-9);
    buttons.forEach((button, i) => {
      const strength = Math.round((60 * Math.abs(values[i])) / most);
      button.style.background = `color-mix(in srgb, var(${values[i] < 0 ? "--down" : "--up"}) ${strength}%, transparent)`;
      button.classList.toggle("stopped", shade === "push" && told.stopped[i] === 1);
    });
    words.textContent = SHADES[shade][2];
  }
  function pick(i) {
    buttons.forEach((button, j) => button.setAttribute("aria-pressed", String(i === j)));
    detail.replaceChildren(workedOut(told, settings, i));
  }
  box.append(...buttons);
  colour();
  pick(told.ratio.reduce((best, each, i) => (Math.abs(Math.log(each)) > Math.abs(Math.log(told.ratio[best])) ? i : best), 0));
  const used = told.policies;
  return h(
    "div",
    {},
    h("h2", { class: "asked" }, visible(told.question)),
    h("p", {}, `Advantage ${number(told.advantage)}${told.advantages.some((each) => Math.abs(each - told.advantage) > 1e-4) ? ", to which its steps add for each token" : ""}. Sampled by ${used.old}, or one after it; compared with ${used.new}. The reference is ${used.reference}.`),
    h("p", {}, "This compares an older checkpoint with the newest. It is not what training clipped, whose policies lay closer together."),
    told.notes.map((note) => h("p", { class: "quiet" }, `Note: ${note}.`)),
    h("div", { class: "choices" }, choice("Colour by", Object.entries(SHADES).map(([key, [text]]) => [key, text]), shade, (value) => ((shade = value), colour()))),
    words,
    h("div", { class: "two" }, box, detail),
  );
}

/** The loss of one token, as an equation with its numbers. */
function workedOut(told, settings, i) {
  const s = told.settings;
  const n = (value) => number(value, 4);
  const sequence = s.importance_sampling_level === "sequence";
  const lines = [
    ["probability when sampled", `${n(Math.exp(told.old[i]))} (log ${n(told.old[i])})`],
    ["probability now", `${n(Math.exp(told.new[i]))} (log ${n(told.new[i])})`],
    [sequence ? "ratio, of the whole completion" : "ratio", `exp(${n(told.new[i])} − ${n(told.old[i])})${sequence ? ", averaged over its tokens," : ""} = ${n(told.ratio[i])}`],
  ];
  const cispo = s.loss_type === "cispo";
  if (cispo) lines.push(["bounded ratio × advantage × log-probability", `min(${n(told.ratio[i])}, ${n(s.epsilon_high)}) × ${n(told.advantages[i])} × ${n(told.new[i])} = ${n(told.clipped[i])}`]);
  else {
    lines.push(["unclipped", `${n(told.ratio[i])} × ${n(told.advantages[i])} = ${n(told.unclipped[i])}`]);
    lines.push(["clipped", `clip(${n(told.ratio[i])}, ${n(1 - s.epsilon)}, ${n(1 + s.epsilon_high)}) × ${n(told.advantages[i])} = ${n(told.clipped[i])}`]);
    lines.push(["the smaller of both", `${n(Math.min(told.unclipped[i], told.clipped[i]))}${told.stopped[i] ? `, where the clip would leave ${s.beta ? "only the KL's" : "no"} gradient` : ""}`]);
  }
  lines.push(["KL to the reference", `exp(${n(told.reference[i])} − ${n(told.new[i])}) − (${n(told.reference[i])} − ${n(told.new[i])}) − 1${s.use_bias_correction_kl ? ", × ratio," : ""} = ${n(told.kl[i])}`]);
  lines.push(["loss", `−(${n(cispo ? told.clipped[i] : Math.min(told.unclipped[i], told.clipped[i]))}) + ${n(s.beta)} × ${n(told.kl[i])} = ${n(told.loss[i])}`]);
  if (told.weight) lines.push(["in the loss of the batch", `${n(told.loss[i])} × ${number(told.weight, 6)} (${s.loss_type}) = ${number(told.loss[i] * told.weight, 6)}`]);
  if (told.entropy) lines.push(["entropy here", `${n(told.entropy[i])} nats`]);
  return h(
    "div",
    { class: "tile" },
    h("h3", {}, "Token ", told.tokens.length > 1 ? `${i + 1} ` : "", "“", visible(told.tokens[i].replace(/\n/g, "↵")), "”"),
    h("dl", { class: "sum", "data-loss": told.loss[i] }, lines.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
  );
}
