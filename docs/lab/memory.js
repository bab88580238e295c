"use strict";
// Where a critic comes in, and what the models take in memory: estimates of training/memory.py,
// which tests/bench/sizes.py writes into index.html.

/** GiB of each part that a method holds, without the models that nothing asks for. */
function partsOf(sizes, method, { reference, reward }) {
  const without = [];
  if (!reference && method !== "DPO") without.push("reference");
  if (!reward) without.push("reward model");
  const parts = Object.entries(sizes);
  return Object.fromEntries(parts.map(([name, gib]) => [name, without.includes(name) ? 0 : gib]));
}

{
  const part = partOf("memory");
  const MEMORY = JSON.parse(document.getElementById("memory").textContent);
  const PARTS = Object.keys(MEMORY["7B"].full.PPO);
  // One training step: what is done, and which models work, of those that PPO has.
  const STAGES = [
    ["Questions are answered", ["policy"]],
    ["The answers are rewarded", ["reward model"]],
    ["How far from the reference?", ["reference"]],
    ["What was to be expected? PPO asks its critic; GRPO takes the mean of the group", ["critic"]],
    ["The policy learns", ["policy", "gradients", "optimizer"]],
    [
      "PPO's critic learns, as large and with an optimizer of its own; GRPO is done",
      ["critic", "gradients", "optimizer"],
    ],
  ];
  const settings = settingsOf(part, redraw);
  const stages = player(part, showStage);
  const total = (parts) => sum(Object.values(parts));

  function redraw() {
    const rows = [];
    for (const [way, methods] of Object.entries(MEMORY[settings.size])) {
      for (const method of Object.keys(methods)) {
        const parts = partsOf(methods[method], method, settings);
        rows.push({ way, method, parts, total: total(parts) });
      }
    }
    const largest = Math.max(...rows.map((row) => row.total));
    const lines = rows.map(({ way, method, parts, total: gib }) => {
      const cells = PARTS.map((name) => html`<td>${parts[name] ? fixed(parts[name], 1) : ""}</td>`);
      return html`<tr>
        <th scope="row">${`${method}, ${way}`}${memoryBar(parts, largest)}</th>
        <td><b data-total=${gib}>${fixed(gib, 1)}</b></td>${cells}
      </tr>`;
    });
    const heads = PARTS.map(
      (name, i) => html`<th scope="col"><span class=${chip(i)}></span>${name}</th>`,
    );
    const table = html`<table class="memory">
      <thead><tr><th scope="col">GiB</th><th scope="col">total</th>${heads}</tr></thead>
      <tbody>${lines}</tbody>
    </table>`;
    part.querySelector(".wide").replaceChildren(table);
    const totalOf = (way, method) =>
      rows.find((row) => row.way === way && row.method === method).total;
    const share = (way) => percent(totalOf(way, "GRPO") / totalOf(way, "PPO"));
    part.querySelector(".half").textContent =
      `GRPO is said to need about half of PPO's memory. Of ${settings.size} it holds` +
      ` ${share("full")} where all weights are trained, ${share("LoRA")} with LoRA and` +
      ` ${share("QLoRA")} with QLoRA.`;
    stages.to(STAGES.length, stages.at() || 1);
  }

  function showStage(at) {
    const [words, working] = STAGES[at - 1] || ["A step of training begins.", []];
    const sizes = MEMORY[settings.size].full;
    const totals = {};
    for (const team of part.querySelectorAll(".team")) {
      const { method } = team.dataset;
      const parts = partsOf(sizes[method], method, settings);
      const isDone = method === "GRPO" && at === STAGES.length;
      totals[method] = total(parts);
      team.replaceChildren(
        html`<b>${method}: ${fixed(totals[method], 1)} GiB</b>`,
        memoryBar(parts, totals.PPO),
        html`<div class="models-of">${modelsOf(parts, isDone ? [] : working)}</div>`,
      );
    }
    const saved = fixed(totals.PPO - totals.GRPO, 1);
    const difference = `Without a critic GRPO holds ${saved} GiB less of ${settings.size}`;
    part.querySelector(".sums").textContent = at
      ? `${at}. ${words}. ${difference}, all weights trained.`
      : words;
  }

  const modelsOf = (parts, working) =>
    PARTS.map((name, i) => {
      const gib = parts[name];
      const works = working.includes(name) && gib > 0;
      return html`<span class=${works ? "model works" : "model"}>
        <span class=${chip(i)}></span>${name}<span>${gib ? fixed(gib, 1) : "none"}</span>
      </span>`;
    });

  /** What a method holds, part by part, as one bar. */
  function memoryBar(parts, largest) {
    const pieces = PARTS.map((name, i) => {
      const piece = html`<span class=${`c${i + 1}`}></span>`;
      piece.style.width = `${(100 * parts[name]) / largest}%`;
      return piece;
    });
    return html`<div class="parts" aria-hidden="true">${pieces}</div>`;
  }
  redraw();
}
