"""Takes the fenced blocks out of pages, and compares what a command printed with what a page states.

In a block with commands a line `$ COMMAND` is followed by what it prints. There

    ...            alone on a line stands for any lines, also none
    12.3 ...       within a line for any text: times and rates, which differ from run to run

and white space counts as one blank, since the width of a column depends on such values.
"""
import re
from dataclasses import dataclass


@dataclass
class Block:
    page: str
    line: int  # of the fence
    info: str
    text: str

    @property
    def first(self):
        return self.text.split("\n", 1)[0].strip()

    @property
    def place(self):
        return f"{self.page}:{self.line}"


def blocks_of(page, text):
    """All fenced blocks of a page; an error where the last one is not closed."""
    blocks, fence, lines = [], None, []
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("```"):
            if fence is None:
                fence, lines = (number, line.strip()[3:].strip()), []
            else:
                blocks.append(Block(page, fence[0], fence[1], "\n".join(lines)))
                fence = None
        elif fence is not None:
            lines.append(line)
    if fence is not None:
        raise ValueError(f"{page}:{fence[0]}: a block without an end")
    return blocks


def commands_of(text):
    """[(command, [lines that the page states])]; a command goes on behind a backslash. Without any `$ `
    each line is a command, and nothing is stated of what it prints."""
    lines = text.split("\n")
    prompted = any(line.startswith("$ ") for line in lines)
    commands, going_on = [], False
    for line in lines:
        if going_on:
            commands[-1][0] += " " + line.strip()
        elif prompted and not line.startswith("$ "):
            if not commands:
                raise ValueError(f"'{line}' stands before the first command")
            commands[-1][1].append(line)
            continue
        elif line.strip() and not line.lstrip().startswith("#"):
            commands.append([line[2:] if prompted else line, None if not prompted else []])
        else:
            continue
        going_on = commands[-1][0].endswith("\\")
        if going_on:
            commands[-1][0] = commands[-1][0][:-1].rstrip()
    return [(command, stated) for command, stated in commands]


def normal(line):
    return re.sub(r"\s+", " ", line).strip()


def comparable(lines, varying=(), optional=()):
    """The lines without those that `optional` matches as a whole, and with `*` for what `varying` matches."""
    lines = [normal(line) for line in lines]
    lines = [line for line in lines if not any(re.fullmatch(pattern, line) for pattern in optional)]
    for pattern in varying:
        lines = [re.sub(pattern, "*", line) for line in lines]
    return lines


def line_pattern(line):
    """A pattern of one stated line."""
    return re.compile(".*".join(re.escape(part.strip()) for part in normal(line).split("...")))


def difference(stated, printed):
    """None where the lines that were printed are the stated ones; else what differs first."""
    stated = [line for line in stated if normal(line)]
    printed = [line for line in printed if normal(line)]
    at, skipping = 0, False
    for line in stated:
        if normal(line) == "...":
            skipping = True
            continue
        pattern = line_pattern(line)
        if skipping:
            while at < len(printed) and not pattern.fullmatch(normal(printed[at])):
                at += 1
            skipping = False
        if at == len(printed):
            return f"the page states '{normal(line)}', which is not printed"
        if not pattern.fullmatch(normal(printed[at])):
            return f"the page states '{normal(line)}', printed is '{normal(printed[at])}'"
        at += 1
    if at < len(printed) and not skipping:
        return f"the page does not state '{normal(printed[at])}'"
    return None


def shape(line):
    """A line without its numbers."""
    return re.sub(r"\d[\d,.]*", "#", normal(line))


def follows(stated, printed, skipping, compare):
    """Which of the lines that were printed the stated line becomes, by position; None: none of them."""
    for same in (lambda line: line_pattern(compare(stated)).fullmatch(compare(line)),
                 lambda line: shape(line) == shape(stated)):
        for at, line in enumerate(printed):
            if same(line):
                return at
    return None if skipping or not printed else 0


def mended(stated, printed, compare=normal):
    """The stated lines with what was printed where they differ; `...` and what it leaves out stay. For somebody to
    read: a line that is no longer printed goes, one that is new comes in."""
    printed = [line.rstrip() for line in printed if normal(line)]
    result, skipping = [], False
    for line in stated:
        if not normal(line):
            result.append(line)
            continue
        if normal(line) == "...":
            result.append(line)
            skipping = True
            continue
        at = follows(line, printed, skipping, compare)
        if at is None:
            continue
        if not skipping:
            result += printed[:at]
        keeps = line_pattern(compare(line)).fullmatch(compare(printed[at])) is not None
        result.append(line if keeps else printed[at])
        printed, skipping = printed[at + 1:], False
    return result if skipping else result + printed
