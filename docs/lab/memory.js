"use strict";
// Where a critic comes in, and what it takes: tests/bench/sizes.py writes it into index.html.

widget("memory", (part, settings) => {
  const MEMORY = dataOf("memory");
  const PARTS = Object.keys(MEMORY["7B"].full.PPO);
  const STAGES = SETTINGS.stages; // of a training step: what is done, and which models work

  /** GiB of each part that a method holds, without the models that nothing asks for. */
  function partsOf(way, method) {
    const parts = { ...MEMORY[settings.size][way][method] };
    if (!settings.reference && method !== "DPO") parts.reference = 0;
    if (!settings.reward) parts["reward model"] = 0;
    return parts;
  }
  const totalOf = (way, method) => sum(Object.values(partsOf(way, method)));

  function draw() {
    const ways = Object.keys(MEMORY[settings.size]);
    const cell = (gib) => make("b", { "data-total": gib }, fixed(gib, 1));
    const totals = (method) => [method, ...ways.map((way) => cell(totalOf(way, method)))];
    const rows = ["PPO", "GRPO", "DPO"].map(totals);
    const shares = ways.map((way) => percent(totalOf(way, "GRPO") / totalOf(way, "PPO")));
    rows.push(["GRPO's share of PPO's", ...shares]);
    part.querySelector(".wide").replaceChildren(table("memory", ["GiB", ...ways], rows));
    return STAGES.length - 1;
  }

  function show(at) {
    const [words, working] = STAGES[at];
    for (const team of part.querySelectorAll(".team")) {
      const { method } = team.dataset;
      const isOver = method === "GRPO" && at === STAGES.length - 1;
      const parts = partsOf("full", method);
      const models = PARTS.map((name, i) => {
        const works = working.includes(name) && parts[name] > 0 && !isOver;
        const label = `${name} ${parts[name] ? fixed(parts[name], 1) : "none"}`;
        return make("span", { class: works ? "model works" : "model" }, chip(i), label);
      });
      const pieces = PARTS.map((name, i) => {
        const width = `width: ${(100 * parts[name]) / totalOf("full", "PPO")}%`;
        return make("span", { class: `c${i + 1}`, style: width });
      });
      team.replaceChildren(
        make("b", {}, `${method}: ${fixed(totalOf("full", method), 1)} GiB`),
        make("div", { class: "parts", "aria-hidden": true }, pieces),
        make("div", { class: "models-of" }, models),
      );
    }
    const saved = fixed(totalOf("full", "PPO") - totalOf("full", "GRPO"), 1);
    return `${at}. ${words}. Without a critic GRPO holds ${saved} GiB less of ${settings.size}.`;
  }
  return { draw, show, truth: () => totalOf("full", "GRPO") };
});
