"""What counts on a page is what is seen: covered, faded, clipped and tiny things do not, however they are hidden."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from colbench_gym.scoring.blocks import compare
from sandboxes.browser import Browser
from sandboxes.pages import Box, Page
from sandboxes.pages import seen as what_is_seen
from sandboxes.pages.seen import hides_nothing, may_hide
from sandboxes.pages.styles import is_plain

REFERENCE = """\
<body style="margin:0;background:#eef">
<header style="background:#123456;color:white;padding:20px"><h1>Riverside Pottery</h1></header>
<main style="padding:20px"><p>Open every day from nine to five, and on Sundays by appointment.</p>
<img src="https://picsum.photos/300/200"><form><input value="Your name"><button>Send it</button></form></main>
<footer style="background:#222;color:#ddd;padding:20px">Mill Lane 4, Bath</footer>
"""
TEXTS = [
    "Riverside Pottery",
    "Open every day from nine to five, and on Sundays by appointment.",
    "Your name",
    "Send it",
    "Mill Lane 4, Bath",
]
COVER = "position:fixed;inset:0;background:white"
HIDDEN = {
    "overlay": f'<div style="{COVER}"></div>',
    "overlay that lets the mouse through": f'<div style="{COVER};pointer-events:none"></div>',
    "overlay with a gradient": '<div style="position:fixed;inset:0;background:linear-gradient(white,white)"></div>',
    "overlay of a pseudo-element": '<style>body::after{content:"";position:fixed;inset:0;background:#fff}</style>',
    "overlays of every element's own": "<style>body{position:relative}body *{position:relative}h1::after,p::after,footer::after"
    '{content:"";position:absolute;inset:0;background:currentColor}img,input,button{visibility:hidden}</style>',
    "shadow of a neighbour": '<div style="position:absolute;top:0;left:0;width:1px;height:1px;box-shadow:0 0 0 3000px white"></div>',
    "outline of a neighbour": '<div style="position:absolute;top:0;left:0;width:1px;height:1px;outline:3000px solid white"></div>',
    "overlay that changes with what is taken away": f'<style>.o{{{COVER}}}p[style*=transparent]~.o,main[style]~.o{{background:black}}</style><div class=o></div>',
    "transparent text": "<style>*{color:transparent!important}img,input{opacity:0}</style>",
    "text of no fill": "<style>*{-webkit-text-fill-color:transparent}img,input,button{opacity:0}</style>",
    "nearly transparent text": "<style>*{color:rgba(200,200,220,.02)!important}img,input,button{opacity:.02}</style>",
    "faded": "<style>body{opacity:.03}</style>",
    "faded by a filter": "<style>body{filter:opacity(0)}</style>",
    "all of one colour by a filter": "<style>html{filter:brightness(0)}</style>",
    "clipped": "<style>body{clip-path:inset(50%)}</style>",
    "clipped by its box": "<style>main,header,footer{height:0;padding:0!important;overflow:hidden}</style>",
    "masked": "<style>body{-webkit-mask-image:linear-gradient(transparent,transparent)}</style>",
    "made tiny": "<style>body{transform:scale(.005)}</style>",
    "off the page": "<style>main,header,footer{position:absolute;left:-5000px}</style>",
    "under letters": f'<div style="{COVER};color:#888">{"Cheap page " * 400}</div>',
    "under a huge letter of a pseudo-element": '<style>body::after{content:"████";position:fixed;top:-300px;left:-100px;font-size:3000px;color:white;line-height:1}</style>',
    "under a letter that leaves its line": '<style>@font-face{font-family:E;src:local("DejaVu Sans");ascent-override:0.01%;descent-override:0%;line-gap-override:0%}'
    '</style><div style="position:fixed;top:-10px;left:-100px;font:3000px E;color:white">████</div>',
    "under thin lines": "".join(f'<div style="position:fixed;left:0;right:0;top:{8 * i}px;height:7px;background:white;color:black;border-top:1px solid"></div>' for i in range(150)),
    "under what its own colour paints": f'<div style="{COVER};background:repeating-linear-gradient(currentColor 0 2px,#eee 2px 40px);color:white"></div>',
    "under what notices that it is looked at": f'<style>.c{{{COVER}}}.c[style]{{background:none!important}}</style><div class=c></div>',
    "under what notices what is taken away": f'<style>.c{{{COVER}}} body:has([style*=transparent]) .c{{background:repeating-linear-gradient(red 0 3px,blue 3px 6px)}}</style><div class=c></div>',
    "under a child of its own": "<style>h1,p,footer,button{position:relative}</style><script></script>"
    '<button style="border:0;padding:0;background:none"><span style="position:fixed;inset:0;background:white"></span></button>',
    "behind a shadow tree": f'<div><template shadowrootmode="open"><div style="{COVER};z-index:9"></div></template></div>',
    "too small to read": "<style>*{font-size:1px!important}img,input,button{opacity:0}</style>",
    "one letter of each": "<style>h1,p,footer,button{width:1px;overflow:hidden;white-space:nowrap}img,input{visibility:hidden}</style>",
    "clip of old": "<style>body{position:absolute;width:100%;clip:rect(0,0,0,0)}</style>",
    "mask of old": "<style>body{-webkit-mask-box-image:linear-gradient(transparent,transparent)}</style>",
    "reflection": '<div style="position:fixed;left:-1280px;top:0;width:1280px;height:900px;background:white;-webkit-box-reflect:right"></div>',
    "first lines": "<style>*::first-line{color:transparent}img,input,button{opacity:0}</style>",
    "border of one side": '<div style="position:fixed;left:0;top:0;height:100%;border-left:1280px solid white;border-top-color:transparent"></div>',
    "veils": '<div style="position:fixed;inset:0;background:rgba(255,255,255,.49)"></div>' * 9,
    "progress bar": f"<style>progress{{appearance:none;{COVER};width:100%;height:100%}}progress::-webkit-progress-bar{{background:white}}</style><progress></progress>",
    "details": f"<style>details{{position:fixed}}details::details-content{{content-visibility:visible;{COVER}}}</style><details><summary></summary></details>",
    "marker": '<style>li{position:fixed;top:-600px;left:0;list-style:"████" inside}li::marker{font-size:2000px;color:white}</style><li>',
    "thin rows": "".join(f'<i style="position:fixed;left:0;right:0;top:{1.4 * i}px;height:1.45px;background:white"></i>' for i in range(600)),
    "shadows of points": "".join(f'<i style="position:fixed;left:{120 * x}px;top:{120 * y}px;width:1px;height:1px;box-shadow:0 0 0 60px white"></i>' for x in range(12) for y in range(7)),
    "line through nothing": '<div style="position:fixed;top:-900px;left:-100px;font-size:2500px;text-decoration:line-through .5em;color:white">&nbsp;&nbsp;</div>',
    "other words": "<style>h1,p,footer{position:relative}h1::before,p::before,footer::before{content:'Totally other words that nobody asked for';position:absolute;inset:0;color:inherit}"
    "h1::before{background:#123456}p::before{background:#eef}footer::before{background:#222}img,input,button{opacity:0}</style>",
    "nearly faded": "<style>body{opacity:.1}</style>",
    "veil of a pseudo-element": '<style>body::after{content:"";position:fixed;inset:0;background:rgba(255,255,255,.9)}</style>',
    "a strip": "<style>h1,p,footer,button{clip-path:inset(46% 0)}img,input{opacity:0}</style>",
    "one row of ten": "<style>body::after{content:'';position:fixed;inset:0;background:repeating-linear-gradient(#fff 0 9px,transparent 9px 10px)}</style>",
    "first words": "<style>h1,p,footer,button{width:3em;height:1.2em;overflow:hidden;padding:0!important}h1{width:1.5em}img,input{opacity:0}button{width:.4em}</style>",
    "letters in another order": "<style>*{unicode-bidi:bidi-override;direction:rtl}img,input,button{opacity:0}</style>",
    "never ending animation": "<style>html{animation:h 9s infinite}@keyframes h{from,to{opacity:0}}</style>",
    "in the colour of its ground": "<style>*{color:white!important;background:white!important;border-color:white!important}img,input{opacity:0}</style>",
}  # fmt: skip


@pytest.fixture(scope="module")
def browser(needs_browser):
    with Browser(workers=1, pictures=False) as browser:
        yield browser


@pytest.fixture(scope="module")
def reference(browser):
    return browser.render([Page(REFERENCE)])[0]


@pytest.mark.browser
def test_what_stands_side_by_side_is_seen_without_looking(browser, reference, monkeypatch):
    assert [box.text for box in reference.boxes if box.text] == TEXTS
    monkeypatch.setattr("sandboxes.pages.tab.Look", lambda *_: pytest.fail("No picture is needed here."))
    (again,) = browser.render([Page(REFERENCE + "<!-- again -->")])
    assert compare(again, reference).score.total == 1.0


@pytest.mark.browser
@pytest.mark.parametrize("name", HIDDEN)
def test_a_right_page_that_is_hidden_scores_below_half(browser, reference, name):
    (rendering,) = browser.render([Page(REFERENCE + HIDDEN[name])])
    assert not {box.text for box in rendering.boxes} & set(TEXTS), [box for box in rendering.boxes if box.text]
    assert compare(rendering, reference).score.total < 0.5


@pytest.mark.browser
@pytest.mark.parametrize(
    "style",
    [
        "header{position:sticky;top:0}",
        "p{opacity:.8;filter:contrast(.9)}",
        "main{transform:translateX(3px)}",
        "h1{background:linear-gradient(red,blue);-webkit-background-clip:text;color:transparent}",
        "header{background-image:url(https://picsum.photos/800/200)}",
        "main{overflow:hidden;position:relative}",
        "p{text-shadow:1px 1px 2px black;transition:color 9s;animation:x 9s}",
        "button{background:#060;color:white;border:0}",
        "button{background:#060;color:white;border:0}form{background:white}",
        "p{-webkit-text-fill-color:transparent;-webkit-text-stroke:1px black}",
        "main::before{content:'';display:block;height:4px;background:red}",
        "h1{letter-spacing:-1px}footer::after{content:' \\2605';color:red}",
        "@font-face{font-family:E;src:local('DejaVu Sans');ascent-override:30%}p{font-family:E;line-height:3}",
    ],
)
def test_what_is_looked_at_and_seen_stays(browser, style):
    (rendering,) = browser.render([Page(f"{REFERENCE}<style>{style}</style><div style='opacity:.9'></div>")])
    assert [box.text for box in rendering.boxes if box.text] == TEXTS
    assert [box.kind for box in rendering.boxes if box.kind in ("image", "control")] == ["image", "control", "control"]
    for box in rendering.boxes:
        assert box.parent < rendering.boxes.index(box)


@pytest.mark.browser
def test_texts_on_pictures_and_placeholders_are_seen_where_a_page_is_looked_at(browser):
    page = (
        '<div style="opacity:.9">x</div><input placeholder="Your email"><div style="position:relative"><img src=https://picsum.photos/600/300>'
        '<h1 style="position:absolute;top:100px;color:white">Welcome</h1></div><p>a</p><p>b</p><ul><li>c</ul>'
    )
    (rendering,) = browser.render([Page(page)])
    assert [box.text for box in rendering.boxes if box.text] == ["x", "Your email", "Welcome", "a", "b", "c"]


@pytest.mark.browser
def test_colours_are_those_that_are_seen(browser):
    def colours(style):
        (rendering,) = browser.render(
            [
                Page(
                    f"<body style='background:white'><p style='background-color:#eef;color:#123'>Some words</p><style>{style}</style>"
                )
            ]
        )
        return [(box.colour, box.background) for box in rendering.boxes if box.tag == "p"]

    assert colours("") == [((17, 34, 51), (238, 238, 255)), ((17, 34, 51), None)]
    assert colours("*{-webkit-text-fill-color:red}")[-1][0] == (255, 0, 0)
    inverted = colours("html{filter:invert(1)}")
    assert inverted[-1][0][0] > 200 and inverted[0][1][2] < 50
    assert colours("p{background-image:linear-gradient(lime,lime)}")[0][1] == (0, 255, 0)


def test_large_boxes_are_looked_at_in_steps(monkeypatch):
    sizes = []
    monkeypatch.setattr(
        what_is_seen, "_painted", lambda box, after, part, step: sizes.append(after[part].shape[0] * after[part].shape[1])
    )
    picture = io.BytesIO()
    Image.new("RGB", (1280, 9000), "white").save(picture, "PNG")
    look = what_is_seen.Look([Box("block", "b", 0, 0, 1280, 9000)] * 3, [-1] * 3, picture.getvalue())
    for _ in look.pictures:
        look.add(picture.getvalue())
    assert look.seen() == () and max(sizes) <= what_is_seen.MOST_BLOCK_PIXELS


@pytest.mark.parametrize(
    ("html", "is_it"),
    [
        ("<p class='font-bold' style='color:#123;padding:2px 3px'>A", True),
        ('<link href="https://cdn.jsdelivr.net/npm/tailwindcss@2.2.19/dist/tailwind.min.css" rel="stylesheet"><p>A', True),
        ("<p style='background:rgba(1,2,3,.5)'>A", True),
        ("<STYLE>p{}</style>", False),
        ("<link rel=stylesheet href='data:text/css,p{}'>", False),
        ("<p style=color:red>A", False),
        ("<p style='background:url(x)'>A", False),
        ("<p style='c\\6flor:red'>A", False),
        ("<p style='color:red;letter-spacing:1px'>A", False),
        ("<meta name=color-scheme content=dark><p>A", False),
        ("<p style='color:red'>A" * 2_001, False),
    ],
)
def test_a_page_is_plain_where_its_computed_styles_tell_everything(html, is_it):
    assert is_plain(html) is is_it


@pytest.mark.browser
def test_pictures_of_a_pixel_or_of_nothing_are_not_seen(browser):
    nothing = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
    page = f"<p>Two pictures</p><img src='{nothing}' width=300 height=200><svg width=200 height=100></svg><img src='https://picsum.photos/1/1'>"
    (rendering,) = browser.render([Page(page)])
    assert [box.kind for box in rendering.boxes] == ["text"]


@pytest.mark.browser
def test_half_of_a_page_is_half_of_it(browser, reference):
    half = '<div style="position:fixed;top:0;left:0;right:0;height:120px;background:white"></div>'
    (rendering,) = browser.render([Page(REFERENCE + half)])
    assert [box.text for box in rendering.boxes if box.text] == TEXTS[1:]


@pytest.mark.browser
def test_texts_in_pictures_controls_tables_and_after_templates_are_seen(browser):
    page = (
        "<template><p>never</p></template><table><tr><td style='opacity:.9'>cell</table><svg width=90 height=50><circle r=20 /><text x=5 y=20>drawn</text></svg>"
        "<button style='background:black;color:white'>pressed <b>hard</b></button><details open><summary>short</summary>long</details>"
    )
    (rendering,) = browser.render([Page(f"<body style='background:white'>{page}")])
    assert [box.text for box in rendering.boxes if box.kind == "text"] == ["cell", "drawn", "pressed", "hard", "short", "long"]
    assert [box.tag for box in rendering.boxes if box.kind in ("image", "control")] == ["svg", "button"]


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 400, 2_000])
def test_no_code_holds_another(count):
    codes = what_is_seen._codes(count)
    assert len(set(codes)) == count and all(codes) and max(codes, default=0) < 2**14
    assert not any(a & b == a for a in codes[:200] for b in codes if a != b)


STYLE = (
    {name: harmless[0] for name, harmless in what_is_seen.HARMLESS.items()}
    | dict.fromkeys(what_is_seen.NEGATIVE, "auto")
    | dict.fromkeys((f"border-{side}-width" for side in ("top", "right", "bottom", "left")), "0px")
    | {"box-shadow": "none", "background-color": "rgba(0, 0, 0, 0)", "font-size": "16px"}
)
#: What of each is noticed, where "other" is not.
OTHER = {
    **dict.fromkeys(what_is_seen.NEGATIVE, "-1px"),
    **dict.fromkeys((name for name in STYLE if name.startswith("border") and name.endswith("width")), "900px"),
    "box-shadow": "rgb(0, 0, 0) 0px 0px 0px 900px",
    "background-color": "rgba(255, 255, 255, 0.49)",
    "font-size": "2500px",
}


@pytest.mark.parametrize("name", STYLE)
def test_every_style_that_may_hide_is_noticed(name):
    assert not may_hide("p", STYLE)
    assert may_hide("p", STYLE | {name: OTHER.get(name, "other")})


@pytest.mark.parametrize(
    "shadow", ["0px 0px 0px 50px", "50px 0px 0px 0px", "0px 40px 20px 0px", "0px 4px 6px 0px, rgb(0, 0, 0) 0px 0px 4px 40px"]
)
def test_shadows_that_cover_their_neighbours_are_noticed(shadow):
    assert may_hide("p", STYLE | {"box-shadow": f"rgb(255, 255, 255) {shadow}"})


def test_shadows_that_stay_near_and_pictures_with_their_own_sides_hide_nothing():
    near = {"box-shadow": "rgba(0, 0, 0, 0.1) 0px 4px 6px -1px", "z-index": "5"}
    assert not may_hide("p", STYLE | near) and not may_hide("img", STYLE | {"overflow-x": "clip"})
    assert may_hide("p", STYLE | {"overflow-x": "clip"}) and may_hide("svg", STYLE)


def test_boxes_that_lie_on_each_other_or_match_their_ground_are_looked_at():
    page = Box("block", "div", 0, 0, 400, 300, background=(255, 255, 255))
    text = Box("text", "p", 10, 10, 100, 20, text="A", parent=0)
    assert hides_nothing([page, text])
    assert not hides_nothing([page, text, Box("block", "div", 50, 15, 300, 100, background=(0, 0, 0))])
    assert hides_nothing([page, text, Box("block", "div", 110, 10, 300, 100, background=(0, 0, 0))])
    assert not hides_nothing([page, Box("text", "p", 10, 10, 100, 20, text="A", colour=(240, 250, 250), parent=0)])
    assert not hides_nothing([page] * (what_is_seen.MANY + 1))
