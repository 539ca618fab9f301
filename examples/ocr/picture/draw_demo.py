#!/usr/bin/env python3
"""Draws the demo's picture, station.png: a departure board and a notice, in two sizes, one line
rotated, Latin and Chinese. Needs python3-pil, fonts-dejavu-core, fonts-liberation and fonts-wqy-zenhei."""
import pathlib

from PIL import Image, ImageDraw, ImageFont

SERIF = "/usr/share/fonts/truetype/liberation/LiberationSerif-Regular.ttf"
BOLD = "/usr/share/fonts/truetype/dejavu/DejaVuSans-Bold.ttf"
CHINESE = "/usr/share/fonts/truetype/wqy/wqy-zenhei.ttc"

GAP = 0.34  # between words, of the font's size

LINES = [  # text, font, size, x, y, colour
    ("Departures", BOLD, 44, 40, 28, (250, 214, 90)),
    ("出发大厅", CHINESE, 42, 660, 30, (250, 214, 90)),
    ("08:15", SERIF, 30, 40, 110, (240, 240, 240)),
    ("Harbourside", SERIF, 30, 220, 110, (240, 240, 240)),
    ("Platform 4", SERIF, 28, 620, 110, (240, 240, 240)),
    ("08:40", SERIF, 30, 40, 160, (240, 240, 240)),
    ("Northgate", SERIF, 30, 220, 160, (240, 240, 240)),
    ("Platform 11", SERIF, 28, 620, 160, (240, 240, 240)),
    ("09:05", SERIF, 30, 40, 210, (240, 240, 240)),
    ("Observatory", SERIF, 30, 220, 210, (240, 240, 240)),
    ("Delayed 7 min", SERIF, 28, 620, 210, (250, 130, 110)),
    ("请在站台等候", CHINESE, 30, 40, 270, (200, 220, 250)),
]


def background(width, height):
    picture = Image.new("RGB", (width, height), (24, 34, 52))
    draw = ImageDraw.Draw(picture)
    for y in range(340, height):
        shade = 214 + (y - 340) * 24 // (height - 340)
        draw.line([(0, y), (width, y)], fill=(shade, shade - 6, shade - 16))
    draw.rectangle([0, 334, width, 340], fill=(150, 120, 60))
    return picture


def write(draw, place, text, font, colour):
    """Draws word by word with a wide gap, as signs have it."""
    x, y = place
    for word in text.split(" "):
        draw.text((x, y), word, font=font, fill=colour)
        x += font.getlength(word) + font.size * GAP


def rotated(text, font, degrees, colour):
    width = font.getlength(text) + text.count(" ") * font.size * GAP
    patch = Image.new("RGBA", (int(width) + 20, font.size + 30), (0, 0, 0, 0))
    write(ImageDraw.Draw(patch), (10, 6), text, font, colour)
    return patch.rotate(degrees, expand=True, resample=Image.BICUBIC)


def main():
    picture = background(960, 608)
    draw = ImageDraw.Draw(picture)
    for text, path, size, x, y, colour in LINES:
        write(draw, (x, y), text, ImageFont.truetype(path, size), colour)
    note = rotated("Mind the gap", ImageFont.truetype(BOLD, 40), 14, (150, 30, 30, 255))
    picture.paste(note, (560, 380), note)
    dark = (30, 30, 40)
    write(draw, (60, 400), "Lost property: room 203", ImageFont.truetype(SERIF, 28), dark)
    write(draw, (60, 460), "Open daily until 22:00", ImageFont.truetype(SERIF, 28), dark)
    write(draw, (60, 520), "失物招领处", ImageFont.truetype(CHINESE, 34), dark)
    picture.save(pathlib.Path(__file__).with_name("station.png"), optimize=True)


if __name__ == "__main__":
    main()
