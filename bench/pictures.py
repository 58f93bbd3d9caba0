"""Pictures of the suite's figures, as SVG: bars of tk against its peers, and a roofline.

    python3 bench/pictures.py suite.json [..] DIRECTORY     # writes bars.svg and roofline.svg

Of several files, parts of one run. Rows whose rounds differ too much are left out: the host was slower than the GPU, or other work ran on it.
"""
import html, json, math, os, sys

INK, SOFT, GRID, TK, PEER, GOOD = "#1f2933", "#67757f", "#d9e0e5", "#0b7285", "#adb5bd", "#2b8a3e"
MAIN = {"gemm": "torch.matmul", "products": "cuBLAS", "attention": "cuDNN", "memory": "torch.compile"}
TITLE = {"gemm": "bf16 products, against cuBLAS", "products": "other products, against cuBLAS", "attention": "attention, against cuDNN", "memory": "memory-bound, against torch.compile"}
UNSTEADY = 0.25                                             # of a row's ratios, from the least to the largest, over the median
PEAK_FLOPS, PEAK_BYTES = 989e12, 4.8e12                     # an H200's dense bf16 and its HBM3e, by its data sheet


class Picture:
    def __init__(self, w, h):
        self.w, self.h, self.out = w, h, []

    def add(self, tag, body=None, **kw):
        attrs = " ".join(f'{k.replace("_", "-")}="{round(v, 1) if isinstance(v, float) else v}"' for k, v in kw.items())
        self.out.append(f"<{tag} {attrs}/>" if body is None else f"<{tag} {attrs}>{html.escape(body)}</{tag}>")

    def text(self, x, y, s, size=11, fill=INK, anchor="start", weight="normal"):
        self.add("text", s, x=float(x), y=float(y), font_size=size, fill=fill, text_anchor=anchor, font_weight=weight)

    def line(self, x1, y1, x2, y2, stroke=GRID, width=1, dash=""):
        self.add("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), stroke=stroke, stroke_width=width, **({"stroke_dasharray": dash} if dash else {}))

    def save(self, path):
        with open(path, "w") as f:
            f.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.w} {self.h}" font-family="Helvetica, Arial, sans-serif">\n'
                    f'<rect width="{self.w}" height="{self.h}" rx="6" fill="#ffffff"/>\n' + "\n".join(self.out) + "\n</svg>\n")


def bars(rows, machine):
    """How much faster tk is than its main peer, a bar a row; bars end at 2."""
    groups = [(s, [r for r in rows if r["section"] == s and MAIN[s] in r["ratio"]]) for s in MAIN]
    groups = [g for g in groups if g[1]]
    step, left, width = 15, 300, 420
    p = Picture(800, 60 + sum(34 + step * len(g) for _, g in groups))
    x = lambda r: left + width * min(r, 2.0) / 2.0
    p.text(20, 24, "tk against its peers: how many times as fast", 15, weight="bold")
    p.text(20, 42, machine, 10, SOFT)
    y = 70
    for section, group in groups:
        p.text(20, y, TITLE[section], 12, weight="bold")
        top = y + 6
        for r in group:
            y += step
            value = r["ratio"][MAIN[section]][0]
            p.text(left - 8, y + 8, r["work"], 10, SOFT, "end")
            p.add("rect", x=left, y=y, width=x(value) - left, height=step - 5, fill=TK if value >= 0.995 else PEER, rx=1)
            p.text(x(value) + 5, y + 8, f"{value:.2f}", 10)
        p.line(x(1), top, x(1), y + step - 3, INK, 1, "3 2")
        y += 34
    return p


def roofline(rows, machine):
    """Rates over arithmetic intensity, both logarithmic, under the two roofs of the data sheet."""
    rows = [r for r in rows if r["flops"] and r["section"] in ("gemm", "attention")]
    p = Picture(800, 480)
    x0, x1, y0, y1 = 70, 770, 430, 70
    lo, hi, floor, roof = -0.5, 4.2, 11.8, 15.1                 # powers of ten: flop a byte, flop a second
    X = lambda i: x0 + (math.log10(i) - lo) / (hi - lo) * (x1 - x0)
    Y = lambda f: y0 - (math.log10(f) - floor) / (roof - floor) * (y0 - y1)
    p.text(20, 24, "Roofline: bf16 products and attention", 15, weight="bold")
    p.text(20, 42, machine, 10, SOFT)
    for e in range(0, 5):
        p.line(X(10 ** e), y0, X(10 ** e), y1); p.text(X(10 ** e), y0 + 16, f"{10 ** e}", 10, SOFT, "middle")
    for e in (12, 13, 14, 15):
        p.line(x0, Y(10 ** e), x1, Y(10 ** e)); p.text(x0 - 6, Y(10 ** e) + 4, f"{10 ** (e - 12)}", 10, SOFT, "end")
    p.text((x0 + x1) / 2, y0 + 36, "flop for each byte of the tensors", 11, SOFT, "middle")
    p.text(x0 - 50, y1 - 10, "TFLOP/s", 11, SOFT)
    ridge = PEAK_FLOPS / PEAK_BYTES
    p.line(X(10 ** lo), Y(PEAK_BYTES * 10 ** lo) if PEAK_BYTES * 10 ** lo > 10 ** floor else y0, X(ridge), Y(PEAK_FLOPS), INK, 1.5)
    p.line(X(ridge), Y(PEAK_FLOPS), x1, Y(PEAK_FLOPS), INK, 1.5)
    p.text(x1, Y(PEAK_FLOPS) - 6, "989 TFLOP/s", 10, INK, "end")
    for r in rows:
        i, peer = r["flops"] / r["bytes"], r["us"].get(MAIN[r["section"]])
        if peer: p.add("circle", cx=X(i), cy=Y(r["flops"] / peer * 1e6), r=5, fill="none", stroke=SOFT, stroke_width=1.2)
        p.add("circle", cx=X(i), cy=Y(r["flops"] / r["us"]["tk"] * 1e6), r=3.2, fill=TK if r["section"] == "gemm" else GOOD)
    for k, (fill, what) in enumerate([(TK, "tk, products"), (GOOD, "tk, attention"), ("none", "cuBLAS, cuDNN")]):
        p.add("circle", cx=600, cy=float(y0 - 60 + 18 * k), r=4, fill=fill, stroke=SOFT if fill == "none" else fill)
        p.text(612, y0 - 56 + 18 * k, what, 11)
    return p


def steady(row):
    ratio, spread = row["ratio"].get(MAIN[row["section"]], (1, 0))
    return spread <= UNSTEADY * ratio


def main():
    if len(sys.argv) < 3: sys.exit(__doc__)
    parts = [json.load(open(path)) for path in sys.argv[1:-1]]
    rows, machine = [r for p in parts for r in p["rows"]], parts[0]["machine"]
    shown = [r for r in rows if steady(r)]
    if len(shown) < len(rows): machine += f"; {len(rows) - len(shown)} of {len(rows)} rows, whose rounds differed, are left out"
    os.makedirs(sys.argv[-1], exist_ok=True)
    for name, draw in (("bars", bars), ("roofline", roofline)): draw(shown, machine).save(os.path.join(sys.argv[-1], name + ".svg"))


if __name__ == "__main__": main()
