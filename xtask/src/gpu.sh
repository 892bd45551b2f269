#!/usr/bin/env bash
# Checks, then measures, on a machine with a GPU. Made by `cargo xtask gpu`; needs bash and coreutils only.
#
#     run.sh [FOLDER]      results go to FOLDER (results beside this script); small enough to commit
#
# Every part has a time limit and a line in parts.tsv: ok, failed, timeout or unsupported, with the reason. A part that
# breaks never stops the others, and the whole ends within ten minutes. The answer of every kernel is judged before any
# time is taken: by the tests first, by each measurement again.
set -u
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/results}
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$here" || exit 1
export ELLWAND_CUBINS=$here/cubins ELLWAND_TRITON=$here/triton XDG_CACHE_HOME=$out/cache NO_COLOR=1
limit=${ELLWAND_GPU_SECONDS:-570}
started=$SECONDS
parts=$out/parts.tsv
printf 'part\toutcome\tseconds\treason\n' > "$parts"

told() { # PART OUTCOME SECONDS REASON
    printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" >> "$parts"
    printf '%-24s %-12s %4s s  %s\n' "$1" "$2" "$3" "$4"
}

# part NAME SECONDS COMMAND..: runs it with what it says in NAME.txt.
part() {
    local name=$1 seconds=$2 began=$SECONDS left code
    shift 2
    if [ -n "$absent" ]; then
        told "$name" unsupported 0 "$absent"
        return
    fi
    if ! command -v "$1" > /dev/null; then
        told "$name" unsupported 0 "$1 is not installed here"
        return
    fi
    left=$((limit - (SECONDS - started)))
    if [ "$left" -lt 10 ]; then
        told "$name" timeout 0 "no time was left for it"
        return
    fi
    [ "$seconds" -lt "$left" ] || seconds=$left
    timeout --kill-after=5 "$seconds" "$@" > "$out/$name.txt" 2>&1 < /dev/null
    code=$?
    case $code in
        0) told "$name" ok $((SECONDS - began)) "" ;;
        124 | 137) told "$name" timeout $((SECONDS - began)) "stopped after $seconds s; what it said is in $name.txt" ;;
        *) told "$name" failed $((SECONDS - began)) "exit code $code; what it said is in $name.txt" ;;
    esac
}

# Why there is no GPU here, in the program's own words; empty where there is one.
absent=$(bin/ellwand list null 2>&1 | sed -n 's/^  cuda  *unavailable: //p' | tail -n 1)
if ! bin/ellwand list null > "$out/list.txt" 2>&1; then
    absent="the program does not start here: $(tail -n 1 "$out/list.txt")"
fi

# 1. What is here.
part card 20 nvidia-smi

# 2. Right answers, on the GPU itself, and its memory accesses and shared memory watched.
export ELLWAND_REQUIRE=cuda
part conformance 120 bin/kernel-tests cuda
# The kernels of Triton and the library's products, likewise.
part conformance-triton 60 bin/kernel-tests triton
part conformance-cublas 60 bin/kernel-tests cublas
part sanitizer-memory 60 compute-sanitizer --tool memcheck --error-exitcode 9 bin/kernel-tests cuda::tests tests::cuda cuda_bf16::tests
part sanitizer-races 60 compute-sanitizer --tool racecheck --error-exitcode 9 bin/kernel-tests cuda::tests tests::cuda
unset ELLWAND_REQUIRE
part check 60 bin/ellwand check --device cuda

# 3. Times: the limits of the card first, since everything else is held against them.
part machine 90 bin/ellwand machine --effort quick
part transfer 40 bin/ellwand run transfer --bytes 65536,4194304,268435456 --direction host-to-device,device-to-host \
    --memory pinned,pageable -i memory,cuda --baseline memory --effort quick --in-process --no-plot -o "$out/transfer"
for workload in lattice-encode lattice-decode lattice-quantize; do
    part "$workload" 60 bin/ellwand run "$workload" --size nvidia -i parallel,cuda,cuda-transfers --baseline parallel \
        --effort quick --in-process --no-plot -o "$out/$workload"
done
# The kernels of attention and of the decoder against the processor's threads, at the sizes that people have.
for workload in matmul attention-scores attention-weighted-sum; do
    part "$workload" 30 bin/ellwand run "$workload" --size realistic -i parallel,cuda,triton,cublas --baseline parallel \
        --effort quick --in-process --no-plot -o "$out/$workload"
done
for workload in attention-softmax attention-core; do
    part "$workload" 30 bin/ellwand run "$workload" --size realistic -i parallel,cuda,triton --baseline parallel \
        --effort quick --in-process --no-plot -o "$out/$workload"
done
part attention 40 bin/ellwand run attention --size realistic -i parallel,cuda,cuda-graph,triton --baseline parallel \
    --effort quick --in-process --no-plot -o "$out/attention"
# The core in bf16 with heads of 128, where the work is: positions, values, heads.
for shape in "4096 2048 16" "8192 1024 8" "16384 512 4"; do
    read -r positions values heads <<< "$shape"
    part "attention-bf16-$positions" 60 bin/ellwand run attention-core --precision bf16 --sequence "$positions" \
        --dimension "$values" --heads "$heads" --mask none,causal -i cuda,cuda-hopper,triton --baseline cuda \
        --effort quick --in-process --no-plot -o "$out/attention-bf16-$positions"
done
for workload in transformer-layer kde-fit kde-predict kde-predict-local; do
    part "$workload" 40 bin/ellwand run "$workload" --size realistic -i parallel,cuda,cuda-graph --baseline parallel \
        --effort quick --in-process --no-plot -o "$out/$workload"
done
for workload in layer-norm gelu bias-gelu swish swiglu softmax residual-layer-norm mse-loss cross-entropy-loss; do
    part "$workload" 20 bin/ellwand run "$workload" --size large -i parallel,cuda,triton --baseline parallel \
        --effort quick --in-process --no-plot -o "$out/$workload"
done
part lattice-dot 60 bin/ellwand run lattice-dot --size large -i i8,cuda --baseline i8 \
    --effort quick --in-process --no-plot -o "$out/lattice-dot"
# Where launches are all there is: one by one against a graph of them.
for workload in attention transformer-layer kde-fit; do
    part "$workload-launches" 20 bin/ellwand run "$workload" --size tiny -i cuda,cuda-graph --baseline cuda \
        --effort quick --in-process --no-plot -o "$out/$workload-launches"
done
part launches 30 bin/ellwand run null --device cuda --effort quick --in-process --no-plot -o "$out/launches"

rm -rf "$out/cache"
echo "all parts ended after $((SECONDS - started)) s; results in $out"
