"""Runs the variants of Triton kernels on the processor, for tests that hold them against their workload's f64 reference.

Speaks on its standard streams: a line of words asks, arrays follow as bytes; the answer is a line `ok ..` (with bytes
behind it for `read`) or `error TEXT`. Arguments are a letter for their type (`Arg::letter`) and a word of 64 bits of which the
kernel takes as many as its type has, as the driver does. Memory has guards around it that are looked at after every launch.

    source NAME BYTES    a file of kernels follows      alloc BYTES, free AT
    kernel NAME VARIANT                                 write AT BYTES, read AT BYTES, fill AT BYTE BYTES
    launch NAME VARIANT X Y Z LETTERWORD..
"""

import os

os.environ["TRITON_INTERPRET"] = "1"

import ctypes
import pathlib
import sys
import tempfile
import traceback

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

from aot import module

# Bytes before and behind every array that no kernel may write, and what stands in them.
GUARD, GUARD_BYTE = 256, 0xA5
# What Triton calls the types of numbers, and what numpy does.
NUMBERS = {"i32": (tl.int32, np.int32), "i64": (tl.int64, np.int64), "fp32": (tl.float32, np.float32), "fp64": (tl.float64, np.float64)}
LETTERS = {"i32": "u", "i64": "l", "fp32": "f", "fp64": "d"}
ADDRESSED = {"*fp32": tl.float32, "*fp64": tl.float64, "*i64": tl.int64, "*bf16": tl.bfloat16, "*fp16": tl.float16}


# The interpreter keeps bf16 as its bits and multiplies those: a product of bf16 is one of the same values in f32, exactly.
multiply = InterpreterBuilder.create_dot


def create_dot(self, a, b, d, *how):
    wide = lambda x: self.cast_impl(x, tl.float32) if x.dtype.scalar == tl.bfloat16 else x
    return multiply(self, wide(a), wide(b), d, *how)


InterpreterBuilder.create_dot = create_dot

# It also cuts a f32 off where bf16 ends; devices round to the nearest, ties to even.
cast, convert = InterpreterBuilder.cast_impl, InterpreterBuilder.create_fp_to_fp


def rounded(src):
    bits = src.data.view(np.uint32)
    nearest = (bits + np.uint32(0x7FFF) + (bits >> 16 & np.uint32(1))) >> 16
    nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    return TensorHandle(np.where(nan, bits >> 16 | np.uint32(0x40), nearest).astype(np.uint16), tl.bfloat16)


def narrows(src, to):
    return src.dtype.scalar == tl.float32 and to.scalar == tl.bfloat16


InterpreterBuilder.cast_impl = lambda self, src, to: rounded(src) if narrows(src, to) else cast(self, src, to)
InterpreterBuilder.create_fp_to_fp = (
    lambda self, src, to, mode: rounded(src) if narrows(src, to) else convert(self, src, to, mode)
)


class Machine:
    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="ellwand-triton-")
        self.variants = {}
        self.arrays = {}

    def source(self, name, text):
        path = pathlib.Path(self.folder.name) / name
        path.write_bytes(text)
        self.variants[name] = {variant.name: variant for variant in module(path).VARIANTS}
        return ""

    def variant(self, name, variant):
        return self.variants[name][variant]

    def alloc(self, size):
        # 256 bytes on, so that the array begins where one of the device's memory does.
        whole = np.full(size + 2 * GUARD + 256, GUARD_BYTE, dtype=np.uint8)
        at = (whole.ctypes.data + GUARD + 255) // 256 * 256
        self.arrays[at] = (whole, size)
        return at

    def guards(self):
        for at, (whole, size) in self.arrays.items():
            start = at - whole.ctypes.data
            for side, part in [("before", whole[:start]), ("behind", whole[start + size :])]:
                if not (part == GUARD_BYTE).all():
                    raise ValueError(f"a kernel wrote {side} an array of {size} bytes")

    def launch(self, name, variant, grid, words):
        variant = self.variant(name, variant)
        names = [name for name in variant.fn.arg_names if name not in variant.constants]
        if len(names) != len(words):
            raise ValueError(f"{variant.name} takes {len(names)} arguments ({', '.join(names)}), {len(words)} were given")
        args = dict(variant.constants)
        for argument, word in zip(names, words):
            kind = variant.types[argument]
            letter, word = word[0], int(word[1:])
            if letter != LETTERS.get(kind, "p"):
                raise ValueError(f"{variant.name} takes {argument} of type {kind} and got one of letter {letter}")
            if kind in ADDRESSED:
                type, value, promised = tl.pointer_type(ADDRESSED[kind]), np.array([word], np.uint64), word
            else:
                type, number = NUMBERS[kind]
                value = np.frombuffer(word.to_bytes(8, "little"), number)[:1].copy()
                promised = int(value[0])
            if argument in variant.sixteens and promised % 16 != 0:
                raise ValueError(f"{variant.name} was promised {argument} as a multiple of 16 and got {promised}")
            args[argument] = tl.tensor(TensorHandle(value, type), type)
        with np.errstate(all="ignore"):
            variant.fn[grid](**args)
        self.guards()
        return ""


def serve(lines, answers):
    machine = Machine()
    while asked := lines.readline():
        verb, *words = asked.decode().split()
        reply, behind = "", b""
        # What follows on the wire is taken off it before anything can go wrong.
        payload = lines.read(int(words[-1])) if verb in ("source", "write") else b""
        try:
            if verb == "source":
                machine.source(words[0], payload)
            elif verb == "kernel":
                machine.variant(words[0], words[1])
            elif verb == "alloc":
                reply = machine.alloc(int(words[0]))
            elif verb == "free":
                del machine.arrays[int(words[0])]
            elif verb == "write":
                ctypes.memmove(int(words[0]), payload, len(payload))
            elif verb == "read":
                behind = ctypes.string_at(int(words[0]), int(words[1]))
            elif verb == "fill":
                ctypes.memset(int(words[0]), int(words[1]), int(words[2]))
            elif verb == "launch":
                grid = tuple(int(word) for word in words[2:5])
                machine.launch(words[0], words[1], grid, words[5:])
            else:
                raise ValueError(f"'{verb}' is no request")
            answers.write(f"ok {reply}\n".encode() + behind)
        except Exception as error:
            where = traceback.format_exception(error)[-1].strip().replace("\n", " ")
            cause = f" ({error.__cause__!r})" if error.__cause__ else ""
            answers.write(f"error {where}{cause}\n".encode())
        answers.flush()


if __name__ == "__main__":
    # Whatever a library prints must not stand among the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(sys.stdin.buffer, answers)
