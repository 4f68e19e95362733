// The interactive parts of the report: here the dialogue viewer, in curves.js the learning curves, in index.js the table of runs. Text from
// the data is only set as textContent, and elements are created by name, so that text written by a model cannot become markup.
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

const root = document.getElementById("viewer");
if (root) new Viewer(root);
