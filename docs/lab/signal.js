"use strict";
// Which groups teach: variety of answers makes a signal, and the difficulty of the question.

{
  const part = partOf("signal");
  const ANSWERS = ["418", "408", "398", "428", "308", "480", "41", "344", "100", "136"];
  const LOGITS = [2, 1, 0.3, 0.2, 0, -0.3, -0.5, -0.8, -1, -1.2];
  const GROUPS = 100;
  const showBars = columnBars(part, ANSWERS);
  const figure = chart(part.querySelector(".chart"));
  const sentence = part.querySelector(".sums");
  const place = part.querySelector(".drawn");
  const settings = settingsOf(part, redraw);
  let groups = [];
  let correct = 1; // the place of the correct answer
  const played = player(part, showGroups);

  function redraw() {
    const { temperature, size, seed } = settings;
    correct = Number(settings.answer);
    const logs = logPolicy(LOGITS, temperature);
    const chances = logs.map(Math.exp);
    const entropy = -sum(chances.map((chance, i) => chance * logs[i]));
    groups = groupsDrawn(chances, size, GROUPS, seed);
    const words = ANSWERS.map((answer, i) => `${answer} ${percent(chances[i])}`);
    showBars(chances, null, correct, `Chances of the answers: ${words.join(", ")}`);
    const p = chances[correct];
    const share = teaching(p, size);
    sentence.textContent =
      `At temperature ${number(temperature)} the answer ${ANSWERS[correct]} has a chance of` +
      ` ${percent(p)} and the entropy is ${fixed(entropy, 2)} nats: ${percent(share)} of the` +
      ` groups teach. That is ${number((100 * share) / size, 1)} groups for every 100 answers` +
      " drawn.";
    drawCurves(p, share, size);
    played.to(GROUPS, played.at() || 1);
  }

  function drawCurves(p, share, size) {
    const x = Array.from({ length: 101 }, (_, i) => i / 100);
    x.push(p);
    x.sort((a, b) => a - b);
    const curve = (of) => x.map((chance) => teaching(chance, of));
    const series = [
      { label: `G = ${size}`, values: curve(size), colour: 0, width: 3 },
      { label: "G = 2", values: curve(2), colour: 2, dash: [5, 4] },
      { label: "G = 64", values: curve(64), colour: 3, dash: [2, 3] },
    ];
    const dot = x.map((chance) => (chance === p ? share : null));
    series.push({ label: "this question", values: dot, colour: 1, points: true });
    figure.show({ x, series, range: [0, 1.05], words: sentence.textContent });
  }

  const isMixed = (group) => group.includes(correct) && group.some((answer) => answer !== correct);

  /** What the group of number `at` holds, and how many until then taught. */
  function showGroups(at) {
    const group = groups[at - 1] || [];
    const taught = groups.slice(0, at).filter(isMixed).length;
    const counts = ANSWERS.map((answer, i) => ({
      count: group.filter((drawn) => drawn === i).length,
      chip: html`<span class=${i === correct ? "chance correct" : "chance"}>${answer}</span>`,
    })).filter(({ count }) => count);
    counts.sort((a, b) => b.count - a.count);
    for (const { count, chip } of counts) chip.append(` × ${count}`);
    let verdict = "None correct: it teaches nothing.";
    if (!at) verdict = "No group is drawn yet.";
    else if (isMixed(group)) verdict = "It teaches.";
    else if (group.includes(correct)) verdict = "All correct: it teaches nothing.";
    const total = at > 1 ? ` Of ${at} groups ${taught} taught, ${percent(taught / at)}.` : "";
    place.replaceChildren(...counts.map(({ chip }) => chip), html`<b>${verdict}</b>`, total);
  }
  redraw();
  const rare = (size) => teaching(0.01, size);
  const per100 = (size) => fixed((100 / size) * rare(size), 2);
  part.querySelector(".cost").textContent =
    "The curve is 1 − pᴳ − (1 − p)ᴳ. A larger group teaches more often, but costs more answers:" +
    ` at p = 1%, G = 64 teaches in ${percent(rare(64))} of the groups and G = 8 in` +
    ` ${percent(rare(8))}, yet of 100 answers drawn that is ${per100(64)} groups that teach` +
    ` against ${per100(8)}.`;
}

// Advantages over many batches.
{
  const part = partOf("batches");
  const figure = chart(part.querySelector(".chart"));
  const sentence = part.querySelector(".sums");
  const settings = settingsOf(part, redraw);
  const edges = Array.from({ length: 34 }, (_, i) => -4.125 + i / 4);
  function redraw() {
    const { values, silent, groups } = advantagesOfBatches({ ...settings, batches: 100 });
    const shares = histogram(values, edges).map((count) => count / values.length);
    const { mean, std } = moments(values);
    const largest = values.reduce((a, b) => Math.max(a, b));
    sentence.textContent =
      `Largest advantage ${fixed(largest, 2)}; mean ${fixed(mean)}, standard deviation` +
      ` ${fixed(std)}. In ${percent(silent / groups)} of the groups all are correct or all are` +
      " incorrect.";
    const x = shares.map((_, i) => edges[i] + 0.125);
    const series = [{ values: shares, colour: 0, bars: true }];
    const range = [0, Math.max(...shares) * 1.08];
    figure.show({ x, series, range, domain: [-4.2, 4.2], words: sentence.textContent });
  }
  redraw();
}
