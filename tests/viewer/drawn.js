// What a part of the lab has drawn; with what it had drawn before, which of it has changed, once
// any has.
async (part, before) => {
  const kinds = [
    ".plot > svg, .sum, .sums, .numbers, .memory, .team, .columns, .tree, .card, .weights",
    ".credits, .answers, .pays, .words, .lines",
  ];
  const drawn = () => [...part.querySelectorAll(`:is(${kinds})`)].map((e) => e.outerHTML);
  if (!before) return drawn();
  for (let i = 0; i < 200; i++) {
    const now = drawn();
    const changed = now.map((text, at) => text !== before[at]);
    if (now.length !== before.length || changed.some(Boolean)) return changed;
    await new Promise((next) => setTimeout(next, 25));
  }
};
