// The interactive parts of the report: learning curves here, the dialogue viewer in viewer.js. Text from the data is only set as textContent,
// and elements are created by name, so that text written by a model cannot become markup.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);

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

document.querySelectorAll(".chart").forEach((figure) => new Chart(figure));
