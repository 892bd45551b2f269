"""Compiles files of Triton kernels to machine code ahead of time, without a GPU or PyTorch.

    aot.py OUT ARCHITECTURES FILE..

Compiles every variant of every FILE (`variants.py`) for every architecture (sm_80, sm_90a, ..) and prints the resources of the
kernels as CSV. OUT caches them, in FILE-ARCHITECTURE.json, for the same text and the same compiler.
"""

import contextlib
import hashlib
import importlib
import io
import json
import multiprocessing
import os
import pathlib
import re
import sys

os.environ["TRITON_DUMP_PTXAS_LOG"] = "1"
os.environ["TRITON_DISABLE_LINE_INFO"] = "1"
# Always compile, so that the assembler's report is available; this folder is the only cache.
os.environ["TRITON_ALWAYS_COMPILE"] = "1"

# The kernels are in the Python package, which launches them too.
KERNELS = pathlib.Path(__file__).resolve().parents[1] / "ellwand/_frameworks/triton_kernels"
# Columns of the table, from the assembler's report.
COLUMNS = ["registers", "stack_bytes", "spill_bytes", "shared_bytes"]


def module(path):
    """Imports the file as a module of its folder, without the surrounding package."""
    path = pathlib.Path(path).resolve()
    sys.path.insert(0, str(path.parents[1]))
    return importlib.import_module(f"{path.parent.name}.{path.stem}")


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


def proven(variant, ptx, arch):
    """Checks the assembler's input for required properties."""
    if "tf32" in ptx:
        raise SystemExit(f"{variant.name}: it multiplies in TF32, which the f32 check does not accept")
    if variant.sixteens and not re.search(r"ld\.global\S*\.v4|cp\.async\S*\.shared\.global \[[^;]*0x10", ptx):
        raise SystemExit(f"{variant.name}: its arguments are multiples of 16, but it loads less than 16 bytes at a time")
    if arch == "sm_90a" and "*bf16" in variant.types.values() and "wgmma.mma_async" not in ptx:
        raise SystemExit(f"{variant.name}: it takes bf16 but does not use warpgroup products")


def compiled(job):
    """Compiles one variant for one architecture. Returns its name and resources."""
    path, index, arch = job
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
    return variant.name, resources(log.getvalue(), meta.shared)


def main(out, architectures, paths):
    import triton

    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    shared = [KERNELS / "variants.py", pathlib.Path(__file__)]
    tables, jobs, wanted = {}, [], []
    for path in map(pathlib.Path, paths):
        text = "".join(each.read_text() for each in [path, *shared])
        key = f"Triton {triton.__version__}, {hashlib.sha256(text.encode()).hexdigest()}"
        for arch in architectures:
            at = out / f"{path.stem}-{arch}.json"
            try:
                known = json.loads(at.read_text())
            except (OSError, ValueError):
                known = {}
            if known.get("key") == key:
                tables[path, arch] = known["kernels"]
                continue
            wanted.append((path, arch, at, key))
            jobs += [(path, index, arch) for index in range(len(module(path).VARIANTS))]
    made = {}
    if jobs:
        with multiprocessing.get_context("spawn").Pool(min(len(os.sched_getaffinity(0)), len(jobs))) as pool:
            for (path, _, arch), (name, used) in zip(jobs, pool.imap(compiled, jobs, chunksize=4)):
                made.setdefault((path, arch), {})[name] = used
    for path, arch, at, key in wanted:
        tables[path, arch] = made[path, arch]
        own = at.with_suffix(f".{os.getpid()}.tmp")
        own.write_text(json.dumps(dict(key=key, kernels=tables[path, arch]), indent=1))
        own.replace(at)
    print("source,architecture,kernel," + ",".join(COLUMNS))
    for path, arch in ((path, arch) for path in map(pathlib.Path, paths) for arch in architectures):
        for name, used in sorted(tables[path, arch].items()):
            print(f"{path.name},{arch},{name}," + ",".join(str(used[column]) for column in COLUMNS))


if __name__ == "__main__":
    if len(sys.argv) < 4:
        raise SystemExit(__doc__)
    main(sys.argv[1], sys.argv[2].split(","), sys.argv[3:])
