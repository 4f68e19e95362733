"""Which rules of a style sheet a page can use."""

from __future__ import annotations

import pytest

from sandboxes.pages.stylesheet import StyleSheet, needed_classes

SHEET = (
    "*{margin:0}h1,.title{color:red}.a .b{color:blue}.sm\\:flex{display:flex}.w-0\\.5{width:2px}.\\32xl\\:flex{display:block}"
    "@media (min-width:640px){.sm\\:p-4{padding:1rem}.never{top:0}}@media print{.never{top:0}}@keyframes spin{to{top:1px}}"
    '[src$=".png"]{left:0}.space-x-4>:not(.other)~:not([hidden]){right:0}'
)


@pytest.mark.parametrize(
    ("html", "used", "unused"),
    [
        ("<p>", ["*{margin:0}", "h1,.title{", "@keyframes spin", '[src$=".png"]'], [".a .b", "@media", "flex"]),
        ('<p class="a">', [], [".a .b"]),
        ("<p class='a b'>", [".a .b"], []),
        ("<p class=sm:flex>", [".sm\\:flex"], ["@media"]),
        ('<p class="\n w-0.5\t2xl:flex ">', [".w-0\\.5{width:2px}", "xl\\:flex{display:block}"], []),
        ('<p class="sm:p-4">', ["@media (min-width:640px){.sm\\:p-4{padding:1rem}}"], ["never", "@media print"]),
        ('<p class="space-x-4">', [".space-x-4>"], []),
    ],
)
def test_rules_that_cannot_apply_are_left_out(html, used, unused):
    sheet = StyleSheet(SHEET).for_page(html)
    assert all(text in sheet for text in used) and not any(text in sheet for text in unused)


def test_needed_classes_are_those_of_each_selector():
    assert needed_classes(".a.b,.c:hover .d\\/2,p") == (frozenset("ab"), frozenset({"c", "d/2"}), frozenset())
