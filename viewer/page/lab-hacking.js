"use strict";
// The lab: a reward that is hacked. Two ways to answer, what each reward pays them, and which one the policy learns.

const WAYS = [
  { name: "works it out", text: "17 × 24 = 340 + 68 = 408. Answer: 408" },
  { name: "lists numbers", text: "It may be 1, 2, 3, 4, … 406, 407, 408, 409 … 1000." },
];
// What each reward pays each of the two ways, for a wrong and for a right answer.
const PAYMENTS = {
  anywhere: ["The right number stands somewhere", [[0, 1], [1, 1]]],
  verified: ["The final answer is right", [[0, 1], [0, 0]]],
  short: ["At most 20 words", [[1, 1], [0, 0]]],
};

function hackingWidget() {
  const asked = { anywhere: true, verified: false, short: false, able: 0.5, start: 0.1, seed: 1 };
  const figure = chart("Reward and right answers", "of the policy, over the steps of its training");
  const [said, table] = [sentence(), h("div", { class: "wide" })];
  const steps = player("Step", shown, 6000);
  const { slide, check } = playing(asked, redraw);
  const names = Object.keys(PAYMENTS);
  let learned = null;
  function redraw() {
    const paying = names.filter((name) => asked[name]);
    const able = [asked.able, 0];
    const pays = WAYS.map((_, way) => [0, 1].map((right) => sum(paying.map((name) => PAYMENTS[name][1][way][right]))));
    learned = strategiesLearned({ pays, able, start: asked.start, size: 8, rate: 0.5, steps: 80, seed: asked.seed });
    const most = Math.max(1, paying.length);
    const series = [
      { label: `reward, of ${most}`, values: learned.paid.map((paid) => paid / most), colour: 0, width: 2.5 },
      { label: "right answers", values: learned.right, colour: 2, width: 2.5 },
      { label: "chance of listing", values: learned.chances.map((chances) => chances[1]), colour: 1, dash: [6, 4] },
    ];
    const expected = (payment, way) => (1 - able[way]) * payment[way][0] + able[way] * payment[way][1];
    const row = (label, values, on) => h("tr", { class: on ? null : "left-out" }, h("th", { scope: "row" }, label), values.map((value) => h("td", {}, fixed(value, 2))));
    const rows = names.map((name) => row(PAYMENTS[name][0], WAYS.map((_, way) => expected(PAYMENTS[name][1], way)), asked[name]));
    const totals = WAYS.map((_, way) => expected(pays, way));
    rows.push(h("tr", {}, h("th", { scope: "row" }, h("b", {}, "paid in all")), totals.map((value, way) => h("td", { "data-paid": value }, h("b", {}, fixed(value, 2))))));
    table.replaceChildren(h("table", { class: "pays" }, h("caption", {}, "What each way earns on average"), h("thead", {}, h("tr", {}, ["", ...WAYS.map((way) => way.name)].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, rows)));
    figure.show({ x: learned.paid.map((_, step) => step), series, legend: series, range: [0, 1.05], said: `At the end: reward ${fixed(learned.paid[80], 2)}, right ${percent(learned.right[80])}` });
    steps.to(80, steps.at() || 80);
  }
  function shown(at) {
    if (!learned) return;
    figure.reveal(at);
    said.textContent = `Step ${at}: the reward went from ${fixed(learned.paid[0], 2)} to ${fixed(learned.paid[at], 2)}, right answers from ${percent(learned.right[0])} to ${percent(learned.right[at])}. It lists numbers in ${percent(learned.chances[at][1])} of its answers.`;
  }
  redraw();
  return widget("hacking", "A reward that is hacked", ["press Play.", "the reward rises while right answers vanish: the policy has found that a list holds every number.", "tick “The final answer is right”, take the tick from “The right number stands somewhere”, and press Play.", "lists vanish, and the reward is now the share of right answers: one line lies on the other. Both end near 50%, since working it out is right half of the time, which this small policy cannot better."], {
    words: "With both ticked a list still earns 1, as much as working it out does on average: a reward that can be fooled has to go, or to be outweighed, as all three do.",
    learn: "When should I not use it?",
    controls: [
      h("p", { class: "asked" }, h("b", {}, "What is 17 × 24?")),
      h("dl", { class: "ways" }, WAYS.map(({ name, text }) => [h("dt", {}, `It ${name}:`), h("dd", {}, text)])),
      h("fieldset", {}, h("legend", {}, "It is paid for"), names.map((name) => check(name, PAYMENTS[name][0]))),
      table,
      moreSettings(slide("able", "right, where it works it out", 0.05, 0.95, 0.05), slide("start", "chance of listing at the start", 0.05, 0.9, 0.05), slide("seed", "seed", 0, 50, 1)),
    ],
    picture: [figure.figure, steps.element, said],
  });
}
