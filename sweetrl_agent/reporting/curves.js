// ---- learning curves ----

// At most `count` + 1 round numbers between low and high.
function ticks(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough * 0.999);
  const first = Math.ceil(low / step - 1e-9), length = Math.floor(high / step + 1e-9) - first + 1;
  return Array.from({ length: Math.max(0, Math.min(length, 20)) || 0 }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

function range(values) {
  const low = Math.min(...values), high = Math.max(...values);
  const margin = high > low ? 0 : Math.abs(high) * 0.1 || 1;
  return [low - margin, high + margin];
}

// The points [x, y] of one run that have both numbers.
function pointsOf(run, axis, metric) {
  const xs = run.columns[axis] || [], ys = run.columns[metric] || [];
  return xs.map((x, i) => [x, ys[i]]).filter(([x, y]) => x !== null && y !== null && y !== undefined);
}

// Means of the i-th points, as far as all lines have them.
function meanLine(lines) {
  const length = Math.min(...lines.map((line) => line.length));
  const mean = (i, j) => lines.reduce((sum, line) => sum + line[i][j], 0) / lines.length;
  return Array.from({ length }, (_, i) => [mean(i, 0), mean(i, 1)]);
}

class LearningChart {
  constructor(figure) {
    this.chart = data.curves[Number(figure.dataset.curve)];
    this.svg = figure.querySelector("svg.curve");
    this.metric = figure.querySelector("select[name=metric]");
    this.axis = figure.querySelector("select[name=axis]");
    this.readout = figure.querySelector(".readout");
    for (const choice of [this.metric, this.axis]) choice.addEventListener("change", () => this.draw());
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => this.unpoint());
    new ResizeObserver(() => this.draw()).observe(figure);
  }

  shape(parent, name, attributes, text) {
    const made = document.createElementNS(this.svg.namespaceURI, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  }

  // Lines of every series: those of its runs, and their mean.
  lines() {
    return this.chart.series.map((series) => {
      const runs = series.runs.map((run) => pointsOf(run, this.axis.value, this.metric.value)).filter((line) => line.length);
      return { series, runs, mean: runs.length ? meanLine(runs) : [] };
    }).filter((line) => line.mean.length);
  }

  draw() {
    const width = this.svg.clientWidth, height = this.svg.clientHeight;
    if (width === 0) return;
    this.drawn = this.lines();
    this.svg.replaceChildren();
    const label = this.chart.axes[this.axis.value];
    this.shape(this.svg, "title", {}, `${this.metric.value} of ${this.chart.title} over ${label}`);
    const points = this.drawn.flatMap((line) => line.runs.flat());
    if (points.length === 0) {
      this.readout.textContent = "No run has logged both.";
      return;
    }
    const left = 54, right = 16, top = 10, bottom = 40;
    const [xLow, xHigh] = range(points.map((point) => point[0])), [yLow, yHigh] = range(points.map((point) => point[1]));
    this.x = (x) => left + (width - left - right) * (x - xLow) / (xHigh - xLow);
    this.y = (y) => height - bottom - (height - top - bottom) * (y - yLow) / (yHigh - yLow);
    for (const tick of ticks(yLow, yHigh, 4)) {
      this.shape(this.svg, "line", { class: "grid", x1: left, x2: width - right, y1: this.y(tick), y2: this.y(tick) });
      this.shape(this.svg, "text", { class: "end", x: left - 6, y: this.y(tick) + 4 }, short(tick));
    }
    for (const tick of ticks(xLow, xHigh, width < 400 ? 4 : 6)) {
      this.shape(this.svg, "text", { class: "middle", x: Math.min(this.x(tick), width - 20), y: height - 23 }, short(tick));
    }
    this.shape(this.svg, "text", { class: "middle", x: (width + left - right) / 2, y: height - 6 }, label);
    for (const line of this.drawn) this.drawSeries(line);
    this.cursor = this.shape(this.svg, "line", { class: "cursor", y1: top, y2: height - bottom, visibility: "hidden" });
    this.unpoint();
  }

  drawSeries({ series, runs, mean }) {
    const group = this.shape(this.svg, "g", { class: series.colour });
    if (runs.length > 1) for (const run of runs) this.path(group, run, "thin");
    this.path(group, mean, "");
  }

  path(group, points, name) {
    if (points.length === 1) {
      this.shape(group, "circle", { class: name ? "seed" : "mean", cx: this.x(points[0][0]), cy: this.y(points[0][1]), r: name ? 2.6 : 3.5 });
      return;
    }
    const d = points.map(([x, y], i) => `${i ? "L" : "M"}${this.x(x).toFixed(1)} ${this.y(y).toFixed(1)}`).join("");
    this.shape(group, "path", { class: name, d });
  }

  point(event) {
    if (!this.drawn?.length) return;
    const at = event.clientX - this.svg.getBoundingClientRect().left;
    const nearest = (line) => line.reduce((best, point) => Math.abs(this.x(point[0]) - at) < Math.abs(this.x(best[0]) - at) ? point : best);
    const found = this.drawn.map((line) => [line.series.name, nearest(line.mean)]);
    const x = this.x(found[0][1][0]);
    for (const [key, value] of [["x1", x], ["x2", x], ["visibility", "visible"]]) this.cursor.setAttribute(key, value);
    const values = found.map(([name, point]) => found.length > 1 ? `${name} ${short(point[1])}` : short(point[1]));
    this.readout.textContent = `${this.chart.axes[this.axis.value]} ${short(found[0][1][0])}: ${values.join(", ")}`;
  }

  unpoint() {
    if (!this.drawn?.length) return;
    this.cursor.setAttribute("visibility", "hidden");
    const ends = this.drawn.map(({ series, mean }) => {
      const change = `${short(mean[0][1])} \u2192 ${short(mean.at(-1)[1])}`;
      return this.drawn.length > 1 ? `${series.name} ${change}` : change;
    });
    const runs = Math.max(...this.drawn.map((line) => line.runs.length)), meanOf = this.chart.mean_of;
    const thinned = meanOf > 1 ? `; each point is the mean of up to ${meanOf} logged rows` : "";
    this.readout.textContent = `${ends.join(", ")}${runs > 1 ? `; mean of ${runs} runs` : ""}${thinned}`;
  }
}

document.querySelectorAll("[data-curve]").forEach((figure) => new LearningChart(figure));
