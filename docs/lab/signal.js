"use strict";
// Which groups teach: variety of answers makes a signal, and the difficulty of the question.

widget("signal", (part, settings) => {
  const { answers: ANSWERS, logits: LOGITS } = SETTINGS.product;
  const GROUPS = 100;
  const X = Array.from({ length: 101 }, (_, i) => i / 100);
  const showBars = columnBars(part, ANSWERS);
  const figure = chart(part.querySelector(".chart"));
  let [groups, words, share] = [[], "", 0];
  let correct = 1; // the place of the correct answer

  function draw() {
    const { temperature, size, seed } = settings;
    correct = Number(settings.answer);
    const logs = logPolicy(LOGITS, temperature);
    const chances = logs.map(Math.exp);
    const entropy = -sum(chances.map((chance, i) => chance * logs[i]));
    const p = chances[correct];
    groups = groupsDrawn(chances, size, GROUPS, seed);
    share = teaching(p, size);
    const list = ANSWERS.map((answer, i) => `${answer} ${percent(chances[i])}`).join(", ");
    showBars(chances, null, correct, `Chances of the answers: ${list}`);
    words =
      `At temperature ${number(temperature)} the answer ${ANSWERS[correct]} has a chance of` +
      ` ${percent(p)} (pass@${size} ${percent(1 - (1 - p) ** size)}), the entropy is` +
      ` ${fixed(entropy, 2)} nats: ${percent(share)} of the groups teach,` +
      ` ${number((100 * share) / size, 2)} for every 100 answers drawn.`;
    const x = [...X, p];
    const curve = (of) => X.map((chance) => teaching(chance, of));
    const series = [
      { label: `G = ${size}`, values: curve(size), colour: 0, width: 3 },
      { label: "G = 2", values: curve(2), colour: 2, dash: [5, 4] },
      { label: "G = 64", values: curve(64), colour: 3, dash: [2, 3] },
    ];
    const dot = x.map((_, i) => (i === X.length ? share : null));
    series.push({ label: "this question", values: dot, colour: 1, points: true });
    figure.show({ x, series, domain: [0, 1], range: [0, 1.05], words });
    return GROUPS;
  }

  const isMixed = (group) => group.includes(correct) && group.some((answer) => answer !== correct);

  function show(at) {
    if (!at) return "Play draws a hundred groups with these chances.";
    const group = groups[at - 1];
    const taught = groups.slice(0, at).filter(isMixed).length;
    const answers = group.map((answer) => ANSWERS[answer]).join(", ");
    const verdict = isMixed(group) ? "it teaches" : "all alike, it teaches nothing";
    const count = `${taught} of ${at} taught.`;
    return at < GROUPS ? `${answers}: ${verdict}. ${count}` : `${words} Drawn: ${count}`;
  }
  return { draw, show, first: { temperature: 0.2 }, truth: () => 100 * share };
});

widget("batches", (part, settings) => {
  const figure = chart(part.querySelector(".chart"));
  const edges = Array.from({ length: 66 }, (_, i) => -4.0625 + i / 8); // an eighth is mid-bar
  const x = edges.slice(1).map((edge) => edge - 1 / 16);
  const rewardsOfRun = RUN.steps.map(({ groups }) =>
    groups.map(({ completions }) => completions.map(({ reward }) => reward)),
  );
  let words = "";
  function draw() {
    const isRun = settings.source === "run";
    const batches = isRun ? rewardsOfRun : batchesDrawn({ ...settings, batches: 100 });
    const { values, silent, groups } = advantagesOfBatches(batches, settings.method);
    const shares = histogram(values, edges).map((count) => count / values.length);
    const { mean, std } = moments(values);
    const largest = values.reduce((a, b) => Math.max(a, b));
    words =
      `Largest advantage ${fixed(largest, 2)}; mean ${fixed(mean)}, standard deviation` +
      ` ${fixed(std)}. In ${percent(silent / groups)} of the ${groups} groups all earn the same.`;
    const series = [{ values: shares, colour: 0, bars: true }];
    figure.show({ x, series, range: [0, Math.max(...shares) * 1.08], domain: [-4.2, 4.2], words });
  }
  const onlyCorrect = () => advantages([1, 0, 0, 0, 0, 0, 0, 0], "none").advantages[0];
  return { draw, show: () => words, first: { method: "none" }, truth: onlyCorrect };
});
