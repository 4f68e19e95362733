// The interactive parts of the report: learning curves and the dialogue viewer. Text from the data is only set as textContent,
// and elements are created by name, so that text written by a model cannot become markup.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const SPEAKERS = { user: "Human", assistant: "Agent", system: "Hint" };

function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

function short(value) {
  const size = Math.abs(value);
  const text = size !== 0 && (size < 1e-3 || size >= 1e6) ? value.toExponential(2) : String(Number(value.toPrecision(4)));
  return text.replace("-", "\u2212");
}

// ---- learning curves ----

// At most `count` + 1 round numbers between low and high.
function ticks(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough * 0.999);
  const found = [];
  for (let tick = Math.ceil(low / step - 1e-9) * step; tick <= high + step * 1e-6; tick += step) {
    found.push(Math.abs(tick) < step * 1e-6 ? 0 : tick);
  }
  return found;
}

function range(values) {
  const low = Math.min(...values), high = Math.max(...values);
  const margin = high > low ? 0 : Math.abs(high) * 0.1 || 1;
  return [low - margin, high + margin];
}

class Chart {
  constructor(figure) {
    this.stage = data.curves[Number(figure.dataset.stage)];
    this.svg = figure.querySelector("svg");
    this.choice = figure.querySelector("select");
    this.readout = figure.querySelector(".readout");
    this.choice.addEventListener("change", () => this.draw());
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => this.unpoint());
    new ResizeObserver(() => this.draw()).observe(figure);
  }

  shape(name, attributes, text) {
    const made = document.createElementNS(this.svg.namespaceURI, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    this.svg.append(made);
    return made;
  }

  draw() {
    this.metric = this.stage.metrics[Number(this.choice.value)];
    const { steps, values } = this.metric;
    const width = this.svg.clientWidth, height = this.svg.clientHeight;
    if (width === 0) return;
    const left = 52, right = 12, top = 10, bottom = 22;
    const [stepLow, stepHigh] = range(steps), [low, high] = range(values);
    this.x = (step) => left + (width - left - right) * (step - stepLow) / (stepHigh - stepLow);
    this.y = (value) => height - bottom - (height - top - bottom) * (value - low) / (high - low);
    this.svg.replaceChildren();
    this.shape("title", {}, `${this.metric.name} of ${this.stage.stage}`);
    for (const tick of ticks(low, high, 4)) {
      this.shape("line", { class: "grid", x1: left, x2: width - right, y1: this.y(tick), y2: this.y(tick) });
      this.shape("text", { class: "y", x: left - 6, y: this.y(tick) + 4 }, short(tick));
    }
    for (const tick of ticks(stepLow, stepHigh, width < 400 ? 4 : 6)) {
      this.shape("text", { x: this.x(tick), y: height - 6 }, short(tick));
    }
    const path = steps.map((step, i) => `${i ? "L" : "M"}${this.x(step).toFixed(1)} ${this.y(values[i]).toFixed(1)}`);
    this.shape("path", { d: path.join("") });
    if (steps.length === 1) this.shape("circle", { cx: this.x(steps[0]), cy: this.y(values[0]), r: 3.5 });
    this.cursor = this.shape("line", { class: "cursor", y1: top, y2: height - bottom, visibility: "hidden" });
    this.dot = this.shape("circle", { r: 3.5, visibility: "hidden" });
    this.unpoint();
  }

  point(event) {
    if (!this.metric) return;
    const { steps, values } = this.metric;
    const at = event.clientX - this.svg.getBoundingClientRect().left;
    let nearest = 0;
    steps.forEach((step, i) => {
      if (Math.abs(this.x(step) - at) < Math.abs(this.x(steps[nearest]) - at)) nearest = i;
    });
    const x = this.x(steps[nearest]);
    for (const [key, value] of [["x1", x], ["x2", x], ["visibility", "visible"]]) this.cursor.setAttribute(key, value);
    for (const [key, value] of [["cx", x], ["cy", this.y(values[nearest])], ["visibility", "visible"]]) {
      this.dot.setAttribute(key, value);
    }
    this.readout.textContent = `step ${short(steps[nearest])}: ${short(values[nearest])}`;
  }

  unpoint() {
    if (!this.metric) return;
    const { steps, values, mean_of: meanOf } = this.metric;
    this.cursor.setAttribute("visibility", "hidden");
    this.dot.setAttribute("visibility", "hidden");
    const change = steps.length > 1 ? `${short(values[0])} at step ${short(steps[0])}, ` : "";
    const thinned = meanOf > 1 ? `; each point is the mean of up to ${meanOf} lines` : "";
    this.readout.textContent = `${change}${short(values.at(-1))} at step ${short(steps.at(-1))}${thinned}`;
  }
}

// ---- dialogues ----

// Split a message into prose and code: fenced blocks, and unfenced programs from their first line to the end.
function pieces(text) {
  const found = [];
  text.split(/^[^\S\n]*```[^\n]*$/m).forEach((part, i) => {
    if (i % 2) return found.push({ isCode: true, text: part.replace(/^\n|\n$/g, "") });
    const start = part.search(/^(?:(?:async )?def |class \w|import \w|from \S+ import |@\w|<!doctype|<html)/im);
    if (start < 0) return found.push({ isCode: false, text: part });
    return found.push({ isCode: false, text: part.slice(0, start) }, { isCode: true, text: part.slice(start) });
  });
  return found.filter((piece) => piece.text.trim());
}

function advantageBar(value, largest) {
  if (value === null || value === undefined) return element("span", "advantage", "no advantage");
  const sign = value < 0 ? "negative" : "positive";
  const amount = element("span", `amount ${sign}`);
  amount.style.width = `${50 * Math.abs(value) / (largest || 1)}%`;
  const text = `${value > 0 ? "+" : ""}${short(Number(value.toPrecision(3)))}`;
  const bar = element("span", "advantage", element("span", "scale", amount), element("span", `number ${sign}`, text));
  bar.title = `Advantage ${text}`;
  return bar;
}

function messageElement(role, text, title, advantage) {
  const head = element("div", "speaker", element("span", "", title));
  if (advantage) head.append(advantage);
  const made = element("div", role === "assistant" ? "message agent" : "message", head);
  for (const piece of pieces(text)) {
    made.append(piece.isCode ? element("pre", "", piece.text.trimEnd()) : element("div", "prose", piece.text.trim()));
  }
  return made;
}

function badge(dialogue) {
  return element("span", `badge ${dialogue.success === 1 ? "passed" : dialogue.success === 0 ? "failed" : ""}`, dialogue.outcome);
}

function turnsOf(dialogue) {
  return `${dialogue.turns ?? "?"} turn${dialogue.turns === 1 ? "" : "s"}`;
}

function dialogueElement(dialogue, largest) {
  const made = element("article", `dialogue ${data.colours[dialogue.agent] || ""}`);
  const head = element("div", "head", element("strong", "", dialogue.agent), badge(dialogue));
  if (dialogue.metric !== null) head.append(element("span", "", dialogue.metric));
  head.append(element("span", "", turnsOf(dialogue)));
  made.append(head);
  let turn = 0;
  for (const [role, text] of dialogue.messages) {
    let title = SPEAKERS[role] || role, advantage = null;
    if (role === "assistant") {
      if (dialogue.advantages) advantage = advantageBar(dialogue.advantages[turn], largest);
      turn += 1;
      title += `, turn ${turn}`;
    }
    made.append(messageElement(role, text, title, advantage));
  }
  if (turn === 0) made.append(element("p", "message note", "This dialogue has no agent turns."));
  const extra = (dialogue.advantages || []).length - turn;
  if (extra > 0) made.append(element("p", "message note", `The file has ${extra} more advantage(s) than turns.`));
  return made;
}

class Viewer {
  constructor(root) {
    this.form = root.querySelector("form");
    this.list = root.querySelector("#list");
    this.case = root.querySelector("#case");
    this.count = root.querySelector("#count");
    this.dialogues = data.dialogues.map((dialogue) => ({
      ...dialogue,
      searched: [dialogue.task, ...dialogue.messages.map((message) => message[1])].join("\n").toLowerCase(),
    }));
    for (const name of ["agent", "split", "outcome"]) {
      const present = new Set(this.dialogues.map((dialogue) => dialogue[name]));
      const values = name === "agent" ? data.agents : [...present];
      values.forEach((value) => this.form.elements[name].add(new Option(value, value)));
    }
    data.agents.forEach((agent) => this.form.elements.beside.add(new Option(agent, agent)));
    this.form.addEventListener("input", () => this.filter());
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.list.addEventListener("keydown", (event) => this.move(event));
    this.filter();
  }

  filter() {
    const { agent, split, outcome, text, advantages } = this.form.elements;
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = this.dialogues.filter((dialogue) =>
      [[agent, "agent"], [split, "split"], [outcome, "outcome"]].every(([field, name]) => !field.value || dialogue[name] === field.value)
      && (!advantages.checked || dialogue.advantages)
      && words.every((word) => dialogue.searched.includes(word)));
    this.count.textContent = `${found.length} of ${this.dialogues.length} dialogues match`;
    this.list.replaceChildren(...found.map((dialogue) => this.row(dialogue)));
    if (found.length === 0) this.list.append(element("p", "message note", "No dialogue matches."));
    if (found.length > 0) this.show(found.includes(this.selected) ? this.selected : found[0]);
    else this.case.replaceChildren();
  }

  row(dialogue) {
    const mark = dialogue.advantages ? element("span", "", "advantages") : "";
    const about = element("span", "", `${dialogue.agent} · ${dialogue.split}`);
    const button = element("button", data.colours[dialogue.agent] || "", element("span", "task", dialogue.task),
      element("span", "line", about, mark), element("span", "line", badge(dialogue), turnsOf(dialogue)));
    button.type = "button";
    button.title = dialogue.task;
    button.dialogue = dialogue;
    button.addEventListener("click", () => this.show(dialogue));
    return button;
  }

  show(dialogue) {
    this.selected = dialogue;
    for (const button of this.list.children) button.setAttribute("aria-current", String(button.dialogue === dialogue));
    const beside = this.form.elements.beside.value;
    const sides = this.dialogues
      .filter((other) => ["split", "task", "episode"].every((name) => other[name] === dialogue[name]))
      .filter((other) => other === dialogue || !beside || other.agent === beside)
      .sort((one, other) => data.agents.indexOf(one.agent) - data.agents.indexOf(other.agent));
    const sizes = sides.flatMap((side) => side.advantages || []).map((value) => Math.abs(value ?? 0));
    const largest = Math.max(0, ...sizes);
    const title = element("h3", "", `${dialogue.task} · ${dialogue.split} · episode ${dialogue.episode}`);
    this.case.replaceChildren(title, element("div", "sides", ...sides.map((side) => dialogueElement(side, largest))));
  }

  // Arrow keys move through the list.
  move(event) {
    const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    const next = step && document.activeElement[step];
    if (!next || !next.dialogue) return;
    event.preventDefault();
    next.focus();
    this.show(next.dialogue);
  }
}

document.querySelectorAll(".chart").forEach((figure) => new Chart(figure));
const root = document.getElementById("viewer");
if (root) new Viewer(root);
