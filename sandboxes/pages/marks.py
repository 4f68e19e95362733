"""Hide texts, images and controls of a laid-out page and show them again, without the page being able to detect it.

A style sheet of the page can react to everything in the document, including the styles of its elements. So each element is marked once:
its colours and its opacity come from variables with unguessable names. Afterwards only the values of the variables change, which no
selector can detect. Page scripts could detect it, but ColBench's pages run none.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence

_MARK = """
const all = [...document.querySelectorAll('*')];
const isOwned = new Set(owned), asThing = place => 2 * place, asText = place => 2 * place + 1;
const svg = 'http://www.w3.org/2000/svg';
const isClipped = e => getComputedStyle(e).backgroundClip.includes('text');
const clips = new Map();  // element whose ground shows through letters only -> elements of these letters
for (const id of owned.filter(id => id % 2)) {
  let e = all[(id - 1) / 2];
  while (e && !isClipped(e)) e = e.parentElement;
  if (e) clips.set(e, [...(clips.get(e) || []), id]);
}
const marks = [], changes = [];
const mark = (e, id, property, away, value) => {
  changes.push([e, property, `var(--${name}-${marks.length})`]);
  marks.push([id, away, value]);
};
const isField = e => ['INPUT', 'TEXTAREA', 'SELECT'].includes(e.tagName.toUpperCase());
const pseudos = [];  // rules that leave letters as they are that are not the element's own
all.forEach((e, place) => {
  if (!e.style) return;
  for (const pseudo of isField(e) ? ['placeholder'] : ['before', 'after', 'marker']) {
    const own = getComputedStyle(e, '::' + pseudo);
    if (pseudo === 'placeholder' || own.content !== 'none' && own.content !== 'normal' || pseudo === 'marker' && own.display === 'list-item') {
      e.setAttribute(`${name}-${place}`, '');
      pseudos.push(`[${name}-${place}]::${pseudo} { -webkit-text-fill-color: ${own.webkitTextFillColor} !important; ` +
        `-webkit-text-stroke-color: ${own.webkitTextStrokeColor} !important; }`);
    }
  }
  const style = getComputedStyle(e), text = asText(place), thing = asThing(place), isText = isOwned.has(text);
  for (const [property, value] of [
    ['-webkit-text-fill-color', style.webkitTextFillColor], ['-webkit-text-stroke-color', style.webkitTextStrokeColor],
  ]) isText ? mark(e, text, property, 'transparent', value) : changes.push([e, property, value]);
  if (isText && e.namespaceURI === svg) mark(e, text, 'fill', 'transparent', style.fill);
  if (isOwned.has(thing)) mark(e, thing, 'opacity', '0', style.opacity);
});
for (const [e, ids] of clips) if (ids.length === 1) {  // of several letters' ground nobody knows whose it is
  mark(e, ids[0], 'background-image', 'none', getComputedStyle(e).backgroundImage);
  mark(e, ids[0], 'background-color', 'transparent', getComputedStyle(e).backgroundColor);
}
for (const e of all) if (e.style) e.style.setProperty('transition', 'none', 'important');
for (const [e, property, value] of changes) e.style.setProperty(property, value, 'important');
const sheet = new CSSStyleSheet();
document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
globalThis[name] = taken => {
  const isTaken = new Set(taken);
  const values = marks.map(([id, away, value], i) => `--${name}-${i}: ${isTaken.has(id) ? away : value} !important;`);
  sheet.replaceSync(`:root { ${values.join(' ')} } ${pseudos.join(' ')}`);
};
"""


def mark_of(place: int, is_text: bool) -> int:
    """The number of an element with its content, or of its own text.

    Args:
        place: The element's index among all of the document's elements, in the order of the source.
        is_text: True for the element's own text.
    """
    return 2 * place + is_text


class Marks:
    """The marks of one page.

    Args:
        owned: Numbers of the parts that can be hidden (`mark_of`).
    """

    def __init__(self, owned: Sequence[int]) -> None:
        self._name = f"m{secrets.token_hex(16)}"
        self._owned = list(owned)

    def mark(self) -> str:
        """A script that marks the page without a visible change."""
        return f"(() => {{ const name = {json.dumps(self._name)}, owned = {json.dumps(self._owned)}; {_MARK} }})()"

    def without(self, taken: Sequence[int]) -> str:
        """A script after which the page shows everything except these parts."""
        return f"globalThis[{json.dumps(self._name)}]({json.dumps(list(taken))})"
