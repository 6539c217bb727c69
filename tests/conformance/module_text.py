"""Modules in the form of JAX's primitive harness: inputs, what is expected, the op, the check."""

import numpy as np


class Value:
    """An array of a type; its dtype is the type's bits."""

    def __init__(self, type_, array):
        self.type, self.array = type_, np.ascontiguousarray(np.asarray(array, dtype=type_.bits)).reshape(np.shape(array))

    @property
    def text_type(self):
        return tensor(self.type, self.array.shape)


def tensor(type_, shape):
    name = type_ if isinstance(type_, str) else type_.name
    return "tensor<" + "".join(f"{d}x" for d in shape) + name + ">"


def word(type_, element):
    if type_.kind == "bool":
        return "true" if element else "false"
    if type_.kind in ("int", "uint"):
        return str(int(element))
    if type_.kind == "complex":
        part = np.float32 if type_.bits.itemsize == 8 else np.float64
        return f"({bits_word(np.array(element.real, part))},{bits_word(np.array(element.imag, part))})"
    return bits_word(np.asarray(element))


def bits_word(x):
    return "0x" + np.ascontiguousarray(x)[..., None].view(np.uint8).ravel()[::-1].tobytes().hex().upper()


def literal(value, as_list=False):
    """dense<..>, without the type."""
    array = value.array
    if array.size == 0:
        return "dense<>"
    if array.size == 1 or (as_list and array.size <= 100):
        return "dense<" + nested(value.type, array) + ">"
    return 'dense<"0x' + array.tobytes().hex().upper() + '">'


def nested(type_, array):
    if array.ndim == 0:
        return word(type_, array[()])
    return "[" + ", ".join(nested(type_, a) for a in array) + "]"


class Case:
    """body: ops that read %0, %1, .. of `inputs` and give %r, or %r#0 ..; ulps None: equal bit for bit."""

    def __init__(self, name, inputs, body, expected, ulps=None, rtol=None, atol=0.0, functions=""):
        self.name, self.inputs, self.body, self.functions = name, inputs, body, functions
        self.expected = expected if isinstance(expected, list) else [expected]
        self.ulps, self.rtol, self.atol = ulps, rtol, atol

    def text(self, check=True):
        names = [v.text_type for v in self.inputs]
        wanted = [v.text_type for v in self.expected]
        lines = ["module @jit_main attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {"]
        results = ", ".join(f'{t} {{jax.result_info = "", mhlo.layout_mode = "default"}}' for t in wanted)
        lines.append(f"  func.func public @main() -> ({results}) {{")
        if names:
            lines.append("    " + bind("in", len(names)) + f" = call @inputs() : () -> {listed(names)}")
        lines.append("    " + bind("want", len(wanted)) + f" = call @expected() : () -> {listed(wanted)}")
        lines += ["    " + line for line in self.body_lines()]
        got = ["%r"] if len(wanted) == 1 else [f"%r#{i}" for i in range(len(wanted))]
        want = ["%want"] if len(wanted) == 1 else [f"%want#{i}" for i in range(len(wanted))]
        if check and self.rtol is None and not self.atol and (self.ulps is None or self.ulps <= 3):
            for g, w, v in zip(got, want, self.expected):
                call = "expect_close" if v.type.kind in ("float", "complex") and self.ulps else "expect_eq"
                lines.append(f"    stablehlo.custom_call @check.{call}({g}, {w}) {{has_side_effect = true}} : "
                             f"({v.text_type}, {v.text_type}) -> ()")
        lines.append(f"    return {', '.join(got)} : {', '.join(wanted)}")
        lines.append("  }")
        if names:
            lines += function("inputs", self.inputs)
        lines += function("expected", self.expected)
        return "\n".join(lines) + "\n" + self.functions + "}\n"

    def body_lines(self):
        body = self.body
        for i in reversed(range(len(self.inputs))):
            given = "%in" if len(self.inputs) == 1 else f"%in#{i}"
            body = body.replace(f"${i}", given)
        return body.split("\n")


def bind(name, count):
    return f"%{name}" if count == 1 else f"%{name}:{count}"


def listed(types):
    return types[0] if len(types) == 1 else "(" + ", ".join(types) + ")"


def function(name, values):
    types = [v.text_type for v in values]
    lines = [f"  func.func private @{name}() -> ({', '.join(t + ' {mhlo.layout_mode = ' + chr(34) + 'default' + chr(34) + '}' for t in types)}) {{"]
    for i, v in enumerate(values):
        constant = "%cst" if v.type.kind in ("float", "complex") else "%c"
        lines.append(f"    {constant}_{i} = stablehlo.constant {literal(v, i % 2 == 1)} : {v.text_type}")
    names = [("%cst" if v.type.kind in ("float", "complex") else "%c") + f"_{i}" for i, v in enumerate(values)]
    lines.append(f"    return {', '.join(names)} : {', '.join(types)}")
    return lines + ["  }"]
