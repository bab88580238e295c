// By part the sentences of the lab that state numbers, with what the lab's own functions make of
// them. "questions": the correct answers to the ten, each with its explanation.
() => {
  const { defaults, france, payments, presets, product } = SETTINGS;
  const two = (value) => fixed(value, 2);
  const best = advantages([1, 0, 0, 0, 0, 0, 0, 0], "group");

  // A list of numbers beside working it out, which is correct half of the time.
  const able = [0.5, 0];
  const paysOf = (...names) =>
    [1, 2].map((way) => [0, 1].map((i) => sum(names.map((name) => payments[name][way][i]))));
  const options = { able, start: 0.1, size: 8, rate: 0.5, steps: 80, seed: 1 };
  const correctBy = (...names) =>
    percent(strategiesLearned({ ...options, pays: paysOf(...names) }).correct[80]);
  const both = expectedPay(paysOf("anywhere", "verified"), able);
  const brief = expectedPay(paysOf("anywhere", "short"), able);

  // 418 and 408, warm and cold.
  const chances = [1, 0.2].map((temperature) =>
    logPolicy(product.logits, temperature).map(Math.exp),
  );
  const passes = (k) =>
    chances.map((all) => percent(average(all.slice(0, 2).map((p) => 1 - (1 - p) ** k))));
  const [pass1, pass8] = [passes(1), passes(8)];
  const cold = chances[1];
  const [few, many] = [8, 64].map((size) => teaching(0.01, size));
  const per100 = [few / 8, many / 64].map((share) => two(100 * share));

  const elsewhere = (name, settings, best) => {
    const places = Array.from({ length: 30 }, (_, seed) => {
      const end = train(name, { ...defaults, ...settings, seed }).chances.at(-1);
      return end.indexOf(Math.max(...end));
    });
    return places.filter((place) => place !== best).length;
  };
  const trap = { ...presets.trap, matched: false };

  const token = { old: 0.3, reference: 0.25, epsilon: 0.2, beta: 0, rate: 0.05, steps: 30 };
  const ratioAfter = (advantage) => fixed(climbed({ ...token, advantage })[30] / token.old);
  const clippedAt = (ratio) => terms(Math.log(ratio), 0, 0, -1, [0.8, 1.2], 0);

  const estimated = (paris) => {
    const weights = [paris, ...france.weights.slice(1)];
    const now = weights.map((weight) => weight / sum(weights));
    const { k1, k3, exact, means } = divergence(now, france.reference, 300, 0);
    const ends = [means.k1, means.k3].map((values) => fixed(values[299]));
    return { k1: two(k1[0]), k3: two(k3[0]), exact: fixed(exact), ends };
  };
  const [near, far] = [20, 5].map(estimated);
  const halved = terms(Math.log(0.5), 0, 0, 0, null, 0).kl;

  const ofAnswer = advantages([0, 1, 0, 1], "group").advantages[0];
  const shares = sharesOfSteps([
    [1, 1, 0, 1],
    [1, 1, 1, 1],
    [0, 1, 1, 1],
    [1, 1, 1, 1],
  ]);
  const ofSteps = shares.map((share) => two(ofAnswer + share));
  const [correct, incorrect] = [shares[3], shares[2] - shares[3]].map(two);

  const weights = [8, 20].map((tokens) =>
    weightOfToken(tokens, { completions: 8 }, { loss_type: "grpo" }),
  );
  const ofAll = weightOfToken(8, { tokens: 8 + 7 * 40 }, { loss_type: "dapo" });

  const memory = dataOf("memory")["7B"];
  const totals = (way) => ["GRPO", "PPO"].map((method) => sum(Object.values(memory[way][method])));
  const share = (way) => percent(totals(way)[0] / totals(way)[1]);
  const [grpo, ppo] = totals("full");
  const times = (ppo - grpo) / memory.full.PPO.critic;

  return {
    group: [`each of the seven incorrect answers had ${two(best.advantages[1])}`],
    hacking: [
      `instead: lists vanish, and ${correctBy("verified")} are correct`,
      `correct answers fell to ${correctBy("anywhere")}`,
      `rewards ticked working it out earns ${both[0]} on average, no more than a list`.repeat(
        Number(both[0] === both[1]),
      ),
      `With the first and the third it earns ${brief[0]}, a list ${brief[1]}`,
    ],
    signal: [
      `408 has a chance of ${percent(cold[1])}, and ${percent(teaching(cold[1], 8))} of the groups`,
      `Where 418 is correct it is ${percent(teaching(cold[0], 8))}`,
      `pass@1 from ${pass1.join(" to ")}, and takes pass@8 from ${pass8.join(" to ")}`,
      `${percent(few)} of the groups of 8 teach, and ${percent(many)} of those of 64`,
      `answers drawn ${per100[1]} groups teach instead of ${per100[0]}`,
      `ln 10 = ${two(Math.log(10))}`,
    ],
    batches: [`= ${fixed(7 / 8)}, and never more`, `(G − 1) / √G = ${two(7 / Math.sqrt(8))}`],
    bandit: [
      `${elsewhere("reinforce", presets.opening, 5)} of 30 seeds end at a worse digit`,
      `${elsewhere("reinforce", { ...presets.opening, offset: 0 }, 5)} of 30 seeds of REINFORCE still end elsewhere`,
      `${elsewhere("grpo", trap, 8)} of 30 seeds of GRPO end at 3`,
    ],
    ratio: [`ends at a ratio of ${ratioAfter(1)}`, `the clip stops it below 1 − ε, here at ${ratioAfter(-1)}`],
    kl: [
      `has a k1 of ${near.k1}, and a k3 of ${near.k3}`,
      `k1 is ${near.ends.join(" and of k3 ")}, where the exact KL is ${near.exact}`,
      `has a k3 of ${far.k3}. After 300 words its mean is ${far.ends[1]}`,
      `that of k1 ${far.ends[0]}, where the exact KL is ${far.exact}`,
    ],
    drift: [`ln(10 / 4) = ${two(Math.log(2.5))}; the most there is, ${two(Math.log(10))},`],
    credit: [
      `counts ${two(ofAnswer)}, a correct step ${correct}, the incorrect one ${incorrect}`,
      `step 4 gets ${two(ofAnswer)} + ${correct} = ${ofSteps[3]}`,
      `step 3: ${ofSteps[3]} − ${incorrect.slice(1)} = ${ofSteps[2]}`,
      `step 2: ${ofSteps[2]} + ${correct} = ${ofSteps[1]}`,
      `step 1: ${ofSteps[1]} + ${correct} = ${ofSteps[0]}. GRPO gives all ${two(ofAnswer)}`,
    ],
    loss: [
      `${fixed(weights[0] / weights[1], 1)} times, ${weights.map((x) => fixed(x, 5)).join(" to ")}`,
      `every token weighs ${fixed(ofAll, 5)}`,
    ],
    memory: [
      `${fixed(grpo, 1)} GiB, ${share("full")}`,
      `it is ${share("LoRA")}, with QLoRA (base in four bits) ${share("QLoRA")}`,
    ],
    questions: [
      `${two(best.advantages[1])}. Their distance from the mean, ${number(-best.mean)},`,
      `÷ the standard deviation, ${fixed(best.std)}. The correct one has ${two(best.advantages[0])}`,
      `neither's: few groups of either teach. ${percent(few)} of the groups of each`,
      `below 0.8 alone. At 0.7 the smaller of ${number(clippedAt(0.7).unclipped)} and` +
        ` ${number(clippedAt(0.7).clipped)} is the ${clippedAt(0.7).stopped ? "" : "un"}clipped`,
      `At 1.3 it is the ${clippedAt(1.3).stopped ? "" : "un"}clipped one, ${number(clippedAt(1.3).unclipped)}`,
      `a cost of ${two(halved)}. k1 is ln 0.5 = ${two(Math.log(0.5))}, and k3 is exp(0.69) − 0.69 − 1 = ${two(halved)}`,
      `earns ${brief[1]}, and working it out ${brief[0]}`,
      `${ofSteps
        .slice(0, 3)
        .join(", ")
        .replace(/, (?=[^,]*$)/, " and ")}, where GRPO gives`,
      `GRPO gives ${two(ofAnswer)}. Step 4 has ${ofSteps[3]}`,
      `${fixed(weights[1] / weights[0], 1)} times as hard. Each answer weighs the same`,
      `From ${pass1.join(" to ")}, and from ${pass8.join(" to ")}`,
      `${number((100 * grpo) / ppo, 0)}%. ${fixed(grpo, 1)} of ${fixed(ppo, 1)} GiB`,
      `${{ 4: "four" }[fixed(times, 0)]} times its weights`,
    ],
  };
};
