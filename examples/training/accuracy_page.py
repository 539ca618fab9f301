"""A page with a chart of accuracies, which stands alone."""
import html

WIDTH, HEIGHT = 560, 300
LEFT, RIGHT, TOP, BOTTOM = 60, 150, 20, 45

STYLE = ("body{font-family:sans-serif;margin:2em}td,th{padding:.2em .8em;text-align:right}"
         ".name{text-align:left}")


def chart(levels, epochs):
    """SVG: `epochs` as a line, from 0 on; each of `levels` (name, accuracy) as a dashed one."""
    across = WIDTH - LEFT - RIGHT

    def x(epoch):
        return LEFT + across * epoch / max(len(epochs) - 1, 1)

    def y(accuracy):
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - accuracy)

    def text(at, up, words, anchor):
        return f"<text x='{at:.1f}' y='{up:.1f}' text-anchor='{anchor}'>{html.escape(words)}</text>"

    parts = [f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{HEIGHT}' "
             "font-family='sans-serif' font-size='12'>"]
    for tenth in range(0, 11, 2):
        up = y(tenth / 10)
        parts.append(f"<path d='M{LEFT} {up:.1f}h{across}' stroke='#ddd'/>")
        parts.append(text(LEFT - 6, up + 4, f"{tenth / 10:.1f}", "end"))
    for epoch in range(len(epochs)):
        parts.append(text(x(epoch), HEIGHT - BOTTOM + 18, str(epoch), "middle"))
    parts.append(text(LEFT + across / 2, HEIGHT - 8, "epoch of training", "middle"))
    for name, accuracy in levels:
        parts.append(f"<path d='M{LEFT} {y(accuracy):.1f}h{across}' stroke='#888' "
                     "stroke-dasharray='5 4'/>")
        parts.append(text(LEFT + across + 6, y(accuracy) + 4, name, "start"))
    line = " ".join(f"{x(epoch):.1f},{y(accuracy):.1f}" for epoch, accuracy in enumerate(epochs))
    parts.append(f"<polyline points='{line}' fill='none' stroke='#1f77b4' stroke-width='2'/>")
    for epoch, accuracy in enumerate(epochs):
        parts.append(f"<circle cx='{x(epoch):.1f}' cy='{y(accuracy):.1f}' r='3' fill='#1f77b4'/>")
    return "\n".join(parts + ["</svg>"])


def write(path, title, about, levels, epochs, rows):
    """`about`: a sentence; `rows`: (name, accuracy) of the table."""
    table = "".join(f"<tr><td class='name'>{html.escape(name)}<td>{accuracy:.4f}</tr>\n"
                    for name, accuracy in rows)
    page = ("<!DOCTYPE html>\n<meta charset='utf-8'>\n"
            f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style>\n"
            f"<h1>{html.escape(title)}</h1>\n<p>{html.escape(about)}</p>\n{chart(levels, epochs)}\n"
            f"<table>\n<tr><th class='name'>what<th>accuracy</tr>\n{table}</table>\n")
    with open(path, "w", encoding="utf-8") as file:
        file.write(page)
