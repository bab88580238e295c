"use strict";
// A group of answers: what one run wrote to the same question while it learned.

widget("group", (part, settings) => {
  const rewardsOf = (group) => group.completions.map(({ reward }) => reward);
  const all = RUN.steps.flatMap(({ groups }) => groups.flatMap(rewardsOf));
  const [lowest, highest] = [Math.min(0, ...all), Math.max(1, ...all)];
  const size = part.querySelector("[name=size]");
  size.max = size.value = Math.max(...RUN.steps.map(({ groups }) => groups[0].completions.length));
  const choice = part.querySelector("[name=question]");
  RUN.steps[0].groups.forEach(({ question }, i) => choice.add(new Option(question, i)));
  part.querySelector("[data-run]").textContent = RUN.name;
  part.querySelector("[data-about]").textContent = RUN.about;
  const [list, form] = [".answers", ".own"].map((name) => part.querySelector(name));
  let answers = []; // of the group: {name, text, reward}
  let typed = null; // an answer of the reader
  let place = 0; // of the step

  const gainsOf = (rewards) => {
    const isRloo = settings.kind === "rloo";
    return advantages(rewards, settings.kind === "grpo" ? "group" : "none", [], isRloo);
  };
  const groupAt = (at) => RUN.steps[at].groups[settings.question];

  /** An answer, its reward to drag and its advantage. */
  function row(answer) {
    const { name, text, reward } = answer;
    const slider = make("input", { type: "range", min: lowest, max: highest, step: 0.05 });
    slider.ariaLabel = `Reward of answer ${name}`;
    slider.value = reward;
    const earned = make("output", { class: "number" });
    const gained = make("output", { class: "number gain" });
    const bar = make("span");
    const words = make("span", { class: "text" }, text);
    const element = make("div", { class: "answer" }, [
      make("span", { class: "of" }, make("b", {}, name), words),
      make("span", { class: "drag" }, slider, earned),
      make("span", { class: "drag" }, make("span", { class: "advantage" }, bar), gained),
    ]);
    slider.oninput = () => {
      answer.reward = Number(slider.value);
      weigh();
    };
    const show = (gain) => {
      earned.textContent = number(answer.reward, 2);
      bar.className = gain < 0 ? "down" : "up";
      bar.style.width = `${(50 * Math.min(Math.abs(gain), 2.7)) / 2.7}%`;
      gained.textContent = fixed(gain, 2);
    };
    return { element, show };
  }

  /** Writes the advantages of the rewards as they stand; returns the group in words. */
  function weigh() {
    const rewards = answers.map(({ reward }) => reward);
    const { mean, std, advantages: gains } = gainsOf(rewards);
    gains.forEach((gain, i) => answers[i].row.show(gain));
    const [best, worst] = [Math.max(...rewards), Math.min(...rewards)];
    const gain = (reward) => fixed(gains[rewards.indexOf(reward)], 2);
    let why = `The best reward, ${number(best, 2)}, has ${gain(best)}`;
    why += `, the worst, ${number(worst, 2)}, has ${gain(worst)}.`;
    if (best === worst) why = "All earn the same: every advantage is 0, the group teaches nothing.";
    if (answers.length === 1) why = "One answer is its own mean: its advantage is 0.";
    return (part.querySelector(".sums").textContent =
      `Step ${RUN.steps[place].step}: mean reward ${fixed(mean, 2)}, standard deviation` +
      ` ${fixed(std, 2)}. ${why}`);
  }

  function show(at) {
    const group = groupAt(at);
    place = at;
    form.hidden = !plainNumber(group.gold);
    const sampled = group.completions.slice(0, settings.size);
    answers = sampled.map((completion, i) => ({ ...completion, name: String(i + 1) }));
    if (typed) answers.unshift(typed);
    for (const answer of answers) answer.row = row(answer);
    list.replaceChildren(...answers.map((answer) => answer.row.element));
    return weigh();
  }

  /** The best answer's advantage at a step, and that with the mean reward, in words. */
  function bestAt(at) {
    const { mean, advantages: gains } = gainsOf(rewardsOf(groupAt(at)));
    const gain = Math.max(...gains);
    const where = `at step ${RUN.steps[at].step}, where the mean reward is ${fixed(mean, 2)}`;
    return { gain, words: `${fixed(gain, 2)} ${where}` };
  }
  const ends = () => [bestAt(0), bestAt(RUN.steps.length - 1)];
  const because = () => `The best answer has ${ends()[0].words}, and ${ends()[1].words}.`;

  const truth = () => trend(ends()[0].gain, ends()[1].gain);

  for (const button of part.querySelectorAll("[data-all]")) {
    const [first, others] = button.dataset.all.split(" ").map(Number);
    button.onclick = () => {
      answers.forEach((answer, i) => (answer.reward = i ? others : first));
      weigh();
    };
  }

  // An answer of one's own, which the rules for plain numbers judge.
  form.onsubmit = (event) => {
    event.preventDefault();
    const text = form.querySelector("input").value.trim();
    const verdict = plainVerdict(text, groupAt(place).gold);
    typed = verdict === null ? null : { name: "yours", text, reward: Number(verdict) };
    let words = "Not judged: this page knows plain numbers alone, such as 172 or 344/2.";
    if (typed) words = verdict ? "Correct." : "Incorrect.";
    form.querySelector(".verdict-of").textContent = text && words;
    show(place);
  };
  return { draw: () => RUN.steps.length - 1, show, truth, because, milliseconds: 5000 };
});
