#!/usr/bin/env python3
"""Draws the demo's picture, station.png: a departure board and a notice, in two sizes, one line
rotated, Latin and Chinese. Needs python3-pil, fonts-dejavu-core and fonts-wqy-zenhei."""
import pathlib

from PIL import Image, ImageDraw, ImageFont

SANS = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"
BOLD = "/usr/share/fonts/truetype/dejavu/DejaVuSans-Bold.ttf"
CHINESE = "/usr/share/fonts/truetype/wqy/wqy-zenhei.ttc"

LINES = [  # text, font, size, x, y, colour
    ("Departures", BOLD, 44, 40, 28, (250, 214, 90)),
    ("出发大厅", CHINESE, 42, 660, 30, (250, 214, 90)),
    ("08:15 Harbour Street", SANS, 28, 40, 110, (240, 240, 240)),
    ("Platform 4", SANS, 28, 620, 110, (240, 240, 240)),
    ("08:40 North Gate", SANS, 28, 40, 160, (240, 240, 240)),
    ("Platform 11", SANS, 28, 620, 160, (240, 240, 240)),
    ("09:05 Old Observatory", SANS, 28, 40, 210, (240, 240, 240)),
    ("Delayed 7 min", SANS, 28, 620, 210, (250, 130, 110)),
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


def rotated(text, font, degrees, colour):
    left, top, right, bottom = font.getbbox(text)
    patch = Image.new("RGBA", (right + 20, bottom + 20), (0, 0, 0, 0))
    ImageDraw.Draw(patch).text((10, 6), text, font=font, fill=colour)
    return patch.rotate(degrees, expand=True, resample=Image.BICUBIC)


def main():
    picture = background(960, 608)
    draw = ImageDraw.Draw(picture)
    for text, path, size, x, y, colour in LINES:
        draw.text((x, y), text, font=ImageFont.truetype(path, size), fill=colour)
    note = rotated("Mind the gap", ImageFont.truetype(BOLD, 40), 14, (150, 30, 30, 255))
    picture.paste(note, (560, 380), note)
    draw.text((60, 400), "Lost property: room 203", font=ImageFont.truetype(SANS, 28),
              fill=(30, 30, 40))
    draw.text((60, 460), "Open 6:30 - 22:00", font=ImageFont.truetype(SANS, 28), fill=(30, 30, 40))
    draw.text((60, 520), "失物招领处", font=ImageFont.truetype(CHINESE, 34), fill=(30, 30, 40))
    picture.save(pathlib.Path(__file__).with_name("station.png"), optimize=True)


if __name__ == "__main__":
    main()
