"""Compiles files of Triton kernels to machine code ahead of time, without a GPU or PyTorch.

    aot.py OUT ARCHITECTURES FILE..

For every architecture (sm_80, sm_90a, ..) and every variant of every FILE (`variants.py`) it writes a cubin to OUT, and for
each file and architecture a manifest FILE-ARCHITECTURE.json with what a launch needs. Existing output from the same text and
the same compiler is kept. Prints every kernel's resources as CSV.
"""

import contextlib
import importlib
import io
import json
import math
import multiprocessing
import os
import pathlib
import re
import struct
import sys

os.environ["TRITON_DUMP_PTXAS_LOG"] = "1"
os.environ["TRITON_DISABLE_LINE_INFO"] = "1"
# Always compile, so that the assembler's report is available; this folder is the only cache.
os.environ["TRITON_ALWAYS_COMPILE"] = "1"

# The kernels are in the Python package, which launches them too.
KERNELS = pathlib.Path(__file__).resolve().parents[1] / "ellwand/_frameworks/triton_kernels"
# Columns of the table, from the assembler's report.
COLUMNS = ["registers", "stack_bytes", "spill_bytes", "shared_bytes"]
# Sizes of numbers in bytes; every other type is an address.
BYTES = {"i32": 4, "i64": 8, "fp32": 4, "fp64": 8}


def module(path):
    """Imports the file as a module of its folder, without the surrounding package."""
    path = pathlib.Path(path).resolve()
    sys.path.insert(0, str(path.parents[1]))
    return importlib.import_module(f"{path.parent.name}.{path.stem}")


def fnv(text):
    """FNV-1a; the loader computes the same hash of the text that it was built with."""
    hash = 0xCBF29CE484222325
    for byte in text.encode():
        hash = ((hash ^ byte) * 0x100000001B3) % (1 << 64)
    return f"{hash:016x}"


def resources(log, shared):
    """A kernel's resources from the assembler's report; shared memory includes all that a launch uses."""
    number = lambda pattern: sum(int(found) for found in re.findall(pattern, log))
    found = [
        number(r"Used (\d+) registers"),
        number(r"(\d+) bytes stack frame"),
        number(r"(\d+) bytes spill (?:stores|loads)"),
        shared,
    ]
    if found[0] == 0:
        raise SystemExit(f"the assembler reported no registers:\n{log}")
    return dict(zip(COLUMNS, found))


def described(cubin, entry):
    """The kernel's parameter sizes in bytes, in order, and the required threads per block, from its machine code."""
    (at,), (size, count, names) = struct.unpack_from("<Q", cubin, 40), struct.unpack_from("<HHH", cubin, 58)
    # Name, type, flags, address, offset and size of each section.
    sections = [struct.unpack_from("<IIQQQQ", cubin, at + size * index) for index in range(count)]
    called = lambda section: cubin[sections[names][4] + section[0] :].split(b"\0", 1)[0].decode()
    (info,) = [cubin[each[4] :][: each[5]] for each in sections if called(each) == f".nv.info.{entry}"]
    parameters, threads, at = {}, None, 0
    while at < len(info):
        # Most attributes have a two-byte value after their number; in format 4 it is the length of the data that
        # follows.
        form, attribute, more = struct.unpack_from("<BBH", info, at)
        at += 4
        if form != 4:
            continue
        if attribute == 0x17:  # EIATTR_KPARAM_INFO: index, place in the order, offset, and the size in the upper 14 bits.
            _, place, _, sizes = struct.unpack_from("<IHHI", info, at)
            parameters[place] = sizes >> 18
        elif attribute == 0x10:  # EIATTR_REQNTID
            threads = math.prod(struct.unpack_from("<III", info, at))
        elif attribute == 0x3D:  # EIATTR_CTA_PER_CLUSTER
            raise SystemExit(f"{entry}: it needs a cluster, which no launch provides")
        at += more
    return [parameters[place] for place in sorted(parameters)], threads


def scratch(meta, cubin, arguments):
    """The number of scratch memory addresses after the arguments; fails if an argument is missing or has the wrong size."""
    parameters, threads = described(cubin, meta.name)
    bytes = [BYTES.get(type, 8) for _, type in arguments]
    behind = parameters[len(bytes) :]
    if parameters[: len(bytes)] != bytes or any(size != 8 for size in behind):
        raise SystemExit(f"{meta.name}: parameters of {parameters} bytes for arguments of {bytes}")
    if threads != 32 * meta.num_warps:
        raise SystemExit(f"{meta.name}: blocks of {threads} threads for {meta.num_warps} warps")
    return len(behind)


def proven(variant, ptx, arch):
    """Checks the assembler's input for required properties."""
    if "tf32" in ptx:
        raise SystemExit(f"{variant.name}: it multiplies in TF32, which the f32 check does not accept")
    if variant.sixteens and not re.search(r"ld\.global\S*\.v4|cp\.async\S*\.shared\.global \[[^;]*0x10", ptx):
        raise SystemExit(f"{variant.name}: its arguments are multiples of 16, but it loads less than 16 bytes at a time")
    if arch == "sm_90a" and "*bf16" in variant.types.values() and "wgmma.mma_async" not in ptx:
        raise SystemExit(f"{variant.name}: it takes bf16 but does not use warpgroup products")


def compiled(job):
    """Compiles one variant for one architecture. Returns its manifest entry."""
    path, index, arch, out = job
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    variant = module(path).VARIANTS[index]
    names = variant.fn.arg_names
    signature = {name: "constexpr" if name in variant.constants else variant.types[name] for name in names}
    attributes = {(names.index(name),): [["tt.divisibility", 16]] for name in variant.sixteens}
    source = ASTSource(fn=variant.fn, signature=signature, constexprs=variant.constants, attrs=attributes)
    target = GPUTarget("cuda", int(re.search(r"\d+", arch).group()), 32)
    log = io.StringIO()
    with contextlib.redirect_stdout(log):
        made = triton.compile(source, target=target, options=dict(num_warps=variant.warps, num_stages=variant.stages))
    meta = made.metadata
    if meta.global_scratch_size or meta.profile_scratch_size or meta.num_ctas != 1:
        raise SystemExit(f"{variant.name}: it needs scratch memory or a cluster, which no launch provides")
    proven(variant, made.asm["ptx"], arch)
    arguments = [[name, signature[name]] for name in names if signature[name] != "constexpr"]
    cubin = f"{pathlib.Path(path).stem}-{arch}-{variant.name}.cubin"
    (out / cubin).write_bytes(made.asm["cubin"])
    return dict(
        kernel=variant.name,
        entry=meta.name,
        cubin=cubin,
        warps=meta.num_warps,
        shared_bytes=meta.shared,
        arguments=arguments,
        sixteens=list(variant.sixteens),
        # Addresses of scratch memory after the arguments; null, since no kernel uses any.
        scratch_pointers=scratch(meta, made.asm["cubin"], arguments),
        resources=resources(log.getvalue(), meta.shared),
    )


def main(out, architectures, paths):
    import triton

    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    helper = fnv((KERNELS / "variants.py").read_text() + pathlib.Path(__file__).read_text())
    manifests, jobs, wanted = {}, [], []
    for path in paths:
        text = pathlib.Path(path).read_text()
        for arch in architectures:
            at = out / f"{pathlib.Path(path).stem}-{arch}.json"
            head = dict(file=pathlib.Path(path).name, source=fnv(text), helper=helper, architecture=arch)
            head["compiler"] = f"Triton {triton.__version__}"
            try:
                known = json.loads(at.read_text())
            except (OSError, ValueError):
                known = {}
            if all(known.get(key) == value for key, value in head.items()):
                if all((out / kernel["cubin"]).exists() for kernel in known["kernels"]):
                    manifests[path, arch] = known
                    continue
            wanted.append((path, arch, at, head))
            jobs += [(path, index, arch, out) for index in range(len(module(path).VARIANTS))]
    made = {}
    if jobs:
        with multiprocessing.get_context("spawn").Pool(min(len(os.sched_getaffinity(0)), len(jobs))) as pool:
            for job, entry in zip(jobs, pool.imap(compiled, jobs, chunksize=4)):
                made.setdefault((job[0], job[2]), []).append(entry)
    for path, arch, at, head in wanted:
        manifests[path, arch] = dict(head, kernels=made[path, arch])
        own = at.with_suffix(f".{os.getpid()}.tmp")
        own.write_text(json.dumps(manifests[path, arch], indent=1))
        own.replace(at)
    print("source,architecture,kernel," + ",".join(COLUMNS))
    for path in paths:
        for arch in architectures:
            for kernel in sorted(manifests[path, arch]["kernels"], key=lambda kernel: kernel["kernel"]):
                numbers = ",".join(str(kernel["resources"][column]) for column in COLUMNS)
                print(f"{pathlib.Path(path).name},{arch},{kernel['kernel']},{numbers}")


if __name__ == "__main__":
    if len(sys.argv) < 4:
        raise SystemExit(__doc__)
    main(sys.argv[1], sys.argv[2].split(","), sys.argv[3:])
