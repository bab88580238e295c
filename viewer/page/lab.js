"use strict";
// The lab: what GRPO does, one discovery after the other. All of it is computed here; what a widget is made of is in widgets.js.

async function labView() {
  const { group, memory, ...bandit } = await ask("lab");
  const widgets = [groupWidget(group), signalWidget(), batchesWidget(), ratioWidget(), klWidget(), driftWidget(bandit.defaults), creditWidget(), lossWidget(), hackingWidget(), banditWidget(bandit), memoryWidget(memory)];
  const links = widgets.map((part) => h("li", {}, h("a", { href: `#${part.id}` }, part.querySelector("h2").textContent)));
  return h("div", { class: "lab" }, h("p", {}, "GRPO draws a group of answers to a question, compares their rewards, and makes likelier what was better than its group, less likely what was worse. Each part shows one thing of that: try what its first line says. docs/learn.md, in the same repository, explains all of it from the start."), h("nav", { "aria-label": "Parts of the lab" }, h("ol", { class: "parts-of" }, links)), widgets);
}
