#!/usr/bin/env python3
"""Has a line of text in a picture read by `tessera serve`: makes the request that curl sends, and text of the answer.

    read_line.py request PICTURE [LEFT TOP RIGHT BOTTOM]   the line, or that part of the picture, as a request
    read_line.py text CHARACTERS                           the text of an answer on standard input

Needs Pillow. The model takes a line of 48 rows and 320 columns and gives, for each of 40 places, how likely each
character is; class 0 is none.
"""
import json
import sys

HEIGHT, WIDTH = 48, 320


def request(picture, box):
    from PIL import Image
    line = Image.open(picture).convert("RGB")
    if box:
        line = line.crop([int(edge) for edge in box])
    used = min(WIDTH, -(-line.width * HEIGHT // line.height))
    pixels = line.resize((used, HEIGHT), Image.BILINEAR).load()
    data = []
    for channel in (2, 1, 0):  # blue, green, red
        for y in range(HEIGHT):
            row = [pixels[x, y][channel] / 127.5 - 1 for x in range(used)]
            data += row + [0] * (WIDTH - used)
    return {"inputs": [{"name": "x", "shape": [1, 3, HEIGHT, WIDTH], "datatype": "FP32", "data": data}]}


def text(answer, characters):
    output = answer["outputs"][0]
    _, places, classes = output["shape"]
    found = ""
    before = 0
    for place in range(places):
        row = output["data"][place * classes:(place + 1) * classes]
        best = max(range(classes), key=row.__getitem__)
        # The same class in a row is one character.
        if best not in (0, before):
            found += characters[best]
        before = best
    return found


def main():
    if len(sys.argv) in (3, 7) and sys.argv[1] == "request":
        json.dump(request(sys.argv[2], sys.argv[3:]), sys.stdout)
    elif len(sys.argv) == 3 and sys.argv[1] == "text":
        answer = json.load(sys.stdin)
        if "error" in answer:
            sys.exit(answer["error"])
        with open(sys.argv[2], encoding="utf-8") as lines:
            print(text(answer, [""] + lines.read().splitlines() + [" "]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
