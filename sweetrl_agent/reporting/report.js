// Draws the charts of a page, and what the other scripts share; the dialogue viewer is in viewer.js, the table of runs in index.js.
// Text from the data is only set as textContent, and elements are created by name, so that text written by a model cannot become markup.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);

// Each chart is drawn when its figure has a width: those in folds have none before they are opened. `ast`: expressions are interpreted, never compiled.
const figures = new ResizeObserver((entries) => {
  for (const { target } of entries.filter((entry) => entry.contentRect.width > 0)) {
    figures.unobserve(target);
    vegaEmbed(target.querySelector(".plot"), data.charts[Number(target.dataset.chart)], { ast: true, actions: false, defaultStyle: false, renderer: "svg", logLevel: 1 })
      .then(() => target.classList.add("drawn"));
  }
});
document.querySelectorAll("[data-chart]").forEach((figure) => figures.observe(figure));

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
