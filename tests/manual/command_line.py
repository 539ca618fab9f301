"""What `tessera --help` and `tessera VERB --help` say, for tests of what else describes the command."""
import re
import subprocess
from dataclasses import dataclass, field


@dataclass
class Option:
    names: list       # "-o", "--output"
    takes_value: bool
    choices: list = field(default_factory=list)


@dataclass
class Verb:
    name: str
    options: list
    arguments: list


def help_of(program, *verb):
    return subprocess.run([program, *verb, "--help"], check=True, capture_output=True, text=True).stdout


def section(text, heading):
    """The lines below "Heading:" that begin with two blanks and a word, up to the next heading."""
    found = re.search(rf"^{heading}:\n((?:  .*\n)*)", text, flags=re.M)
    return [line[2:] for line in found[1].splitlines() if not line.startswith("   ")] if found else []


def option_of(line):
    words = line.split()
    value = words[1] if len(words) > 1 and re.match(r"(?:TEXT|INT|UINT|FLOAT)\b", words[1]) else ""
    choices = re.search(r":\{([^}]*)\}", value)
    return Option(words[0].split(","), bool(value), choices[1].split(",") if choices else [])


def verbs_of(program):
    verbs = []
    for line in section(help_of(program), "Subcommands"):
        name = line.split()[0]
        text = help_of(program, name)
        verbs.append(Verb(name, [option_of(line) for line in section(text, "Options")],
                          [line.split()[0] for line in section(text, "Positionals")]))
    return verbs
