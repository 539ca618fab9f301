"""Pictures to learn: handwritten ones from files, or digits drawn here."""
import numpy

# Seven rows of five points each.
FONT = (
    "01110 10001 10011 10101 11001 10001 01110", "00100 01100 00100 00100 00100 00100 01110",
    "01110 10001 00001 00110 01000 10000 11111", "11111 00010 00100 00010 00001 10001 01110",
    "00010 00110 01010 10010 11111 00010 00010", "11111 10000 11110 00001 00001 10001 01110",
    "00110 01000 10000 11110 10001 10001 01110", "11111 00001 00010 00100 01000 01000 01000",
    "01110 10001 10001 01110 10001 10001 01110", "01110 10001 10001 01111 00001 00010 01100",
)


def draw(digit, random):
    """One digit, 28 x 28: three times as large, near the middle, with weak strokes and noise."""
    points = numpy.array([[int(c) for c in row] for row in FONT[digit].split()], numpy.float32)
    points *= random.uniform(0.4, 1.0, points.shape)
    points = points.repeat(3, 0).repeat(3, 1)
    picture = random.uniform(0.0, 0.5, (28, 28)).astype(numpy.float32)
    top, left = random.integers(1, 6), random.integers(4, 10)
    part = picture[top:top + points.shape[0], left:left + points.shape[1]]
    numpy.maximum(part, points, out=part)
    return picture


def drawn(count, seed):
    """`count` pictures [count, 1, 28, 28] and their digits."""
    random = numpy.random.default_rng(seed)
    labels = random.integers(0, 10, count)
    pictures = numpy.stack([draw(digit, random) for digit in labels])
    return pictures[:, None], labels


def stored(images, labels):
    """8-bit pictures [count, (channels,) rows, columns] and their classes, from .npy files."""
    pictures = numpy.load(images)
    classes = numpy.load(labels).astype(numpy.int64)
    if pictures.dtype != numpy.uint8 or pictures.ndim not in (3, 4):
        raise SystemExit(f"'{images}' has {pictures.dtype} numbers and {pictures.ndim} axes; "
                         "needed: uint8, pictures x (channels x) rows x columns")
    if classes.shape != (len(pictures),):
        raise SystemExit(f"'{labels}' has the extents {classes.shape}, needed ({len(pictures)},)")
    if pictures.ndim == 3:
        pictures = pictures[:, None]
    return pictures.astype(numpy.float32) / 255, classes
