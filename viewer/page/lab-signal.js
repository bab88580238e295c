"use strict";
// The lab: which groups teach. Variety of answers makes a signal, and the difficulty of the question.

const POLICY = { answers: ["418", "408", "398", "428", "308", "480", "41", "344", "100", "136"], logits: [2, 1, 0.3, 0.2, 0, -0.3, -0.5, -0.8, -1, -1.2] };
const GROUPS = 100;

function signalWidget() {
  const asked = { temperature: 1, size: 8, answer: "1", seed: 0 };
  const bars = columnBars(POLICY.answers);
  const figure = chart("Groups that teach", "share of groups neither all right nor all wrong, by the chance p that an answer is right");
  const [said, group] = [sentence(), h("p", { class: "drawn" })];
  const playedGroups = player("Group", drawGroup);
  const { slide, pick } = playing(asked, redraw);
  let [groups, right] = [[], 1];

  function redraw() {
    right = Number(asked.answer);
    const log = logPolicy(POLICY.logits, asked.temperature);
    const chances = log.map(Math.exp);
    const entropy = -sum(chances.map((chance, i) => chance * log[i]));
    groups = groupsDrawn(chances, asked.size, GROUPS, asked.seed);
    bars.show(chances, null, [right], `Chances of the answers: ${POLICY.answers.map((answer, i) => `${answer} ${percent(chances[i])}`).join(", ")}`);
    const [p, share] = [chances[right], teaching(chances[right], asked.size)];
    const x = [...Array.from({ length: 101 }, (_, i) => i / 100), p].sort((a, b) => a - b);
    const line = (size, colour, label, dash) => ({ label, values: x.map((at) => teaching(at, size)), colour, dash, width: dash ? 1.5 : 3 });
    const dot = { label: "this question", values: x.map((at) => (at === p ? share : null)), colour: 1, point: true };
    const series = [line(asked.size, 0, `G = ${asked.size}`), line(2, 2, "G = 2", [5, 4]), line(64, 3, "G = 64", [2, 3]), dot];
    said.textContent = `At temperature ${number(asked.temperature)} the answer ${POLICY.answers[right]} has a chance of ${percent(p)} and the entropy is ${fixed(entropy, 2)} nats: ${percent(share)} of the groups teach. That is ${number((100 * share) / asked.size, 1)} groups for every 100 answers drawn.`;
    figure.show({ x, series, legend: series, range: [0, 1.05], said: said.textContent });
    playedGroups.to(GROUPS, playedGroups.at() || 1);
  }
  function drawGroup(at) {
    const seen = groups.slice(0, at);
    const last = seen[seen.length - 1] || [];
    const mixed = (one) => one.includes(right) && one.some((answer) => answer !== right);
    const counts = POLICY.answers.map((answer, i) => [answer, last.filter((drawn) => drawn === i).length, i === right]).filter(([, count]) => count);
    const taught = seen.filter(mixed).length;
    const chips = counts.sort((a, b) => b[1] - a[1]).map(([answer, count, is]) => h("span", { class: is ? "chance right" : "chance" }, `${answer} × ${count}`));
    const verdict = !at ? "No group is drawn yet." : mixed(last) ? "It teaches." : last.includes(right) ? "All right: it teaches nothing." : "None right: it teaches nothing.";
    group.replaceChildren(...chips, h("b", {}, verdict), at > 1 ? ` Of ${at} groups ${taught} taught, ${percent(taught / at)}.` : "");
    group.dataset.taught = taught;
  }
  redraw();
  const rare = (size) => teaching(0.01, size);
  const right_ = [["1", "408, the second likeliest"], ["0", "418, the likeliest"], ["9", "136, a rare one"]];
  return widget("signal", "Variety, difficulty and signal", ["drag the temperature to 0.2, then back to 1.", "cold, the model says 418 again and again, the right 408 has a chance of 0.7%, and 5.2% of the groups teach; at 1 it is 77.1%. The dot climbs the curve.", "let 418, the likeliest, be the right answer, and drag the temperature to 0.2 and to 3.", "cold it is nearly always right, which teaches as little: 5.5%. Hot, right answers grow rarer, 18.7%, and 80.9% of the groups teach, where at 1 it was 99.1%."], {
    words: "A group teaches where its answers do not all earn the same. Entropy: how evenly the chances are spread, in nats, the unit of the natural logarithm: 0 where one answer is certain, ln 10 = 2.30 where ten are equally likely.",
    learn: "What does the group do to the gradient?",
    controls: [
      slide("temperature", "temperature", 0.2, 3, 0.1),
      slide("size", "G, answers in a group", 2, 64, 1),
      h("div", { class: "choices" }, pick("answer", "The right answer", right_)),
      moreSettings(slide("seed", "seed of the groups", 0, 50, 1)),
    ],
    picture: [bars.element, figure.figure, said, group, playedGroups.element],
    below: [h("p", { class: "quiet" }, `The curve is 1 − pᴳ − (1 − p)ᴳ. A larger group teaches more often, but costs more answers: at p = 1%, G = 64 teaches in ${percent(rare(64))} of the groups and G = 8 in ${percent(rare(8))}, yet of 100 answers drawn that is ${fixed((100 / 64) * rare(64), 2)} groups that teach against ${fixed((100 / 8) * rare(8), 2)}.`)],
  });
}

// Advantages over many batches.
function batchesWidget() {
  const asked = { method: "group", size: 8, questions: 8, low: 0.05, high: 0.95, batches: 100, seed: 0 };
  const figure = chart("Advantages", "of all answers of 100 batches; at the ends also what lies beyond");
  const said = sentence();
  const { slide, pick } = playing(asked, redraw);
  const edges = Array.from({ length: 34 }, (_, i) => -4.125 + i / 4);
  function redraw() {
    const { values, silent, groups } = advantagesOfBatches(asked);
    const shares = histogram(values, edges).map((count) => count / values.length);
    const { mean, std } = moments(values);
    const largest = values.reduce((a, b) => Math.max(a, b));
    said.textContent = `Largest advantage ${fixed(largest, 2)}; mean ${fixed(mean)}, standard deviation ${fixed(std)}. In ${percent(silent / groups)} of the groups all are right or all are wrong.`;
    figure.show({ x: shares.map((_, i) => edges[i] + 0.125), series: [{ values: shares, colour: 0, bars: true }], range: [0, Math.max(...shares) * 1.08], domain: [-4.2, 4.2], said: said.textContent });
  }
  redraw();
  const methods = [["group", "GRPO: the group's mean and deviation"], ["none", "Dr. GRPO: the group's mean"], ["batch", "the group's mean, the batch's deviation"], ["whole", "REINFORCE++: the batch's mean and deviation"], ["rloo", "RLOO: mean of the others"]];
  return widget("batches", "Whose answers weigh most", ["switch from GRPO to Dr. GRPO.", "the small bars beyond ±1 go, at both ends. Divided by the deviation, the only right answer to a hard question has an advantage of up to (G − 1) / √G, 2.47 for eight, and the only wrong answer to an easy one as much below 0; undivided, none has more than 1."], {
    words: "A hundred batches of questions from hard to easy; each answer earns 1 or 0.",
    learn: "What does the group do to the gradient?",
    controls: [
      h("div", { class: "choices" }, pick("method", "Advantage by", methods)),
      slide("size", "G, answers in a group", 2, 32, 1),
      slide("high", "chance of the easiest question", 0, 1, 0.05),
      slide("low", "chance of the hardest question", 0, 1, 0.05),
      moreSettings(slide("questions", "questions in a batch", 2, 16, 1), slide("seed", "seed of the batches", 0, 50, 1)),
    ],
    picture: [figure.figure, said],
  });
}
