"""Compiles files of Triton kernels to machine code ahead of time: no GPU, no PyTorch.

    aot.py OUT ARCHITECTURES FILE..

For every architecture (sm_80, sm_90a, ..) and every variant of every FILE (`variants.py`) a cubin goes to OUT, and for each
file and architecture a manifest FILE-ARCHITECTURE.json that says what a launch needs. What is there already and was made
from the same text by the same compiler stays. Prints what every kernel takes up as CSV.
"""

import contextlib
import importlib.util
import io
import json
import multiprocessing
import os
import pathlib
import re
import sys

os.environ["TRITON_DUMP_PTXAS_LOG"] = "1"
os.environ["TRITON_DISABLE_LINE_INFO"] = "1"
# What is asked for must be compiled and its assembler heard; this folder is the only cache.
os.environ["TRITON_ALWAYS_COMPILE"] = "1"

HERE = pathlib.Path(__file__).resolve().parent
# Words of the table, as the assembler prints them.
COLUMNS = ["registers", "stack_bytes", "spill_bytes", "shared_bytes"]


def module(path):
    """The file as a module."""
    sys.path.insert(0, str(HERE))
    spec = importlib.util.spec_from_file_location(f"kernels_{pathlib.Path(path).stem}", path)
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made
    spec.loader.exec_module(made)
    return made


def fnv(text):
    """FNV-1a, as the loading side computes it of the text that it was built with."""
    hash = 0xCBF29CE484222325
    for byte in text.encode():
        hash = ((hash ^ byte) * 0x100000001B3) % (1 << 64)
    return f"{hash:016x}"


def resources(log, shared):
    """What the assembler said of a kernel; shared memory is all that a launch takes."""
    number = lambda pattern: sum(int(found) for found in re.findall(pattern, log))
    found = [
        number(r"Used (\d+) registers"),
        number(r"(\d+) bytes stack frame"),
        number(r"(\d+) bytes spill (?:stores|loads)"),
        shared,
    ]
    if found[0] == 0:
        raise SystemExit(f"the assembler said nothing of registers:\n{log}")
    return dict(zip(COLUMNS, found))


def proven(variant, ptx, arguments, arch):
    """What must be true of the code, seen in the assembler's input; how many addresses of scratch memory it takes."""
    entry = re.search(r"\.visible \.entry \w+\((.*?)\)", ptx, re.DOTALL)
    parameters = entry.group(1).count(".param")
    if parameters < len(arguments):
        raise SystemExit(f"{variant.name}: {parameters} parameters for {len(arguments)} arguments: some were dropped")
    if "tf32" in ptx:
        raise SystemExit(f"{variant.name}: it multiplies in TF32, which the gate of f32 does not let pass")
    if variant.sixteens and not re.search(r"ld\.global\S*\.v4|cp\.async\S*\.shared\.global \[[^;]*0x10", ptx):
        raise SystemExit(f"{variant.name}: it is promised multiples of 16 and loads less than 16 bytes at a time")
    if arch == "sm_90a" and "*bf16" in variant.types.values() and "wgmma.mma_async" not in ptx:
        raise SystemExit(f"{variant.name}: it takes bf16 and does not multiply by warpgroups")
    return parameters - len(arguments)


def compiled(job):
    """One variant for one architecture: its entry in the manifest."""
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
        raise SystemExit(f"{variant.name}: it wants scratch memory or a cluster, which nobody gives it")
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
        # Addresses of scratch memory behind the arguments; null, since no kernel uses any.
        scratch_pointers=proven(variant, made.asm["ptx"], arguments, arch),
        resources=resources(log.getvalue(), meta.shared),
    )


def main(out, architectures, paths):
    import triton

    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    helper = fnv((HERE / "variants.py").read_text() + pathlib.Path(__file__).read_text())
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
