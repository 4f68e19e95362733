// What the parts of the report's script share; the dialogue viewer is in viewer.js, learning curves in curves.js, the table of runs in index.js.
// Text from the data is only set as textContent, and elements are created by name, so that text written by a model cannot become markup.
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

