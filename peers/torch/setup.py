"""Creates a virtual environment with PyTorch for the CPU in target/peers/torch.

    python3.11 setup.py

The registry's wheel for x86-64 Linux is the CUDA build. It is installed without its CUDA dependencies; the CUDA libraries that
it links against are replaced by stubs (correct names and symbol versions, functions that abort when called), which the CPU
path never calls. Results call this "CPU path, CUDA stubs".
"""

import collections
import pathlib
import re
import shutil
import subprocess
import sys
import venv

HERE = pathlib.Path(__file__).resolve().parent
HOME = HERE.parents[1] / "target" / "peers" / "torch"
PYTHON = HOME / "bin" / "python"
TORCH = "2.15.0"
PACKAGES = ["typing_extensions", "sympy", "networkx", "jinja2", "fsspec", "filelock", "numpy", "mpmath", "setuptools>=77"]
REAL = ["nvidia-cuda-runtime==13.2.*", "nvidia-cuda-cupti==13.2.*"]
# Stub libraries by prefix of their functions' names; the longest prefix wins.
STUBS = {
    "libcublasLt.so": ["cublasLt"],
    "libcublas.so": ["cublas"],
    "libcudnn.so": ["cudnn"],
    "libcufft.so": ["cufft"],
    "libcufile.so": ["cuFile"],
    "libcusparseLt.so": ["cusparseLt"],
    "libcusparse.so": ["cusparse"],
    "libcusolver.so": ["cusolver"],
    "libnccl.so": ["nccl", "pnccl"],
    "libnvrtc.so": ["nvrtc"],
    "libnvshmem_host.so": ["nvshmem"],
    "libcurand.so": ["curand"],
    "libnvJitLink.so": ["nvJitLink"],
}


def run(*command):
    return subprocess.run([str(part) for part in command], check=True, text=True, stdout=subprocess.PIPE).stdout


def install():
    if not PYTHON.exists():
        venv.create(HOME, with_pip=True)
    pip = [PYTHON, "-m", "pip", "install", "-q"]
    run(*pip, "--no-deps", f"torch=={TORCH}")
    run(*pip, *PACKAGES)
    run(*pip, "--no-deps", *REAL)


def stubs():
    """Builds stub libraries for those that torch links against and that are not installed."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        sys.exit("no C compiler: the CUDA libraries that torch links against cannot be stubbed, so torch is absent")
    lib = next(HOME.glob("lib/python*/site-packages")) / "torch" / "lib"
    present = {path.name for path in lib.parents[1].glob("**/lib*.so*")}
    needed, symbols = set(), collections.defaultdict(set)
    for shared in sorted(lib.glob("lib*.so*")):
        needed |= set(re.findall(r"NEEDED.*\[(.*?)\]", run("readelf", "-d", shared)))
        for line in run("nm", "-D", "--undefined-only", shared).splitlines():
            name, _, version = line.split()[-1].partition("@")
            symbols[name].add(version.lstrip("@"))
    made = []
    for soname in sorted(needed):
        stem = soname.split(".so")[0] + ".so"
        if soname in present or stem not in STUBS:
            continue
        nodes = collections.defaultdict(list)
        for name, versions in symbols.items():
            owner = max((b for beginnings in STUBS.values() for b in beginnings if name.startswith(b)), key=len, default=None)
            if owner in STUBS[stem]:
                for version in versions:
                    nodes[version].append(name)
        source, script = HOME / f"{soname}.c", HOME / f"{soname}.map"
        names = sorted({name for names in nodes.values() for name in names})
        source.write_text("#include <stdlib.h>\n" + "".join(f"void {name}(void) {{ abort(); }}\n" for name in names))
        command = [compiler, "-w", "-shared", "-fPIC", "-o", lib / soname, source, f"-Wl,-soname,{soname}"]
        if any(nodes):
            script.write_text("".join(f"{v} {{ global: {'; '.join(sorted(n))}; }};\n" for v, n in nodes.items() if v))
            command.append(f"-Wl,--version-script={script}")
        run(*command)
        made.append(soname)
    print(f"stubs: {', '.join(made) or 'none were missing'}", file=sys.stderr)


if __name__ == "__main__":
    install()
    stubs()
    print(run(PYTHON, "-c", "import torch; print('torch', torch.__version__, 'CUDA', torch.cuda.is_available())"), end="")
