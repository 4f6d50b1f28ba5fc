"""Writes a photo in many encodings, and what Pillow decodes of each.

usage: decode.py DIR

DIR/index gets a line for each file: name, width, height; NAME.raw are the means
of 8 x 8 pixels over white, three bytes each. Needs numpy and pillow; with cjpeg
(libjpeg-turbo) there are more JPEGs.
"""

import os
import shutil
import struct
import subprocess
import sys
import zlib

import numpy as np
from PIL import Image, ImageFile

out = sys.argv[1]
rng = np.random.default_rng(3)
m = Image.fromarray(rng.integers(50, 206, (4, 6, 3), dtype=np.uint8)).resize((403, 301), Image.BICUBIC)
a = np.asarray(m)
h, w = a.shape[:2]
rgba = np.dstack([a, (np.indices((h, w)).sum(0) % 256).astype(np.uint8)])
paletted = m.quantize(200)
moving = [m.rotate(30 * i) for i in range(4)]


def path(name):
    return os.path.join(out, name)


def read(name):
    with open(path(name), "rb") as f:
        return f.read()


def write(name, data):
    with open(path(name), "wb") as f:
        f.write(data)


def patch(old, name, change):
    write(name, change(bytearray(read(old))))


def without_jfif(b):
    return b[:2] + b[4 + b[4] * 256 + b[5]:]


def with_adobe(transform):
    def change(b):
        at = 4 + b[4] * 256 + b[5] if b[3] == 0xE0 else 2
        return b[:at] + b"\xff\xee\x00\x0eAdobe\x00\x64\0\0\0\0" + bytes([transform]) + b[at:]
    return change


def adobe(transform):
    def change(b):
        b[b.find(b"Adobe") + 11] = transform
        return b
    return change


def without_adobe(b):
    at = b.find(b"Adobe") - 4
    return b[:at] + b[at + 2 + b[at + 2] * 256 + b[at + 3]:]


for s in range(3):
    m.save(path("s%d.jpg" % s), subsampling=s, quality=88)
    m.save(path("p%d.jpg" % s), subsampling=s, quality=88, progressive=True)
    m.save(path("r%d.jpg" % s), subsampling=s, quality=88, restart_marker_blocks=3)
m.save(path("rgb.jpg"), keep_rgb=True)
m.convert("L").save(path("grey.jpg"))
for progressive in (False, True):
    name = "cmyk%d.jpg" % progressive
    m.convert("CMYK").save(path(name), quality=88, progressive=progressive)
    patch(name, "bare-" + name, without_adobe)
    patch(name, "ycck-" + name, adobe(2))
patch("s2.jpg", "jfif-adobe0.jpg", with_adobe(0))
patch("s2.jpg", "adobe0.jpg", lambda b: with_adobe(0)(without_jfif(b)))
patch("s2.jpg", "adobe1.jpg", lambda b: with_adobe(1)(without_jfif(b)))
patch("s2.jpg", "bare.jpg", without_jfif)
patch("s2.jpg", "no-end.jpg", lambda b: b[:-2])
patch("s2.jpg", "fill.jpg", lambda b: b[:2] + b"\xff\xff" + b[2:])
at = read("r2.jpg").find(b"\xff\xd3", len(read("r2.jpg")) // 3)
patch("r2.jpg", "lost-restart.jpg", lambda b: b[:at] + b[at + 2:])
for percent in (40, 95):
    for old in ("s0.jpg", "p2.jpg", "r2.jpg"):
        patch(old, "cut%d-%s" % (percent, old), lambda b: b[:len(b) * percent // 100])
if shutil.which("cjpeg"):
    m.save(path("photo.ppm"))
    for s in ("1x2", "1x4", "4x1", "3x1", "2x4", "4x2"):
        for how in ("", "-progressive"):
            subprocess.run("cjpeg -quality 88 %s -sample %s -outfile %s %s" % (how, s, path("c%s%s.jpg" % (s, how)), path("photo.ppm")), shell=True, check=True)
    subprocess.run("cjpeg -progressive -restart 1B -outfile %s %s" % (path("pr.jpg"), path("photo.ppm")), shell=True, check=True)
    os.remove(path("photo.ppm"))


def png(name, bits, kind, rows, interlace=0):
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    head = struct.pack(">IIBBBBB", w, h, bits, kind, 0, 0, interlace)
    write(name, b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"".join(b"\0" + r.tobytes() for r in rows))) + chunk(b"IEND", b""))


def interlaced(x):
    for x0, y0, dx, dy in ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)):
        yield from x[y0::dy, x0::dx]


deep = (a.astype(">u2") * 257).astype(">u2")
png("interlaced.png", 8, 2, interlaced(a), 1)
png("deep.png", 16, 2, deep)
png("deep-interlaced.png", 16, 2, interlaced(deep), 1)
png("deep-alpha.png", 16, 6, (rgba.astype(">u2") * 257).astype(">u2"))
Image.fromarray(rgba).save(path("alpha.png"))
m.convert("1").save(path("bits.png"))
m.convert("LA").save(path("grey-alpha.png"))
paletted.save(path("palette.png"))
paletted.save(path("palette-alpha.png"), transparency=bytes(range(200)))
m.quantize(4).save(path("palette4.png"), bits=2)
m.save(path("colour-key.png"), transparency=tuple(int(v) for v in a[100, 100]))



def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


m.convert("L").save(path("grey.png"))
patch("grey.png", "palette-in-grey.png", lambda b: b[:33] + chunk(b"PLTE", bytes(30)) + b[33:])
patch("alpha.png", "key-in-alpha.png", lambda b: b[:33] + chunk(b"tRNS", bytes(6)) + b[33:])
at = read("palette4.png").find(b"PLTE") - 4
patch("palette4.png", "palette-too-long.png", lambda b: b[:at] + chunk(b"PLTE", bytes(b[at + 8:at + 20]) + bytes(90)) + b[at + 24:])

m.save(path("a.gif"))
paletted.save(path("alpha.gif"), transparency=3)
moving[0].save(path("moving.gif"), save_all=True, append_images=moving[1:])
patch("moving.gif", "moving-cut.gif", lambda b: b[:len(b) * 7 // 10])
for name, how in (("lossy", {"quality": 85}), ("lossless", {"lossless": True})):
    m.save(path(name + ".webp"), **how)
    Image.fromarray(rgba).save(path(name + "-alpha.webp"), **how)
    moving[0].save(path(name + "-moving.webp"), save_all=True, append_images=moving[1:], **how)

m.save(path("a.bmp"))
paletted.save(path("palette.bmp"))
m.convert("1").save(path("bits.bmp"))


def bmp(name, bits, rows, palette=b"", compression=0, masks=b"", height=h):
    data, at = b"".join(rows), 54 + len(masks) + len(palette)
    write(name, b"BM" + struct.pack("<IHHI", at + len(data), 0, 0, at) +
          struct.pack("<IiiHHIIiiII", 40, w, height, 1, bits, compression, len(data), 0, 0, len(palette) // 4, 0) + masks + palette + data)


def padded(rows):
    return [bytes(r) + b"\0" * (-len(r) % 4) for r in rows]


five = a.astype(int) >> 3
bmp("top-down.bmp", 24, padded(r[:, ::-1].tobytes() for r in a), height=-h)
bmp("555.bmp", 16, padded((r[:, 0] << 10 | r[:, 1] << 5 | r[:, 2]).astype("<u2").tobytes() for r in five[::-1]))
bmp("565.bmp", 16, padded((r[:, 0] << 11 | r[:, 1] << 6 | r[:, 2]).astype("<u2").tobytes() for r in five[::-1]), compression=3, masks=struct.pack("<III", 0xf800, 0x7e0, 0x1f))
colours = paletted.getpalette() + [0] * 768
colours = b"".join(bytes([colours[3 * i + 2], colours[3 * i + 1], colours[3 * i], 0]) for i in range(256))
runs = []
for row in np.asarray(paletted)[::-1]:
    x = 0
    while x < w:
        n = 1
        while x + n < w and n < 255 and row[x + n] == row[x]:
            n += 1
        runs.append(bytes([n, int(row[x])]))
        x += n
    runs.append(b"\0\0")
bmp("runs.bmp", 8, runs + [b"\0\1"], colours, compression=1)
m.resize((256, 256)).save(path("png.ico"), sizes=[(16, 16), (256, 256)])
m.resize((256, 256)).save(path("bmp.ico"), sizes=[(16, 16), (128, 128)], bitmap_format="bmp")

ImageFile.LOAD_TRUNCATED_IMAGES = True
with open(path("index"), "w") as index:
    for name in sorted(os.listdir(out)):
        if name == "index":
            continue
        i = Image.open(path(name))
        i.load()
        white = Image.new("RGBA", i.size, (255, 255, 255, 255))
        white.alpha_composite(i.convert("RGBA"))
        x = np.asarray(white.convert("RGB")).astype(float)
        bh, bw = x.shape[0] // 8, x.shape[1] // 8
        write(name + ".raw", x[:8 * bh, :8 * bw].reshape(bh, 8, bw, 8, 3).mean((1, 3)).round().astype(np.uint8).tobytes())
        index.write("%s %d %d\n" % (name, i.size[0], i.size[1]))
