"use strict";
// One group: its completions, with rewards that can be moved.

/** One group, with rewards that can be moved. */
function groupDetail(run, group) {
  const { settings } = run;
  const logged = group.rows.map((row) => row.total);
  const totals = [...logged];
  const isMovable =
    settings.multi_objective_aggregation !== "normalize_then_sum" && !totals.includes(null);
  let isFolded = true;
  const head = html`<p class="sums" role="status"></p>`;
  const cards = group.rows.map((_, place) =>
    completionCard(run, group, place, limitsOf(run, totals), move),
  );
  for (const card of cards) card.slider.disabled = !isMovable;
  const copies = copiesOf(group.rows);
  const buttons = copies.map((places) => {
    const names = places.map((place) => `#${place + 1}`).join(", ");
    const button = html`<button class="times" title=${`show each: ${names}`}
      onclick=${unfold}>×${places.length}</button>`;
    cards[places[0]].element.querySelector("header b").after(button);
    return button;
  });

  function unfold() {
    isFolded = false;
    refresh();
  }
  function move(card, value) {
    totals[cards.indexOf(card)] = value;
    unfold();
  }
  function refresh() {
    for (const button of buttons) button.hidden = !isFolded;
    for (const places of copies) {
      for (const i of places.slice(1)) cards[i].element.hidden = isFolded;
    }
    const result = advantages(totals, group.others, settings);
    const largest = Math.max(1, ...result.advantages.map((gain) => Math.abs(gain || 0)));
    cards.forEach((card, i) => {
      const row = group.rows[i];
      card.show(totals[i], isMovable ? result.advantages[i] : row.advantage, largest);
      card.element.classList.toggle("left-out", !fitsRow(row, group.question));
    });
    head.replaceChildren(...sumsOf(result));
  }
  function sumsOf({ mean, std, divisor }) {
    const isMoved = totals.some((total, i) => total !== logged[i]);
    const divisors = {
      group: `(${number(std)} + 0.0001)`,
      batch: `(${number(divisor - SMALLEST_STD)} of the batch + 0.0001)`,
      none: "1, not scaled",
    };
    const equation = isMovable
      ? `; advantage = (reward − mean) / ${divisors[scaling(settings)]}`
      : "; each reward is normalised before they are summed, so these are the advantages that the" +
        " run logged";
    return [
      html`<span>mean <output data-mean=${mean}>${number(mean)}</output></span>`,
      html`<span>, std <output data-std=${std}>${number(std)}</output></span>`,
      `${equation} `,
      // Always there: a line more would push the slider away from under the mouse.
      html`<button disabled=${!isMoved} onclick=${reset}>As it was</button>`,
    ];
  }
  function reset() {
    logged.forEach((total, i) => (totals[i] = total));
    refresh();
  }
  refresh();
  const system = html`<details><summary>System prompt</summary>
    <pre class="said">${visible(group.system)}</pre></details>`;
  const isHeldOut = group.group < 0;
  return html`<div>
    <p class="quiet where">${placeOf(group)}
      ${isHeldOut ? ": sampled as in training, and not trained on" : null}</p>
    <h2 class="asked">${visible(group.question)}</h2>
    <p>correct answer: <b>${visible(group.gold)}</b></p>
    ${head}
    <div class="completions">${cards.map((card) => card.element)}</div>
    ${group.system ? system : null}
  </div>`;
}

/** The places of equal completions, which are shown once until someone moves one of them. */
function copiesOf(rows) {
  const places = new Map();
  rows.forEach((row, i) => {
    const key = JSON.stringify([row.text, row.length, row.total, row.advantage, row.truncated]);
    places.set(key, [...(places.get(key) || []), i]);
  });
  return [...places.values()].filter((copies) => copies.length > 1);
}

/** [lowest, highest] reward that a slider can set. */
function limitsOf(run, totals) {
  const logged = totals.filter((total) => total !== null);
  const weights = Object.values(run.rewards).map((weight) => Math.max(0, weight));
  const highest = weights.reduce((a, b) => a + b, 0);
  return [Math.min(0, ...logged), Math.max(highest, ...logged)];
}

/**
 * A completion with what it earned. `show(reward, advantage, largest)`: its reward and advantage;
 * `largest` is the advantage that fills a bar. `move(card, reward)` learns what its slider is set
 * to.
 */
function completionCard(run, group, place, [lowest, highest], move) {
  const row = group.rows[place];
  const ordinal = place + 1; // in the group
  const rewards = Object.entries(row.rewards).map(([name, reward]) => `${name} ${number(reward)}`);
  const batch = { completions: group.batch_completions, tokens: group.batch_tokens };
  const weight = group.group < 0 ? null : weightOfToken(row.tokens, batch, run.settings);
  const facts = [`${row.tokens} tokens`];
  if (row.truncated) facts.push("truncated");
  if (weight !== null) facts.push(`each token weighs ${number(100 * weight)}% of the batch's loss`);
  const cut = `the first ${number(row.text.length)} of ${number(row.length)} characters`;
  const steps = row.steps ? stepsOf(row.steps, place) : null;
  const slider = html`<input type="range" min=${lowest} max=${highest} step="0.01"
    value=${row.total ?? 0} aria-label=${`Reward of completion ${ordinal}`}
    oninput=${() => move(card, Number(slider.value))}>`;
  const earned = html`<output class="number" data-reward=${place}></output>`;
  const gain = html`<output class="number" data-advantage=${place}></output>`;
  const bar = html`<span></span>`;
  const element = html`<article class="completion" aria-label=${`Completion ${ordinal}`}>
    <header><b>#${ordinal}</b><span class="quiet">${rewards.join(", ")}</span>
      ${row.flags.map((flag) => html`<span class="flag">${flag}</span>`)}</header>
    <label class="line"><span>reward</span>${slider}${earned}</label>
    <div class="line"><span>${steps ? "advantage without its steps" : "advantage"}</span>
      <span class="advantage" aria-hidden="true">${bar}</span>${gain}</div>
    ${steps ? steps.element : null}
    ${textOf(row.text)}
    ${row.length > row.text.length ? html`<p class="quiet">${cut}</p>` : null}
    <p class="quiet">${facts.join(", ")}</p>
  </article>`;
  function show(reward, advantage, largest) {
    earned.textContent = number(reward);
    slider.value = reward ?? 0;
    gain.textContent = number(advantage);
    gain.dataset.value = advantage;
    bar.className = advantage < 0 ? "down" : "up";
    bar.style.width = `${(50 * Math.abs(advantage || 0)) / largest}%`;
    if (steps) steps.show(advantage);
  }
  const card = { element, slider, show };
  return card;
}

/** The table of a completion's steps; `show` fills in its last column for an advantage. */
function stepsOf(steps, place) {
  const cells = steps.map((_, k) => html`<td data-step=${`${place}/${k}`}></td>`);
  const rows = steps.map(({ end, reward, share }, k) => {
    const first = (k ? steps[k - 1].end : 0) + 1;
    const tokens = first < end ? `${first}–${end}` : String(end);
    return html`<tr><th>${tokens}</th>
      <td>${number(reward)}</td><td>${number(share)}</td>${cells[k]}</tr>`;
  });
  const title =
    "A token's advantage is the completion's and the shares of its own step and of those after it.";
  const element = html`<div class="wide" title=${title}><table>
    <tr><th>tokens</th><th>reward of the step</th><th>its share</th><th>their advantage</th></tr>
    ${rows}
  </table></div>`;
  function show(advantage) {
    let value = advantage;
    for (let k = cells.length - 1; k >= 0; k--) {
      if (advantage !== null) value += steps[k].share;
      cells[k].textContent = number(value);
      cells[k].dataset.value = value;
    }
  }
  return { element, show };
}
