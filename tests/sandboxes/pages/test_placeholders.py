"""Placeholder pictures: documented addresses of services, with sizes and colours told apart, and what is drawn for them."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from sandboxes.browser import make_browser
from sandboxes.pages import Page
from sandboxes.pages.placeholders import LABELLED, MAX_SIDE, OTHERS, PHOTOS, UNKNOWN_SIZE, Picture, draw, photo, picture_at
from sandboxes.pages.web_files import WebFiles

#: Address without its scheme, and the picture it asks for.
ADDRESSES = {
    "via.placeholder.com/150": (150, 150),
    "via.placeholder.com/600x400/cccccc/969696": ((600, 400), "#cccccc", "#969696"),
    "via.placeholder.com/300.png/09f/fff": ((300, 300), "#09f", "#fff"),
    "via.placeholder.com/300.png/09f/fff?text=C%2FO": ((300, 300), "#09f", "#fff", "C/O"),
    "via.placeholder.com/150/771796": ((150, 150), "#771796"),
    "via.placeholder.com/728x90.png?text=A+b": ((728, 90), "", "", "A b"),
    "placeholder.com/350x150": (350, 150),
    "www.placehold.it/350x150": (350, 150),
    "placehold.it/450/3185ab/": ((450, 450), "#3185ab"),
    "placehold.it/350x123/38394B/F5F8CC/&text=this+is": ((350, 123), "#38394B", "#F5F8CC", "this is"),
    "placehold.it/300x300.png/000": ((300, 300), "#000"),
    "placehold.co/600x400": (600, 400),
    "placehold.co/400": (400, 400),
    "placehold.co/600x400/000/fff": ((600, 400), "#000", "#fff"),
    "placehold.co/600x400/FF0000/FFFFFF": ((600, 400), "#FF0000", "#FFFFFF"),
    "placehold.co/600x400/orange/white": ((600, 400), "orange", "white"),
    "placehold.co/600x400/transparent/F00": ((600, 400), "transparent", "#F00"),
    "placehold.co/600x400/png": (600, 400),
    "placehold.co/600x400/EEE/31343C/png?text=Hi&font=roboto": ((600, 400), "#EEE", "#31343C", "Hi"),
    "placehold.co/600x400/000/fff.webp": ((600, 400), "#000", "#fff"),
    "placehold.co/600x400@2x.png": (1200, 800),
    "placehold.co/600x400.svg": (600, 400),
    "placehold.jp/3d4070/ffffff/150x151.png": ((150, 151), "#3d4070", "#ffffff"),
    "placehold.jp/24/cc9999/993333/150x100.png": ((150, 100), "#cc9999", "#993333"),
    "dummyimage.com/300": (300, 300),
    "dummyimage.com/600x400/000/fff": ((600, 400), "#000", "#fff"),
    "dummyimage.com/600x400/000/fff.png&text=hi+there": ((600, 400), "#000", "#fff", "hi there"),
    "dummyimage.com/640x480/ef/c": ((640, 480), "#efefef", "#cccccc"),
    "dummyimage.com/640x4:3": UNKNOWN_SIZE,
    "fakeimg.pl/300/": (300, 300),
    "fakeimg.pl/350x200/ff0000,128/000,255/?text=World&font=lobster": ((350, 200), "#ff0000", "#000", "World"),
    "fakeimg.pl/250x100/?retina=1": (500, 200),
    "fpoimg.com/300x250?bg_color=e6e6e6&text_color=111": ((300, 250), "#e6e6e6", "#111"),
    "placeholder.pics/svg/300x200/DEDEDE/555555/label": ((300, 200), "#DEDEDE", "#555555"),
    "dummyjson.com/image/400x200/008080/ffffff?text=x": ((400, 200), "#008080", "#ffffff", "x"),
    "picsum.photos/200": (200, 200),
    "picsum.photos/200/300?grayscale&blur=2": (200, 300),
    "picsum.photos/id/237/200/300.jpg": (200, 300),
    "picsum.photos/id/48/1600/900-estate": (1600, 900),
    "picsum.photos/seed/2x3/30/20": (30, 20),
    "picsum.photos/g/640/480": (640, 480),
    "picsum.photos/640x480.png": (640, 480),
    "unsplash.it/200/300/?random": (200, 300),
    "loremflickr.com/320/240": (320, 240),
    "loremflickr.com/320/240/dog,cat/all?lock=3": (320, 240),
    "loremflickr.com/g/320/240/paris": (320, 240),
    "lorempixel.com/g/400/200/sports/1/Dummy-Text": (400, 200),
    "placeimg.com/640/480/any/grayscale": (640, 480),
    "placekitten.com/200/300?image=4": (200, 300),
    "placekitten.com/g/200/300": (200, 300),
    "placebear.com/200/300.jpg": (200, 300),
    "placebeard.it/640x360": (640, 360),
    "baconmockup.com/300/200": (300, 200),
    "www.fillmurray.com/g/200/300": (200, 300),
    "www.stevensegallery.com/200/300": (200, 300),
    "www.placecage.com/c/200/300": (200, 300),
    "i.pravatar.cc/300": (300, 300),
    "i.pravatar.cc/150?img=3": (150, 150),
    "source.unsplash.com/random/800x600": (800, 600),
    "source.unsplash.com/800x600/?nature,water": (800, 600),
    "source.unsplash.com/featured/300x201": (300, 201),
    "source.unsplash.com/collection/190727/1600x900": (1600, 900),
    "source.unsplash.com/WLUHO9A_xik/1600x900": (1600, 900),
    "source.unsplash.com/random/300%C3%97200": (300, 200),
    "source.unsplash.com/random?apple,desk": UNKNOWN_SIZE,
    "source.unsplash.com/collection/190727": UNKNOWN_SIZE,
    "images.unsplash.com/photo-1525715843408?auto=format&fit=crop&w=900&h=400&q=80": (900, 400),
    "images.unsplash.com/photo-1525715843408?w=900": (900, 600),
    "images.unsplash.com/photo-1525715843408?h=400&dpr=2": (1200, 800),
    "images.unsplash.com/photo-1525715843408": UNKNOWN_SIZE,
    "images.pexels.com/photos/1/pexels-photo-1.jpeg": UNKNOWN_SIZE,
    "images.pexels.com/photos/1/pexels-photo-1.jpeg?auto=compress&h=750&w=1260": (1260, 750),
    "ui-avatars.com/api/?name=J+D": (64, 64),
    "ui-avatars.com/api/?name=J+D&size=128&background=0D8ABC&color=fff": ((128, 128), "#0D8ABC", "#fff"),
    "ui-avatars.com/api/Jane+Doe/256/000000/ffffff/2/0.5": ((256, 256), "#000000", "#ffffff"),
    "www.gravatar.com/avatar/205e460b479e2e5b48aec07710c08d50": (80, 80),
    "www.gravatar.com/avatar/205e460b479e2e5b48aec07710c08d50.jpg?s=200&d=mp": (200, 200),
    "secure.gravatar.com/avatar/205e?size=48": (48, 48),
    "avatars.dicebear.com/api/human/123.svg?size=96": (96, 96),
    "api.dicebear.com/7.x/initials/svg?seed=100": (128, 128),
    "robohash.org/100.png?set=set2&size=200x201": (200, 201),
    "robohash.org/100": (300, 300),
    "randomuser.me/api/portraits/men/75.jpg": (128, 128),
    "shop.example/images/1200x800.jpg": UNKNOWN_SIZE,
    "picsum.example/200/300.WEBP": UNKNOWN_SIZE,
}  # fmt: skip


def _picture(wanted):
    return Picture(wanted) if isinstance(wanted[0], int) else Picture(*wanted)


@pytest.mark.parametrize(("address", "wanted"), ADDRESSES.items(), ids=ADDRESSES)
def test_sizes_and_colours_of_documented_addresses_are_told_apart(address, wanted):
    assert picture_at(f"https://{address}") == _picture(wanted)


@pytest.mark.parametrize("form", ["http://{}", "//{}", "HTTPS://{}", "https://WWW.{}", "https://{}#top"])
def test_an_address_may_be_written_in_any_way(form):
    assert picture_at(form.format("placehold.co/600x400/000/fff")) == Picture((600, 400), "#000", "#fff")


@pytest.mark.parametrize(
    "address", ["https://PlaceHold.CO:8443/600x400/000/fff", "https://placehold.co./600x400/000/fff", "https://placehold.co/600%78400/%30%30%30/fff"]
)  # fmt: skip
def test_hosts_ports_and_percent_codes_are_read(address):
    assert picture_at(address) == Picture((600, 400), "#000", "#fff")


def test_a_host_is_of_one_kind():
    assert not LABELLED & PHOTOS and not LABELLED & OTHERS and not PHOTOS & OTHERS


@pytest.mark.parametrize(
    "address",
    ["https://x.org/300/200", "https://picsum.photos/", "http://page.invalid/a.jpg", "file://placehold.co/300", "ftp://x.org/a.png", "a.jpg", "//[", ""],
)  # fmt: skip
def test_what_is_no_picture_is_not_answered(address, tmp_path):
    assert picture_at(address) is None and WebFiles(tmp_path).answer(address) is None


def test_what_a_page_shows_as_a_picture_is_one():
    assert picture_at("https://x.org/300/200", is_picture=True) == Picture(UNKNOWN_SIZE)
    assert picture_at("https://picsum.photos", is_picture=True) == Picture(UNKNOWN_SIZE)
    assert picture_at("http://page.invalid/300", is_picture=True) is None


def test_sides_are_bounded():
    assert picture_at("https://picsum.photos/99999/0").size == (MAX_SIDE, 1)
    assert picture_at(f"https://dummyimage.com/1x{'9' * 500}").size == (1, MAX_SIDE)


def test_a_picture_without_colours_is_a_photo_that_depends_on_its_address_alone():
    assert photo(30, 20, "a") == photo(30, 20, "a") != photo(30, 20, "b")
    assert draw(Picture((30, 20)), "a") == photo(30, 20, "a")


def test_a_picture_with_colours_shows_them_and_its_text_and_is_xml_whatever_the_page_writes():
    root = ElementTree.fromstring(draw(picture_at("https://placehold.co/60x40/000/fff?text=%3C/svg%3E%00%26"), ""))
    background, text = root
    assert (root.get("width"), root.get("height")) == ("60", "40")
    assert (background.get("style"), text.get("style"), text.text) == ("fill:#000", "fill:#fff", "</svg>&")
    assert ElementTree.fromstring(draw(Picture((60, 40), "red"), ""))[1].text == "60 × 40"


@pytest.mark.browser
def test_pages_show_the_pictures(needs_browser):
    html = (
        '<img src="//placehold.co/90x40/FF0000/FFFFFF"><br><img src="https://unheard.example/300/200"><br>'
        "<div style=\"width:80px;height:30px;background:url('//placehold.it/80x30/0000ff')\"></div>"
    )
    for scripts in (False, True):
        with make_browser("embedded", workers=1) as browser:
            (rendering,) = browser.render([Page(html, scripts=scripts)])
        sizes = [(box.width, box.height) for box in rendering.boxes if box.tag in ("img", "div")]
        assert sizes == [(90, 40), UNKNOWN_SIZE, (80, 30)] and not rendering.refused
