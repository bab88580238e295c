"use strict";
// The lab: where a critic comes in, and what the models take in memory: estimates of training/memory.py, which
// tests/bench/sizes.py writes.

// One training step: what is done, and which models work, of those that PPO has.
const TURNS = [
  ["questions are answered", ["policy"]],
  ["the answers are rewarded", ["reward model"]],
  ["how far from the reference?", ["reference"]],
  ["what was to be expected? PPO asks its critic; GRPO takes the mean of the group", ["critic"]],
  ["the policy learns", ["policy", "gradients", "optimizer"]],
  ["PPO's critic learns, as large and with an optimizer of its own; GRPO is done", ["critic", "gradients", "optimizer"]],
];

function memoryWidget(memory) {
  const asked = { size: "7B", reference: true, reward: true };
  const [place, said, turn] = [h("div", { class: "wide" }), h("p", { role: "status" }), sentence()];
  const teams = ["PPO", "GRPO"].map((method) => h("div", { class: "team", "data-method": method }));
  const turns = player("Stage", shown);
  const { pick, check } = playing(asked, redraw);
  const parts = Object.keys(memory["7B"].full.PPO);
  function redraw() {
    const ways = memory[asked.size];
    const held = Object.entries(ways).flatMap(([way, methods]) => Object.keys(methods).map((method) => ({ way, method, held: partsOf(methods[method], method, asked) })));
    for (const one of held) one.total = sum(Object.values(one.held));
    const most = Math.max(...held.map((one) => one.total));
    const lines = held.map((one) => h("tr", {}, h("th", { scope: "row" }, `${one.method}, ${one.way}`, memoryBar(parts, one.held, most)), h("td", {}, h("b", { "data-total": one.total }, fixed(one.total, 1))), parts.map((part) => h("td", {}, one.held[part] ? fixed(one.held[part], 1) : ""))));
    const head = ["GiB", "total", ...parts.map((part, i) => [h("span", { class: `chip c${i + 1}` }), part])];
    place.replaceChildren(h("table", { class: "memory" }, h("thead", {}, h("tr", {}, head.map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, lines)));
    const total = (way, method) => held.find((one) => one.way === way && one.method === method).total;
    const share = (way) => percent(total(way, "GRPO") / total(way, "PPO"));
    said.textContent = `GRPO is said to need about half of PPO's memory. Of ${asked.size} it holds ${share("full")} where all weights are trained, ${share("LoRA")} with LoRA and ${share("QLoRA")} with QLoRA.`;
    turns.to(TURNS.length, turns.at() || 1);
  }
  function shown(at) {
    const [words, working] = TURNS[at - 1] || ["A step of training begins.", []];
    const sizes = teams.map((team) => partsOf(memory[asked.size].full[team.dataset.method], team.dataset.method, asked));
    const most = sum(Object.values(sizes[0]));
    const done = (method) => method === "PPO" || at !== TURNS.length;
    teams.forEach((team, i) => {
      const boxes = parts.map((part, p) => {
        const gib = sizes[i][part];
        const works = working.includes(part) && gib > 0 && done(team.dataset.method);
        const box = h("span", { class: `model c${p + 1} ${works ? "works" : ""}`, "data-works": works ? part : null }, h("span", { class: `chip c${p + 1}` }), part, h("span", {}, gib ? fixed(gib, 1) : "none"));
        return box;
      });
      team.replaceChildren(h("b", {}, `${team.dataset.method}: ${fixed(sum(Object.values(sizes[i])), 1)} GiB`), memoryBar(parts, sizes[i], most), h("div", { class: "models-of" }, boxes));
    });
    const saved = sum(Object.values(sizes[0])) - sum(Object.values(sizes[1]));
    turn.textContent = at ? `${at}. ${words[0].toUpperCase()}${words.slice(1)}. Without a critic GRPO holds ${fixed(saved, 1)} GiB less of ${asked.size}, all weights trained.` : words;
  }
  redraw();
  return widget("memory", "Where a critic comes in, and what it takes", ["press Play: one step of training, stage by stage.", "both work alike but for two stages, the fourth and the sixth, where only PPO has something to do: its critic, with gradients and an optimizer as large as the policy's."], {
    words: "Critic: a model that says what reward is to be expected. Reference: the policy that training began with, kept to measure the distance from it. Optimizer: two moments for each weight.",
    learn: "PPO, DPO or GRPO?",
    controls: [
      h("div", { class: "choices" }, pick("size", "Model", Object.keys(memory).map((size) => [size, size]))),
      check("reference", "KL to a reference (β above 0)"),
      check("reward", "a learned reward model, of the same size, in bfloat16"),
    ],
    picture: [teams, turns.element, turn],
    below: [
      said,
      place,
      h("p", { class: "quiet" }, "Full: float32 weights and moments, as in qwen-math-full. LoRA: a bfloat16 base and a float32 adapter, whose reference is a second adapter, as in qwen-math-lora; PPO's critic has a base of its own. QLoRA: that base in four bits. Batches and sampling need more: ", h("code", {}, "make memory"), " estimates yours."),
    ],
  });
}

/** What a method holds, part by part, as one bar. */
function memoryBar(parts, held, most) {
  return h("div", { class: "parts", "aria-hidden": "true" }, parts.map((part, i) => {
    const one = h("span", { class: `c${i + 1}` });
    one.style.width = `${(100 * held[part]) / most}%`;
    return one;
  }));
}
