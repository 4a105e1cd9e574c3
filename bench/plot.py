"""Draws the sweeps over row widths of a JSON file of bench/compare.py as SVG: the share of the speed of a
copy (of reading, for logsumexp), a panel for each operation.

    python3 bench/plot.py RESULTS.json DTYPE > rows.svg
"""
import json
import math
import sys

COLOURS = {"braze": "#0b6e4f", "compile": "#d1495b", "eager": "#8d99ae"}
LABELS = {"braze": "Braze", "compile": "torch.compile", "eager": "PyTorch eager"}
PANEL_WIDTH, PANEL_HEIGHT, MARGIN, COLUMNS = 360, 220, 48, 2
TOP_SHARE = 1.1


def panels(report, dtype):
    """{operation: {candidate: [(width, share), ...]}}"""
    found = {}
    for case in report["cases"]:
        if "error" in case or not case["group"] or case["dtype"] != dtype:
            continue
        for name in COLOURS:
            share = case["times"].get(name, {}).get("share")
            if share is not None:
                found.setdefault(case["group"], {}).setdefault(name, []).append((case["width"], share))
    return found


def text(x, y, content, size=11, anchor="middle", colour="#333"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}">'
            f'{content}</text>')


def panel(title, lines, left, top, low, high):

    def x(width):
        return left + (math.log2(width) - low) / max(1, high - low) * PANEL_WIDTH

    def y(share):
        return top + PANEL_HEIGHT * (1 - min(share, TOP_SHARE) / TOP_SHARE)

    parts = [text(left + PANEL_WIDTH / 2, top - 8, title, 13)]
    for percent in range(0, 101, 25):
        at = y(percent / 100)
        parts.append(
            f'<line x1="{left}" y1="{at:.1f}" x2="{left + PANEL_WIDTH}" y2="{at:.1f}" stroke="#ddd"/>')
        parts.append(text(left - 6, at + 4, f"{percent} %", anchor="end"))
    for power in range(math.ceil(low), math.floor(high) + 1, 2):
        parts.append(text(x(2**power), top + PANEL_HEIGHT + 16, f"{2 ** power}"))
    for name, points in lines.items():
        points = sorted(points)
        path = " ".join(f"{x(w):.1f},{y(s):.1f}" for w, s in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[name]}" stroke-width="2"/>')
        parts += [
            f'<circle cx="{x(w):.1f}" cy="{y(s):.1f}" r="2.5" fill="{COLOURS[name]}"/>' for w, s in points
        ]
    return parts


def draw(report, dtype):
    found = panels(report, dtype)
    if not found:
        raise SystemExit(f"there is no sweep of {dtype} in the file")
    widths = [w for lines in found.values() for points in lines.values() for w, _ in points]
    low, high = math.log2(min(widths)), math.log2(max(widths))
    rows = math.ceil(len(found) / COLUMNS)
    step_x, step_y = PANEL_WIDTH + 2 * MARGIN, PANEL_HEIGHT + 2 * MARGIN
    width, height = COLUMNS * step_x, rows * step_y + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif">',
        f'<rect width="{width}" height="{height}" fill="white"/>'
    ]
    for i, (title, lines) in enumerate(found.items()):
        parts += panel(f"{title}, {dtype}", lines, i % COLUMNS * step_x + MARGIN,
                       i // COLUMNS * step_y + MARGIN, low, high)
    for i, (name, colour) in enumerate(COLOURS.items()):
        parts.append(text(MARGIN + 150 * i, height - 30, LABELS[name], 12, "start", colour))
    parts.append(
        text(MARGIN, height - 10, f"Share of the speed of memory by row width. {report['device']}, "
             f"{report['date'][:10]}", 11, "start"))
    return "\n".join(parts + ["</svg>"])


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    with open(sys.argv[1]) as file:
        print(draw(json.load(file), sys.argv[2]))
