"""Small models, each with one thing in it that partitioners get wrong, written as ONNX text.

The shapes of trouble are those that MXNet, ONNX Runtime, torch.fx and TVM test their partitioners
on, and those on which they have failed. "Supported" below means an op of ``SUPPORTED_OPS`` (Add,
Mul, Relu), "unsupported" any other; a backend under test may of course support more or less.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from partita.errors import UnknownNameError
from partita.model import Model
from partita.testing.draft import IR_VERSION, OPSET


def hazard(name: str) -> Model:
    """Returns one of the models of :data:`HAZARDS`.

    Raises:
        UnknownNameError: There is none of that name.
    """
    if name not in HAZARDS:
        raise UnknownNameError("hazard", name, HAZARDS)
    head = f'<ir_version: {IR_VERSION}, opset_import: ["": {OPSET}]>\n'
    model = ir.from_onnx_text(f"{head}{name} {HAZARDS[name]}")
    given = 0
    for _, graph in Model(model).graphs():
        for node in graph:
            node.name, node.version = f"{node.op_type}_{given}", OPSET
            given += 1
    return Model(model, f"<hazard {name}>")


HAZARDS: Mapping[str, str] = {
    "single_node": """(float[2,3] x) => (float[2,3] y) { y = Relu(x) }""",
    "nothing_supported": """(float[2,3] x) => (float[2,3] y) { a = Tanh(x) y = Sigmoid(a) }""",
    "no_node": """(float[2,3] x) => (float[2,3] x) { }""",
    "all_supported_diamond": """(float[2,3] x) => (float[2,3] y) {
        a = Relu(x) b = Mul(a, a) c = Add(a, x) y = Add(b, c) }""",
    "chain_interrupted": """(float[2,3] x) => (float[2,3] y) {
        a = Relu(x) b = Tanh(a) y = Relu(b) }""",
    # Both ends may be taken, not together with a way around through what is not.
    "cycle_through_outside": """(float[2,3] x) => (float[2,3] y) {
        a = Relu(x) b = Tanh(a) y = Add(a, b) }""",
    "cycle_through_long_outside": """(float[2,3] x) => (float[2,3] y) {
        a = Relu(x) b = Tanh(a) c = Tanh(b) d = Tanh(c) e = Tanh(d) f = Tanh(e) g = Tanh(f)
        h = Tanh(g) i = Tanh(h) y = Add(a, i) }""",
    "stacked_cycles": """(float[2,3] x) => (float[2,3] y) {
        a = Relu(x) b = Tanh(a) c = Add(a, b) d = Sigmoid(c) e = Mul(c, d) f = Tanh(e)
        y = Add(e, f) }""",
    # Two pieces, each fine alone, feed each other: MXNet returned a cyclic graph here.
    "mutual_cycle": """(float[2,3] x, float[2,3] z) => (float[2,3] y, float[2,3] w) {
        a = Relu(x) b = Relu(z) ta = Tanh(a) tb = Tanh(b) y = Add(a, tb) w = Add(b, ta) }""",
    "cycle_then_tail": """(float[2,3] x) => (float[2,3] y) {
        a = Relu(x) b = Tanh(a) c = Add(a, b) d = Relu(c) e = Mul(d, c) y = Relu(e) }""",
    "inner_ring": """(float[2,3] x) => (float[2,3] y) {
        a = Tanh(x) b = Relu(a) c = Tanh(b) d = Add(b, c) e = Mul(b, d) y = Sigmoid(e) }""",
    "duplicate_inputs": """(float[2,3] x) => (float[2,3] y) {
        a = Add(x, x) b = Tanh(a) c = Mul(b, b) y = Add(c, c) }""",
    "duplicate_outputs": """(float[2,3] x) => (float[2,3] y, float[2,3] y, float[2,3] z) {
        y = Relu(x) z = Tanh(y) }""",
    "shared_input": """(float[2,3] x) => (float[2,3] y, float[2,3] z) {
        a = Relu(x) b = Tanh(a) y = Add(x, b) z = Mul(x, a) }""",
    "output_read_inside": """(float[2,3] x) => (float[2,3] a, float[2,3] y) {
        a = Relu(x) b = Mul(a, a) c = Tanh(b) y = Add(a, c) }""",
    "output_is_input": """(float[2,3] x, float[3] z) => (float[2,3] x, float[2,3] y, float[3] z) {
        y = Relu(x) }""",
    "output_is_weight": """(float[2] x) => (float[2] w, float[2] y) <float[2] w = {1.5, -2}> {
        y = Mul(x, w) }""",
    "unread_input": """(float[2,3] x, float[9] unused) => (float[2,3] y) { y = Relu(x) }""",
    "dead_branch": """(float[2,3] x) => (float[2,3] y) {
        a = Relu(x) dead = Mul(a, a) deader = Tanh(dead) y = Relu(a) }""",
    "two_components": """(float[2,3] x, float[4] z) => (float[2,3] y, float[4] w) {
        a = Relu(x) y = Mul(a, a) b = Relu(z) w = Add(b, b) }""",
    "several_outputs": """(float[4,6] x) => (float[4,6] y) <int64[3] parts = {1, 2, 3}> {
        a, b, c = Split <axis = 1> (x, parts) d = Relu(b) e = Tanh(c) y = Concat <axis = 1>(a, d, e)
        }""",
    "shared_weight": """(float[2,2] x) => (float[2,2] y) <float[2,2] w = {1, 2, 3, 4}> {
        a = Mul(x, w) b = Tanh(a) c = Add(b, w) d = MatMul(c, w) y = Relu(d) }""",
    "shared_weight_across_bodies": """(float[2] x, bool c) => (float[2] y)
        <float[2] w = {3, 4}> {
        a = Mul(x, w)
        y = If(c) <then_branch = yes () => (float[2] p) { p = Add(a, w) },
                   else_branch = no () => (float[2] q) { q = Mul(w, w) }> }""",
    "weights_alone": """(float[2] x) => (float[2] y) <float[2] w = {3, 4}, float[2] v = {1, -1}> {
        a = Mul(w, v) b = Relu(a) y = Add(b, x) }""",
    "trained_and_running_weights": """(float[2,2,2,2] x) => (float[2,2,2,2] y)
        <float[2] s = {1, 2}, float[2] b = {0.5, -1}, float[2] m = {0.1, 0.2}, float[2] v = {1, 2}>
        { a = Relu(x) n = BatchNormalization <epsilon = 0.001> (a, s, b, m, v) y = Add(n, a) }""",
    "no_input": """() => (float[2,2] y) <int64[2] size = {2, 2}, float[2] w = {1, 2}> {
        a = ConstantOfShape <value = float[1] {3}> (size) b = Mul(a, w) y = Relu(b) }""",
    "left_out_inputs": """(float[5] x) => (float[5] y) <float high = {1}> {
        a = Clip(x, , high) b = Relu(a) y = Clip(b) }""",
    "left_out_outputs": """(float[2,1,2] x) => (float[1,1,1] y)
        <float[1,3,2] w = {1, -1, 0.5, 2, -0.5, 1}, float[1,3,1] u = {0.5, -1, 1}> {
        a = Relu(x) , h = GRU <hidden_size = 1> (a, w, u) y = Add(h, h) }""",
    "needs_constants": """(float[1,1,2,2] x) => (float[1,1,6,4] y)
        <float[4] scales = {1, 1, 2, 2}, int64[8] pads = {0, 0, 1, 0, 0, 0, 1, 0},
         int64[2] flat = {0, -1}, int64[4] deep = {1, 1, 6, 4}> {
        a = Relu(x)
        b = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric",
                    nearest_mode = "floor"> (a, , scales)
        c = Pad(b, pads) d = Reshape(c, flat) e = Relu(d) y = Reshape(e, deep) }""",
    "shape_arithmetic": """(float[n,2,3] x) => (float[n,6] y)
        <int64 zero = {0}, int64[1] first = {0}, int64[1] rest = {-1}> {
        s = Shape(x) g = Gather <axis = 0> (s, zero) u = Unsqueeze(g, first)
        t = Concat <axis = 0> (u, rest) r = Relu(x) y = Reshape(r, t) }""",
    "unknown_shape": """(float[6] x) => (float[m] y) {
        a = Relu(x) i = NonZero(a) j = Squeeze(i) b = Gather(a, j) c = Tanh(b) y = Add(b, c) }""",
    "symbolic_batch": """(float[n,3] x) => (float[n,2] y)
        <float[3,2] w = {1, 2, 3, 4, 5, 6}, float[2] b = {1, -1}> {
        a = MatMul(x, w) c = Add(a, b) d = Tanh(c) e = Relu(d) y = Mul(e, c) }""",
    "zero_size": """(float[0,3] x, float[2,3] z) => (float[2,3] y) {
        a = Relu(x) b = Add(a, a) c = Concat <axis = 0> (b, z) y = Tanh(c) }""",
    "scalar": """(float x) => (float y) { a = Relu(x) b = Tanh(a) y = Add(a, b) }""",
    "captured": """(float[2] x, bool c) => (float[2] y) {
        a = Relu(x) b = Mul(a, a) t = Tanh(b)
        r = If(c) <then_branch = yes () => (float[2] p) { p = Add(a, b) },
                   else_branch = no () => (float[2] q) { q = Mul(b, t) }>
        y = Add(r, a) }""",
    "captured_through_two_bodies": """(float[2] x, bool c) => (float[2] y) {
        a = Relu(x) d = Not(c)
        y = If(c) <then_branch = yes () => (float[2] p) {
                       p = If(d) <then_branch = yes2 () => (float[2] p2) { p2 = Mul(a, x) },
                                  else_branch = no2 () => (float[2] q2) { q2 = Add(a, x) }> },
                   else_branch = no () => (float[2] q) { q = Tanh(a) }> }""",
    "branch_is_captured": """(float[2] x, bool c) => (float[2] y) {
        a = Relu(x) b = Tanh(x)
        y = If(c) <then_branch = yes () => (float[2] p) { p = Identity(a) },
                   else_branch = no () => (float[2] q) { q = Identity(b) }> }""",
    "loop_carried": """(float[2] x) => (float[2] y, float[3,2] rows)
        <int64 trips = {3}, bool go = {1}, float[2] w = {0.5, 2}> {
        s = Relu(x)
        y, rows = Loop(trips, go, s) <body = step (int64 i, bool on, float[2] h)
            => (bool off, float[2] k, float[2] row)
            { off = Identity(on) a = Mul(h, w) b = Add(a, s) k = Relu(b) row = Tanh(k) }> }""",
    "loop_never": """(float[2] x) => (float[2] y) <int64 trips = {0}, bool go = {1}> {
        s = Relu(x)
        y = Loop(trips, go, s) <body = step (int64 i, bool on, float[2] h)
            => (bool off, float[2] k) { off = Identity(on) k = Add(h, s) }> }""",
    "scan": """(float[3,2] x) => (float[2] y, float[3,2] rows) <float[2] w = {0, 0}> {
        a = Relu(x)
        y, rows = Scan(w, a) <num_scan_inputs = 1, body = step (float[2] h, float[2] r)
            => (float[2] k, float[2] row) { k = Add(h, r) m = Mul(k, w) row = Tanh(k) }> }""",
    "sequence": """(float[2] x) => (float[4] y) <int64 one = {1}> {
        a = Relu(x) b = Add(a, a) s = SequenceConstruct(a, b) c = SequenceAt(s, one) d = Relu(c)
        y = Concat <axis = 0>(a, d) }""",
    "integers_and_truth": """(int64[4] i, int32[4] j, bool[4] b) => (int64[4] y, bool[4] z) {
        k = Cast <to = 7> (j) s = Add(i, k) m = Mul(s, s) g = Greater(m, i) z = And(g, b)
        y = Where(z, s, m) }""",
    "identity_chain": """(float[2] x) => (float[2] y) {
        a = Identity(x) b = Relu(a) c = Identity(b) d = Tanh(c) y = Identity(d) }""",
    "residual": """(float[1,2,4,4] x) => (float[1,2,4,4] y)
        <float[2,2,1,1] w = {0.5, -0.25, 1, 2}, float[2] b = {0.1, -0.1}> {
        c = Conv(x, w, b) r = Relu(c) d = Conv(r, w) e = Add(d, x) y = Relu(e) }""",
}
"""The models by name: graph text after the model's header."""
