"""Writes JPEGs and what pdqhash makes of them, one a line: file, hash, quality.

usage: pdq.py DIR PHOTOS

Needs the packages pdqhash, numpy and pillow. With scikit-learn and scikit-image,
the pictures are pieces of the photos in them; otherwise they are made up.
"""

import os
import sys

import numpy as np
import pdqhash
from PIL import Image

out, count = sys.argv[1], int(sys.argv[2])
rng = np.random.default_rng(3)
sources = []
for package, folder in (("sklearn", "datasets/images"), ("skimage", "data")):
    try:
        base = os.path.join(os.path.dirname(__import__(package).__file__), folder)
    except ImportError:
        continue
    for name in sorted(os.listdir(base)):
        if name.endswith((".jpg", ".png")):
            m = Image.open(os.path.join(base, name)).convert("RGB")
            if min(m.size) >= 250:
                sources.append(m)
if not sources:
    for _ in range(10):
        low = rng.integers(0, 256, (24, 32, 3), dtype=np.uint8)
        sources.append(Image.fromarray(low).resize((640, 480), Image.BICUBIC))
with open(os.path.join(out, "index"), "w") as index:
    for i in range(count):
        m = sources[i % len(sources)]
        w, h = int(rng.integers(150, m.size[0])), int(rng.integers(150, m.size[1]))
        x, y = int(rng.integers(0, m.size[0] - w + 1)), int(rng.integers(0, m.size[1] - h + 1))
        file = os.path.join(out, "%d.jpg" % i)
        m.crop((x, y, x + w, y + h)).save(file, quality=int(rng.integers(60, 96)), subsampling=[0, 1, 2][i % 3], progressive=i % 10 == 0)
        bits, quality = pdqhash.compute(np.asarray(Image.open(file).convert("RGB")))
        index.write("%s %064x %d\n" % (file, int("".join("1" if b else "0" for b in bits), 2), quality))
