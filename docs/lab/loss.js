"use strict";
// What a token weighs in the loss of its batch, by the type of the loss.

{
  const part = partOf("loss");
  const TOKENS = ["<think>", "7", "−", "4", "=", "2", "</think>", "2"];
  const chances = {
    old: [0.9, 0.6, 0.8, 0.7, 0.9, 0.3, 0.8, 0.7],
    now: [0.92, 0.6, 0.82, 0.68, 0.9, 0.21, 0.9, 0.45],
    reference: [0.8, 0.5, 0.8, 0.7, 0.9, 0.4, 0.7, 0.7],
  };
  const OTHER_ANSWERS = 7;
  const WIDEST = 1 / 32; // the weight that fills its bar
  let chosen = 5;
  const figure = chart(part.querySelector(".chart"));
  const settings = settingsOf(part, (name) => {
    if (name in chances) chances[name][chosen] = settings[name];
    redraw();
  });
  const buttons = TOKENS.map(
    (text, i) => html`<button class="token" onclick=${() => choose(i)}>${text}</button>`,
  );
  part.querySelector(".tokens").append(...buttons);

  function choose(place) {
    chosen = place;
    for (const [name, values] of Object.entries(chances)) setControl(part, name, values[place]);
    redraw();
  }

  function redraw() {
    const { others, advantage } = settings;
    const batch = { completions: 8, tokens: TOKENS.length + OTHER_ANSWERS * others };
    const options = lossOf(settings);
    const loss = lossByToken({ ...chances, advantage, settings: options, batch });
    const largest = Math.max(...loss.loss.map(Math.abs), 1e-9);
    buttons.forEach((button, i) => {
      button.setAttribute("aria-pressed", i === chosen);
      button.classList.toggle("stopped", loss.stopped[i]);
      button.style.background = tint(-loss.loss[i] / largest, 50);
    });
    const ofOther = weightOfToken(others, batch, options);
    part
      .querySelector(".weights")
      .replaceChildren(bar("this answer", loss.weight, "c1"), bar("another answer", ofOther, "c3"));
    const parts = loss.loss.map((ofToken) => ofToken * loss.weight);
    const sentence = part.querySelector(".sums");
    sentence.textContent =
      `Each of its ${TOKENS.length} tokens weighs ${fixed(loss.weight, 5)}, each of another` +
      ` answer's ${others} tokens ${fixed(ofOther, 5)}. The answer adds` +
      ` ${number(sum(loss.loss), 4)} × ${fixed(loss.weight, 5)} = ${number(sum(parts), 5)} to` +
      " the loss of its batch.";
    part.querySelector(".detail").replaceChildren(lossInNumbers(loss, TOKENS, chosen));
    figure.show({
      x: TOKENS.map((_, i) => i),
      labels: TOKENS,
      series: [{ values: parts, colour: 0, bars: true }],
      domain: [-0.6, TOKENS.length - 0.4],
      range: [Math.min(0, 1.1 * Math.min(...parts)), Math.max(0.02, 1.1 * Math.max(...parts))],
      words: sentence.textContent,
    });
  }

  const bar = (whose, weight, colour) => html`<div class="line">
    <span>Token of ${whose}</span>${meter(weight / WIDEST, colour)}
    <span class="number">${fixed(weight, 5)}</span>
  </div>`;
  redraw();
}
