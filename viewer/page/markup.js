"use strict";
// Completions as a reader of mathematics would write them: LaTeX as MathML, and a little Markdown.
// What this file does not know stays as the model wrote it, and all of it is text.

const DEEPEST = 40; // levels of braces
const MARKS = new RegExp(
  [
    "(?<fence>```[^\\n]*\\n(?<code>[^]{0,4000}?)(?:```|(?![^])))",
    "`(?<tick>[^`\\n]{1,400})`",
    "\\$\\$(?<shown>[^]{1,2000}?)\\$\\$",
    "\\\\\\[(?<display>[^]{1,2000}?)\\\\\\]",
    "\\\\\\((?<inline>[^]{1,2000}?)\\\\\\)",
    "(?<lines>\\\\begin\\{(?<kind>\\w{1,20}\\*?)\\}[^]{1,2000}?\\\\end\\{\\k<kind>\\})",
    "(?<![\\\\$])\\$(?![\\s$])(?<dollars>[^$\\n]{1,400}?)(?<![\\s\\\\])\\$(?!\\d)",
    "(?<box>\\\\boxed\\{(?:[^{}\\n]|\\{[^{}\\n]{0,99}\\}){1,200}\\})",
    "\\*\\*(?=\\S)(?<bold>[^*\\n]{1,400}?)\\*\\*",
    "^#{1,6} (?<heading>[^\\n]{1,400})$",
  ].join("|"),
  "gm",
);
const MATHS = ["shown", "display", "lines", "inline", "dollars", "box"];

/** Whether a text holds anything that would be drawn otherwise than it is written. */
const hasMarkup = (text) => text.search(MARKS) >= 0;

/** The text with its LaTeX and Markdown drawn: a list of nodes and texts. */
function rendered(text) {
  const parts = [];
  let start = 0;
  for (const match of text.matchAll(MARKS)) {
    parts.push(visible(text.slice(start, match.index)), markOf(match));
    start = match.index + match[0].length;
  }
  return [...parts, visible(text.slice(start))];
}

/**
 * A completion to read: drawn, or as it was written, by a button where these differ. `ranges`:
 * [start, end] of the parts to mark, in a text that has nothing to draw.
 */
function textOf(text, ranges = []) {
  if (!hasMarkup(text)) return html`<pre class="said">${withMark(text, ranges)}</pre>`;
  const toggle = () => document.body.classList.toggle("as-written");
  return html`<div>
    <button class="more" onclick=${toggle}><span class="to-raw">as written</span><span
      class="to-drawn">rendered</span></button>
    <pre class="said raw">${visible(text)}</pre>
    <div class="said drawn">${rendered(text)}</div>
  </div>`;
}

function withMark(text, ranges) {
  const parts = [];
  let start = 0;
  for (const [first, end] of ranges) {
    const marked = html`<mark>${visible(text.slice(first, end))}</mark>`;
    parts.push(visible(text.slice(start, first)), marked);
    start = end;
  }
  return [...parts, visible(text.slice(start))];
}

function markOf({ 0: written, groups }) {
  const { fence, code, tick, bold, heading } = groups;
  if (fence !== undefined) return html`<code class="fence">${visible(code)}</code>`;
  if (tick !== undefined) return html`<code>${visible(tick)}</code>`;
  if (bold !== undefined) return html`<b>${rendered(bold)}</b>`;
  if (heading !== undefined) return html`<b class="heading">${rendered(heading)}</b>`;
  const name = MATHS.find((key) => groups[key] !== undefined);
  const isDisplayed = ["shown", "display", "lines"].includes(name);
  return formula(groups[name], isDisplayed) ?? visible(written);
}

/** A formula as MathML; null where its braces do not pair or go too deep. */
function formula(source, isDisplayed) {
  try {
    const content = new Formula(source).whole();
    const math = mathElement("math", content);
    math.setAttribute("display", isDisplayed ? "block" : "inline");
    math.setAttribute("title", source);
    return math;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

function mathElement(name, children) {
  const element = document.createElementNS("http://www.w3.org/1998/Math/MathML", name);
  element.append(...[children].flat());
  return element;
}

const named = (words) => Object.fromEntries(words.split(" ").map((word) => word.split("=")));
const SIGNS = named(
  "cdot=· times=× div=÷ pm=± mp=∓ le=≤ leq=≤ ge=≥ geq=≥ ne=≠ neq=≠ approx=≈ equiv=≡ sim=∼ to=→" +
    " rightarrow=→ Rightarrow=⇒ implies=⟹ iff=⟺ leftarrow=← infty=∞ sum=∑ prod=∏ int=∫ in=∈" +
    " notin=∉ subset=⊂ subseteq=⊆ cup=∪ cap=∩ emptyset=∅ forall=∀ exists=∃ ldots=… dots=… cdots=⋯" +
    " circ=° degree=° angle=∠ triangle=△ perp=⊥ parallel=∥ mid=∣ therefore=∴ because=∵ lfloor=⌊" +
    " rfloor=⌋ lceil=⌈ rceil=⌉ langle=⟨ rangle=⟩ partial=∂ nabla=∇ quad=\u2003 qquad=\u2003" +
    " land=∧ lor=∨ neg=¬ star=⋆ ast=∗ bullet=• vdots=⋮ prime=′ setminus=∖ lt=< gt=>",
);
const LETTERS = named(
  "alpha=α beta=β gamma=γ delta=δ epsilon=ϵ varepsilon=ε zeta=ζ eta=η theta=θ iota=ι kappa=κ" +
    " lambda=λ mu=μ nu=ν xi=ξ pi=π rho=ρ sigma=σ tau=τ upsilon=υ phi=ϕ varphi=φ chi=χ psi=ψ" +
    " omega=ω Gamma=Γ Delta=Δ Theta=Θ Lambda=Λ Xi=Ξ Pi=Π Sigma=Σ Phi=Φ Psi=Ψ Omega=Ω ell=ℓ",
);
const SPACES = { ",": "\u2009", ";": "\u2005", ":": "\u2005", "!": "", " ": " " };
const TEXTS = /^(text|textbf|textit|mathrm|mathbf|mathit|mathbb|mathcal|operatorname|mbox)$/;
const OVER = { overline: "‾", bar: "‾", vec: "→", hat: "^", tilde: "~", dot: "˙", widehat: "^" };
const FUNCTIONS = /^(sin|cos|tan|cot|sec|csc|log|ln|exp|lim|max|min|gcd|lcm|mod|bmod|det|arcsin)$/;
const SIZES = /^(left|right|big|Big|bigg|Bigg|bigl|bigr|displaystyle|limits|middle)$/;

/** Reads LaTeX from left to right. Throws SyntaxError where its braces do not pair. */
class Formula {
  constructor(source) {
    this.source = source;
    this.at = 0;
    this.depth = 0;
  }

  whole() {
    const content = this.row();
    if (this.at < this.source.length) throw new SyntaxError("a group is closed that is not open");
    return content;
  }

  /** Take what the pattern matches here; null where it does not. */
  take(pattern) {
    pattern.lastIndex = this.at;
    const match = pattern.exec(this.source);
    if (match) this.at += match[0].length;
    return match;
  }

  /** What stands up to the end of a group, of a cell of a table, or of the whole. */
  row() {
    if (++this.depth > DEEPEST) throw new SyntaxError("too many braces");
    const content = [];
    this.take(/\s*/y);
    while (this.at < this.source.length && !/^(?:[}&]|\\\\|\\end\b)/.test(this.rest(5))) {
      content.push(this.scripted());
      this.take(/\s*/y);
    }
    this.depth -= 1;
    return mathElement("mrow", content);
  }

  rest(length) {
    return this.source.slice(this.at, this.at + length);
  }

  /** An atom with what stands above and below it. */
  scripted() {
    const base = this.atom();
    const scripts = {};
    for (let sign = this.take(/\s*([\^_])/y); sign; sign = this.take(/\s*([\^_])/y)) {
      scripts[sign[1]] = this.argument();
    }
    const { "^": above, _: below } = scripts;
    if (above && below) return mathElement("msubsup", [base, below, above]);
    if (above) return mathElement("msup", [base, above]);
    return below ? mathElement("msub", [base, below]) : base;
  }

  /** A group in braces, or else a single atom. */
  argument() {
    this.take(/\s*/y);
    return this.rest(1) === "{" ? this.group() : this.atom();
  }

  group() {
    this.at += 1;
    const content = this.row();
    if (!this.take(/\}/y)) throw new SyntaxError("a group is not closed");
    return content;
  }

  /** The words of a group that is a text. */
  words() {
    const match = this.take(/\s*\{([^{}]*)\}/y);
    if (!match) throw new SyntaxError("a text is not in braces");
    return match[1].replace(/\\([%$&#_ ])/g, "$1");
  }

  atom() {
    if (this.rest(1) === "{") return this.group();
    const numeral = this.take(/\d+(?:[.,]\d+)*/y);
    if (numeral) return mathElement("mn", numeral[0]);
    const command = this.take(/\\([a-zA-Z]+|[^a-zA-Z])/y);
    if (command) return this.command(command[1]);
    const [sign] = this.take(/[^]/uy) ?? [""];
    const kind = /\p{L}/u.test(sign) ? "mi" : "mo";
    return mathElement(kind, visible(sign === "-" ? "−" : sign));
  }

  command(name) {
    if (/^[dtc]?frac$/.test(name)) return mathElement("mfrac", [this.argument(), this.argument()]);
    if (name === "sqrt") return this.root();
    if (name === "begin") return this.table();
    if (name in LETTERS) return mathElement("mi", LETTERS[name]);
    if (name in SIGNS) return mathElement("mo", SIGNS[name]);
    if (name in SPACES) return mathElement("mtext", SPACES[name]);
    if (TEXTS.test(name)) return mathElement("mtext", visible(this.words()));
    if (FUNCTIONS.test(name)) return mathElement("mi", name);
    if (SIZES.test(name)) return this.sized();
    if (name === "boxed") return this.boxed();
    if (name in OVER) {
      return mathElement("mover", [this.argument(), mathElement("mo", OVER[name])]);
    }
    const isSign = /^[^a-zA-Z]$/.test(name);
    return mathElement(isSign ? "mo" : "mtext", visible(isSign ? name : `\\${name}`));
  }

  /** The bracket after a word that sets its size; a point stands for none. */
  sized() {
    if (this.take(/\s*\./y)) return mathElement("mrow", []);
    return this.at < this.source.length ? this.atom() : mathElement("mrow", []);
  }

  boxed() {
    const box = mathElement("mrow", this.argument());
    box.setAttribute("class", "boxed");
    return box;
  }

  root() {
    const degree = this.take(/\s*\[([^\][]{1,9})\]/y);
    const content = this.argument();
    if (!degree) return mathElement("msqrt", content);
    return mathElement("mroot", [content, mathElement("mn", degree[1])]);
  }

  /** A matrix, cases, or equations below one another. */
  table() {
    const kind = this.words();
    this.take(/\s*\{[lcr| ]*\}/y);
    const rows = [];
    let cells = [this.row()];
    for (let sign = this.take(/&|\\\\/y); sign; sign = this.take(/&|\\\\/y)) {
      if (sign[0] !== "&") {
        rows.push(cells);
        cells = [];
      }
      cells.push(this.row());
    }
    if (!this.take(/\\end\s*\{[^{}]*\}/y)) throw new SyntaxError("a table is not closed");
    rows.push(cells);
    const lines = rows.map((row) => {
      const places = row.map((cell) => mathElement("mtd", cell));
      return mathElement("mtr", places);
    });
    const table = mathElement("mtable", lines);
    const [left, right] = { p: "()", b: "[]", v: "||", c: "{" }[kind[0]] ?? "";
    table.setAttribute("class", kind.replace(/\W/g, ""));
    const isBracketed = /^(?:[pbv]matrix|cases)$/.test(kind);
    if (!isBracketed) return table;
    const brackets = [mathElement("mo", left), table, mathElement("mo", right ?? "")];
    return mathElement("mrow", brackets);
  }
}
