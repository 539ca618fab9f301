#!/usr/bin/env python3
"""Draws the text pictures of the agreement test: 48 of them, always the same.

usage: make_pictures.py FOLDER

Fonts from Debian (DejaVu, Liberation, WenQuanYi), 14 to 48 pixels, dark on light and light on
dark, slightly rotated or in perspective, with noise, Latin and Chinese. Beside NAME.png stands
NAME.txt with the lines drawn."""
import pathlib
import random
import sys

from PIL import Image, ImageDraw, ImageFont

TRUETYPE = "/usr/share/fonts/truetype/"
LATIN_FONTS = [TRUETYPE + name for name in (
    "dejavu/DejaVuSans.ttf", "dejavu/DejaVuSans-Bold.ttf", "dejavu/DejaVuSerif.ttf",
    "liberation/LiberationSans-Regular.ttf", "liberation/LiberationSerif-Regular.ttf",
    "liberation/LiberationMono-Regular.ttf")]
CHINESE_FONT = TRUETYPE + "wqy/wqy-zenhei.ttc"
LATIN = ["Green tea 4.50", "Invoice No. 20731", "Keep refrigerated", "Fragile - this side up",
         "Meeting at 10:45", "Total 128.90 EUR", "Do not lean on glass", "Batch 7F-2219",
         "Return to sender", "Line 3 is closed", "Best before 2031", "Handle with care",
         "Second floor left", "Please ring twice", "Water level normal", "Exit only"]
CHINESE = ["请勿触摸展品", "今日特价商品", "小心地滑", "图书馆开放时间", "欢迎乘坐地铁", "会议室在三楼",
           "保持安静", "出口在左边", "新鲜水果", "安全第一"]
COUNT = 48
WIDTH, HEIGHT = 640, 320


def palette(dice):
    ink = tuple(dice.randint(0, 70) for _ in range(3))
    paper = tuple(dice.randint(190, 255) for _ in range(3))
    return (ink, paper) if dice.random() < 0.5 else (paper, ink)


def perspective(picture, dice, paper):
    """Moves each corner by up to 3 % of the side."""
    source = [(0, 0), (WIDTH, 0), (WIDTH, HEIGHT), (0, HEIGHT)]
    target = [(x + dice.uniform(-0.03, 0.03) * WIDTH, y + dice.uniform(-0.03, 0.03) * HEIGHT)
              for x, y in source]
    rows, right = [], []
    for (x, y), (u, v) in zip(source, target):
        rows.append([x, y, 1, 0, 0, 0, -u * x, -u * y])
        rows.append([0, 0, 0, x, y, 1, -v * x, -v * y])
        right += [u, v]
    return picture.transform(picture.size, Image.PERSPECTIVE, solve(rows, right),
                             Image.BICUBIC, fillcolor=paper)


def solve(rows, right):
    """Gauss-Jordan elimination with pivoting."""
    size = len(rows)
    matrix = [row + [value] for row, value in zip(rows, right)]
    for i in range(size):
        pivot = max(range(i, size), key=lambda r: abs(matrix[r][i]))
        matrix[i], matrix[pivot] = matrix[pivot], matrix[i]
        matrix[i] = [value / matrix[i][i] for value in matrix[i]]
        for r in range(size):
            if r != i:
                matrix[r] = [a - matrix[r][i] * b for a, b in zip(matrix[r], matrix[i])]
    return [row[-1] for row in matrix]


def add_noise(picture, dice, strength):
    pixels = bytearray(picture.tobytes())
    for i in range(len(pixels)):
        pixels[i] = max(0, min(255, pixels[i] + int(dice.gauss(0, strength))))
    return Image.frombytes("RGB", picture.size, bytes(pixels))


def draw(index):
    dice = random.Random(1000 + index)
    ink, paper = palette(dice)
    picture = Image.new("RGB", (WIDTH, HEIGHT), paper)
    brush = ImageDraw.Draw(picture)
    size = 14 + (index * 34) // (COUNT - 1)
    lines, y = [], 20
    while y + size + 10 < HEIGHT and len(lines) < 4:
        chinese = dice.random() < 0.4
        text = dice.choice(CHINESE if chinese else LATIN)
        font = ImageFont.truetype(CHINESE_FONT if chinese else dice.choice(LATIN_FONTS), size)
        brush.text((30 + dice.randint(0, 60), y), text, font=font, fill=ink)
        lines.append(text)
        y += int(size * 1.9) + 8
    if index % 3 == 1:
        picture = picture.rotate(dice.uniform(-4, 4), Image.BICUBIC, fillcolor=paper)
    if index % 3 == 2:
        picture = perspective(picture, dice, paper)
    if index % 2 == 1:
        picture = add_noise(picture, dice, dice.uniform(2, 8))
    return picture, lines


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for index in range(COUNT):
        picture, lines = draw(index)
        picture.save(folder / f"text{index:02}.png")
        (folder / f"text{index:02}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
