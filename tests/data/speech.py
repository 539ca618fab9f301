"""Recordings that sound like somebody speaking: voiced syllables with formants, breaths and pauses between them.

They are made up, the same on every machine, and what a voice detector calls speech.
"""
import wave

import numpy

RATE = 16000  # samples a second
VOWELS = ((730, 1090, 2440), (530, 1840, 2480), (270, 2290, 3010), (570, 840, 2410), (300, 870, 2240))  # formants, Hz


def resonance(signal, frequency, bandwidth):
    """A resonator with two poles."""
    radius = numpy.exp(-numpy.pi * bandwidth / RATE)
    first, second = 2 * radius * numpy.cos(2 * numpy.pi * frequency / RATE), -radius * radius
    result = numpy.zeros_like(signal)
    before, long_before = 0.0, 0.0
    for i, sample in enumerate(signal):
        before, long_before = (1 - first - second) * sample + first * before + second * long_before, before
        result[i] = before
    return result


def syllable(random, vowel, pitch, seconds):
    count = int(seconds * RATE)
    # A pulse for each period of a pitch that falls, with a little breath.
    contour = pitch * (1.1 - 0.25 * numpy.arange(count) / count) * (1 + 0.01 * random.standard_normal(count).cumsum() / 40)
    phase = numpy.cumsum(contour / RATE)
    source = numpy.diff(numpy.floor(phase), prepend=0) + 0.005 * random.standard_normal(count)
    sound = resonance(source, 0, 200)  # the slope of a glottal pulse
    for frequency, bandwidth in zip(vowel, (80, 100, 140)):
        sound = resonance(sound, frequency, bandwidth)
    rise, fall = int(0.03 * RATE), int(0.07 * RATE)
    envelope = numpy.minimum(1, numpy.minimum(numpy.arange(count) / rise, numpy.arange(count)[::-1] / fall))
    return sound / abs(sound).max() * envelope


def phrase(seed, seconds):
    """Words of some syllables, with hisses before them and pauses between the phrases."""
    random = numpy.random.default_rng(seed)
    parts, count, pitch = [], 0, 100 + 40 * (seed % 3)
    while count < seconds * RATE:
        for _ in range(int(random.integers(3, 7))):
            if random.random() < 0.5:
                hiss = random.standard_normal(int(0.06 * RATE))
                parts.append(0.05 * numpy.diff(hiss, prepend=0))
            vowel = VOWELS[int(random.integers(len(VOWELS)))]
            parts.append(0.5 * syllable(random, vowel, pitch * (0.9 + 0.3 * random.random()), 0.12 + 0.15 * random.random()))
        parts.append(numpy.zeros(int((0.4 + 0.5 * random.random()) * RATE)))
        count = sum(part.size for part in parts)
    sound = numpy.concatenate(parts)[:int(seconds * RATE)]
    return sound + 0.0005 * random.standard_normal(sound.size)


def write(path, sound):
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, RATE, 0, "NONE", ""))
        file.writeframes(numpy.round(32000 * numpy.clip(sound, -1, 1)).astype("<i2").tobytes())
