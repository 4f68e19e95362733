// The dialogue viewer: a list with filters, and the dialogues of one episode side by side, each with the reasons why it failed.
// Text from the data is only set as textContent, and pictures are base64 that has been checked.
const SPEAKERS = { user: "Human", assistant: "Agent", system: "Hint" };
const PARTS = "\u0000";

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

function button(text, onClick) {
  const made = element("button", "", text);
  made.type = "button";
  made.addEventListener("click", () => onClick(made));
  return made;
}

function folded(title, isOpen, ...children) {
  const made = element("details", "", element("summary", "", title), ...children);
  made.open = isOpen;
  return made;
}

function plural(count, word) {
  return `${count} ${word}${count === 1 ? "" : "s"}`;
}

// ---- advantages ----

function advantageBar(critic, value, largest, isNamed) {
  const name = element("span", "critic", isNamed ? critic.replaceAll("_", " ") : "");
  if (value === null || value === undefined) return element("span", "advantage", name, "no advantage");
  const sign = value < 0 ? "negative" : "positive";
  const amount = element("span", `amount ${sign}`);
  amount.style.width = `${Math.min(50, 50 * Math.abs(value) / (largest || 1))}%`;
  const text = `${value > 0 ? "+" : ""}${short(Number(value.toPrecision(3)))}`;
  const bar = element("span", "advantage", name, element("span", "scale", amount), element("span", `number ${sign}`, text));
  bar.title = `Advantage ${text} by ${critic}`;
  return bar;
}

function advantageBars(advantages, turn, largest) {
  const critics = Object.keys(advantages);
  const bars = critics.map((critic) => advantageBar(critic, advantages[critic][turn], largest[critic], critics.length > 1));
  return element("span", "advantages", ...bars);
}

function largestOf(sides) {
  const found = {};
  for (const { advantages } of sides) {
    for (const [critic, values] of Object.entries(advantages || {})) {
      found[critic] = Math.max(found[critic] || 0, ...values.map((value) => Math.abs(value ?? 0)));
    }
  }
  return found;
}

// ---- why ----

function kindTitle(dialogue) {
  const kind = data.kinds.find((one) => one.name === dialogue.kind);
  const title = kind ? kind.title : dialogue.kind;
  return dialogue.about.length ? `${title}: ${dialogue.about.join(", ")}` : title;
}

function wishItem(wish, goTo) {
  const isHeard = wish.heard !== null;
  const state = isHeard ? "heard" : wish.asked !== null ? "asked, but not told" : "never asked";
  const made = element("li", !wish.is_special ? "plain" : isHeard ? "heard" : "unheard", element("span", "state", state));
  const turn = wish.heard ?? wish.asked;
  if (turn !== null) made.append(" in ", button(`turn ${turn}`, () => goTo(turn)));
  made.append(" · ", element("strong", "", wish.topic), `${wish.is_special ? "" : " (no wish)"}: ${wish.sentence}`);
  return made;
}

function testTable(tests) {
  const hasWishes = tests.some((test) => test.wishes.length);
  const names = ["Call", "Expected", "Got", "Outcome", ...(hasWishes ? ["Depends on"] : [])];
  const head = element("tr", "", ...names.map((name) => element("th", "", name)));
  const rows = tests.map((test) => {
    const outcome = element("td", "outcome", test.outcome);
    outcome.title = test.meaning;
    if (test.seconds !== null) outcome.append(element("span", "note", ` ${short(1000 * test.seconds)} ms`));
    const row = element("tr", test.outcome === "passed" ? "passed" : "failed", element("th", "code", test.call),
      element("td", "code", test.expected), element("td", "code", test.got), outcome);
    if (hasWishes) row.append(element("td", "", test.wishes.join(", ")));
    return row;
  });
  const scroll = element("div", "scroll", element("table", "", element("thead", "", head), element("tbody", "", ...rows)));
  scroll.tabIndex = 0;
  return scroll;
}

function testsElement(tests) {
  const passed = tests.filter((test) => test.outcome === "passed").length;
  const meanings = new Map(tests.filter((test) => test.outcome !== "passed").map((test) => [test.outcome, test.meaning]));
  const notes = [...meanings].map(([outcome, meaning]) => element("p", "note", `${outcome}: ${meaning}.`));
  return folded(`Hidden tests: ${passed} of ${tests.length} passed`, false, testTable(tests), ...notes);
}

function diffElement(diff) {
  const classes = { "-": "wanted", "+": "got", "?": "note" };
  const made = element("div", "diff", ...diff.map(([mark, line]) => element("span", classes[mark] || "", `${mark} ${line}`)));
  made.tabIndex = 0;
  const isCompared = diff.some(([mark]) => mark === "+" || mark === "-");
  return folded(isCompared ? "The answer against the reference" : "The hidden reference", false, made);
}

function pageFigure(pages, side, caption) {
  if (!pages[side]) return element("figure", "", element("p", "missing", "no picture"), element("figcaption", "", caption));
  const picture = element("img");
  picture.alt = caption;
  picture.src = `data:image/jpeg;base64,${pages[side]}`;
  const own = pages.blocks.filter((block) => block.side === side);
  own.forEach((block) => { block.mark = element("i", side); });
  picture.addEventListener("load", () => {
    for (const { box: [x, y, width, height], mark } of own) {
      const places = { left: x / pages.width, top: y / picture.naturalHeight, width: width / pages.width, height: height / picture.naturalHeight };
      for (const [name, share] of Object.entries(places)) mark.style[name] = `${100 * share}%`;
    }
  });
  const frame = element("div", "page", picture, ...own.map((block) => block.mark));
  return element("figure", "", frame, element("figcaption", "", caption));
}

function pagesElement(pages) {
  const wanted = pageFigure(pages, "wanted", "the hidden page; marked: blocks that the agent's page lacks");
  const got = pageFigure(pages, "got", "the agent's last page; marked: blocks that differ or are not wanted");
  const current = (block) => {
    pages.blocks.forEach((one) => one.mark && one.mark.classList.toggle("current", one === block));
    if (block.mark) block.mark.scrollIntoView({ block: "nearest" });
  };
  const blocks = pages.blocks.map((block) => element("li", "", button(`${block.what} · ${block.text}`, () => current(block))));
  const said = pages.differences.map(({ sentence, turns }) =>
    element("li", "", `${sentence} (${turns.length ? `said after turn ${turns.join(", ")}` : "never said"})`));
  const score = Object.entries(pages.score).map(([part, value]) => `${part} ${value === null ? "?" : short(value)}`).join(", ");
  const made = folded("Both pages", true, element("div", "both", wanted, got), element("p", "note", `Similarity in parts: ${score}.`));
  if (said.length) made.append(element("p", "", "Still different at the end:"), element("ul", "blocks", ...said));
  if (blocks.length) made.append(folded(plural(blocks.length, "block") + " that differ", false, element("ol", "blocks", ...blocks)));
  return made;
}

function whyElement(dialogue, goTo) {
  const { wishes = [], tests = [], notes = [], diff = [], pages } = dialogue.why;
  if (!dialogue.kind && Object.keys(dialogue.why).length === 0) return "";
  const made = element("div", "why");
  if (dialogue.kind) {
    const state = dialogue.success === 1 ? "passed" : dialogue.success === 0 ? "failed" : "";
    const title = element("p", `kind ${state}`, kindTitle(dialogue));
    title.title = data.kinds.find((one) => one.name === dialogue.kind)?.means || "";
    made.append(title);
  }
  notes.forEach((text) => made.append(element("p", "", text)));
  if (wishes.length) {
    const special = wishes.filter((wish) => wish.is_special), others = wishes.filter((wish) => !wish.is_special);
    const list = (some) => element("ul", "wishes", ...some.map((wish) => wishItem(wish, goTo)));
    if (special.length) made.append(list(special));
    if (others.length) made.append(folded(`${plural(others.length, "other topic")} that ${special.length ? "came up" : "the reference decides"}`, false, list(others)));
  }
  if (tests.length) made.append(testsElement(tests));
  if (diff.length) made.append(diffElement(diff));
  if (pages) made.append(pagesElement(pages));
  return made;
}

function chips(dialogue, role, turn) {
  const field = role === "user" ? "heard" : "asked";
  const found = (dialogue.why.wishes || []).filter((wish) => wish[field] === turn);
  if (!found.length) return "";
  const words = found.map((wish) => element("span", wish.is_special ? "chip special" : "chip", `${field === "heard" ? "states" : "asks about"} ${wish.topic}`));
  return element("span", "chips", ...words);
}

// ---- dialogues ----

// Of several agents, each has a dialogue of its own: what it reads may be from the human, a colleague or the rules.
function speaker(role, agent) {
  if (!agent) return SPEAKERS[role] || role;
  return role === "assistant" ? agent : `To ${agent}`;
}

function messageElement(role, text, title, ...marks) {
  const head = element("div", "speaker", element("span", "", title), ...marks.filter(Boolean));
  const made = element("div", role === "assistant" ? "message agent" : "message", head);
  for (const piece of pieces(text)) {
    made.append(piece.isCode ? element("pre", "", piece.text.trimEnd()) : element("div", "prose", piece.text.trim()));
  }
  if (!text.trim()) made.append(element("p", "note", "Nothing was said."));
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
  const places = [];
  const goTo = (turn) => {
    const place = places[turn];
    if (place) place.focus();
    if (place) place.scrollIntoView({ block: "nearest" });
  };
  made.append(head, whyElement(dialogue, goTo));
  let turn = 0;
  for (const [role, text, thought, reason, agent] of dialogue.messages) {
    let title = speaker(role, agent), bars = null;
    if (role === "assistant") {
      if (dialogue.advantages) bars = advantageBars(dialogue.advantages, turn, largest);
      turn += 1;
      title += `, turn ${turn}`;
      if (reason) title += reason === "length" ? ", cut by the limit of tokens" : `, ended by ${reason}`;
    }
    const message = messageElement(role, text, title, turn ? chips(dialogue, role, turn) : "", bars);
    if (thought) message.querySelector(".speaker").after(folded("Thought", false, element("pre", "", thought)));
    if (role === "assistant") {
      message.tabIndex = -1;
      places[turn] = message;
    }
    made.append(message);
  }
  if (dialogue.void_reason) made.append(element("p", "message note", `Void: ${dialogue.void_reason}.`));
  if (turn === 0) made.append(element("p", "message note", "This dialogue has no agent turns."));
  const extra = Math.max(0, ...Object.values(dialogue.advantages || {}).map((values) => values.length)) - turn;
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
      searched: [dialogue.task, dialogue.kind ? kindTitle(dialogue) : "", ...dialogue.messages.map(([role, text, , , agent]) => (agent ? `${speaker(role, agent)} ${text}` : text))].join("\n").toLowerCase(),
    }));
    for (const name of ["agent", "split", "outcome"]) {
      const present = new Set(this.dialogues.map((dialogue) => dialogue[name]));
      const values = name === "agent" ? data.agents : [...present];
      values.forEach((value) => this.form.elements[name].add(new Option(value, value)));
    }
    this.offerKinds(this.form.elements.why);
    data.agents.forEach((agent) => this.form.elements.beside.add(new Option(agent, agent)));
    this.form.addEventListener("input", () => this.filter());
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.list.addEventListener("keydown", (event) => this.move(event));
    this.filter();
  }

  // Every kind with its number of dialogues; below it, the topics that it is about.
  offerKinds(choice) {
    choice.closest("label").hidden = data.kinds.length === 0;
    for (const kind of data.kinds) {
      const own = this.dialogues.filter((dialogue) => dialogue.kind === kind.name);
      choice.add(new Option(`${kind.title} (${own.length})`, kind.name));
      const counts = new Map();
      own.forEach((dialogue) => dialogue.about.forEach((topic) => counts.set(topic, (counts.get(topic) || 0) + 1)));
      const topics = [...counts].sort((one, other) => other[1] - one[1]);
      topics.forEach(([topic, count]) => choice.add(new Option(`\u00a0\u00a0${kind.title} ${topic} (${count})`, kind.name + PARTS + topic)));
    }
  }

  isOfKind(dialogue, wanted) {
    const [kind, topic] = wanted.split(PARTS);
    return !wanted || (dialogue.kind === kind && (topic === undefined || dialogue.about.includes(topic)));
  }

  filter() {
    const { agent, split, outcome, why, text, advantages } = this.form.elements;
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = this.dialogues.filter((dialogue) =>
      [[agent, "agent"], [split, "split"], [outcome, "outcome"]].every(([field, name]) => !field.value || dialogue[name] === field.value)
      && this.isOfKind(dialogue, why.value)
      && (!advantages.checked || dialogue.advantages)
      && words.every((word) => dialogue.searched.includes(word)));
    this.count.textContent = `${found.length} of ${this.dialogues.length} dialogues match`;
    this.list.replaceChildren(...found.map((dialogue) => this.row(dialogue)));
    if (found.length === 0) this.list.append(element("p", "message note", "No dialogue matches."));
    const telling = this.dialogues[data.first];
    if (found.length > 0) this.show([this.selected, telling, found[0]].find((dialogue) => found.includes(dialogue)));
    else this.case.replaceChildren();
  }

  row(dialogue) {
    const mark = dialogue.advantages ? element("span", "", "advantages") : "";
    const about = element("span", "", `${dialogue.agent} · ${dialogue.split}`);
    const made = element("button", data.colours[dialogue.agent] || "", element("span", "task", dialogue.task),
      element("span", "line", about, mark), element("span", "line", badge(dialogue), turnsOf(dialogue)));
    if (dialogue.kind && dialogue.success !== 1) made.append(element("span", "line", element("span", "", kindTitle(dialogue))));
    made.type = "button";
    made.title = dialogue.task;
    made.dialogue = dialogue;
    made.addEventListener("click", () => this.show(dialogue));
    return made;
  }

  show(dialogue) {
    this.selected = dialogue;
    for (const row of this.list.children) row.setAttribute("aria-current", String(row.dialogue === dialogue));
    const beside = this.form.elements.beside.value;
    const sides = this.dialogues
      .filter((other) => ["split", "task", "episode"].every((name) => other[name] === dialogue[name]))
      .filter((other) => other === dialogue || !beside || other.agent === beside)
      .sort((one, other) => data.agents.indexOf(one.agent) - data.agents.indexOf(other.agent));
    const largest = largestOf(sides);
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
