#!/usr/bin/env bash
# Checks, then measures, on a machine with a GPU. Written by `cargo xtask gpu`; needs only bash, coreutils, grep, sed
# and gzip.
#
#     run.sh [FOLDER] [GROUP..]      results go to FOLDER (results next to this script); small enough to commit
#
# Groups: verify (correctness, reads and writes out of bounds), measure (Ellwand's kernels), peers (PyTorch, CuPy, JAX,
# if python3 has them), aa-1 to aa-4 (25 comparisons each of a kernel with itself), races (shared memory). Without a
# group: verify, measure, peers and aa-1, in ten minutes; a single group gets all ten minutes. Further calls
# with the same FOLDER repeat only the parts that are not ok there.
#
# Every part has a time limit and a line in parts.tsv: ok, failed, timeout or unsupported, with the reason. A part that
# fails never stops the others, and a group's unused time goes to the next one. Every kernel's answer is checked before
# it is timed: first by the tests, then again by each measurement.
#
# ELLWAND_GPU_SECONDS   limit for the whole script in seconds (570), plus 3 if the last part must be stopped
# ELLWAND_GPU_ARCHIVE   a file for all of FOLDER as one .tar.gz, rewritten after every part: killing this script loses only
#                       the current part; needs tar
set -u
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/results}
[ $# -eq 0 ] || shift
mkdir -p "$out" || exit 1
out=$(cd "$out" && pwd)
archive=${ELLWAND_GPU_ARCHIVE:-}
if [ -n "$archive" ]; then
    mkdir -p "$(dirname "$archive")" || exit 1
    archive=$(cd "$(dirname "$archive")" && pwd)/$(basename "$archive")
    if ! command -v tar > /dev/null; then
        echo "tar is not installed: $archive will not be written" >&2
        archive=
    fi
fi
cd "$here" || exit 1
build=$(cksum < bin/ellwand)
if [ -s "$out/build" ] && [ "$(cat "$out/build")" != "$build" ]; then
    echo "$out holds results of another build; expected an empty folder, or one of this build" >&2
    exit 2
fi
printf '%s\n' "$build" > "$out/build"
# The tests of each package and the program that tests the diagnosis are packed, since they are as large as everything
# else together; this folder may be read-only.
unpack() { # FOLDER
    local packed tests
    for packed in bin/*.gz; do
        tests=$1/$(basename "$packed" .gz)
        # A file that has lost its mode in transit, or is truncated, is not a program, and is never overwritten.
        [ -x "$tests" ] || { (set -C; gzip -dc "$packed" > "$tests") 2> /dev/null && chmod +x "$tests"; } || return
    done
}
[ -x bin/ellwand ] || chmod +x bin/ellwand
unpacked=$here/bin
if ! unpack "$unpacked"; then
    unpacked=$out/cache/tests
    mkdir -p "$unpacked"
    unpack "$unpacked"
fi
# Runs the tests of all packages with the same arguments; fails if one does.
kernel_tests=(bash -c 'code=0; for tests in "$0"/tests-*; do case $tests in *.gz) ;; *) "$tests" "$@" || code=$? ;; esac; done; exit "$code"' "$unpacked")
export ELLWAND_CUBINS=$here/cubins XDG_CACHE_HOME=$out/cache NO_COLOR=1
# By default JAX reserves most of the memory.
export XLA_PYTHON_CLIENT_PREALLOCATE=false
limit=${ELLWAND_GPU_SECONDS:-570}
started=$SECONDS end=$((SECONDS + limit))
# Seconds to stop a process that does not exit.
stopping=3
parts=$out/parts.tsv
[ -s "$parts" ] || printf 'part\toutcome\tseconds\treason\n' > "$parts"

# Seconds per group out of 570, if several run.
share() {
    case $1 in
        verify) echo 90 ;;
        measure) echo 330 ;;
        peers) echo 80 ;;
        aa-[1-4]) echo 70 ;;
        races) echo 120 ;;
        *) echo 0 ;;
    esac
}
groups=("$@")
[ ${#groups[@]} -gt 0 ] || groups=(verify measure peers aa-1)
asked=0
for group in "${groups[@]}"; do
    if [ "$(share "$group")" -eq 0 ]; then
        echo "'$group' is not a group; expected verify, measure, peers, aa-1, aa-2, aa-3, aa-4 or races" >&2
        exit 2
    fi
    asked=$((asked + $(share "$group")))
done

record() { # PART OUTCOME SECONDS REASON
    outcome=$2
    printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" >> "$parts"
    printf '%-24s %-12s %4s s  %s\n' "$1" "$2" "$3" "$4"
}

# Nothing ever writes to this pipe: reading from it with a timeout sleeps without another process next to the
# measurement.
exec {idle}<> <(:)
# Packs all results so far into one file, which is complete at any time.
pack() {
    local code self=cache
    [ -n "$archive" ] || return 0
    [ "$(dirname "$archive")" != "$out" ] || self=${archive##*/}
    tar --exclude=./cache --exclude="./$self" --exclude="./$self.part" -C "$out" -cf - . 2> /dev/null | gzip -1 > "$archive.part"
    code=${PIPESTATUS[*]}
    # tar exits with 1 if a file changes while it is read; the archive is still good.
    if [[ $code != [01]\ 0 ]] || ! mv "$archive.part" "$archive"; then
        echo "$archive could not be written (tar, gzip: $code); the results are in $out" >&2
        rm -f "$archive.part"
    fi
}

# True if any process of a group runs. A zombie stays in the group until its parent reaps it, which in some containers
# never happens; but a zombie with other threads still inside a driver does run.
runs() { # GROUP
    local stat line fields
    kill -0 -- "-$1" 2> /dev/null || return 1
    [ -r /proc/self/stat ] || return 0
    for stat in /proc/[0-9]*/stat; do
        { read -r line < "$stat"; } 2> /dev/null || continue
        # After the name: state, parent, group; the number of threads is the 18th field.
        read -ra fields <<< "${line##*) }"
        [ "${fields[2]:-}" = "$1" ] || continue
        [[ ${fields[0]} == [ZX] ]] && [ "${fields[17]:-1}" -le 1 ] || return 0
    done
    return 1
}

# emptied GROUP UNTIL: waits until no process of a group runs; fails if that takes longer.
emptied() {
    while runs "$1"; do
        [ "$SECONDS" -lt "$2" ] || return 1
        read -r -t 0.1 -u "$idle" _
    done
}

# When this script is stopped, it stops its current part.
running=
stopped() {
    trap '' HUP INT TERM
    if [ -n "$running" ]; then
        kill -TERM -- "-$running" 2> /dev/null || kill -TERM "$running" 2> /dev/null
        emptied "$running" $((SECONDS + 2)) || kill -KILL -- "-$running" 2> /dev/null
    fi
    pack
    exit 143
}
trap stopped HUP INT TERM

# bounded SECONDS FILE COMMAND..: returns the exit code; 137 if the command had to be killed, 99 if even that did not
# end all of it. `timeout` puts itself and its children into a separate process group.
bounded() {
    local seconds=$1 file=$2 until code=99
    shift 2
    [ "$seconds" -le $((end - stopping - SECONDS)) ] || seconds=$((end - stopping - SECONDS))
    [ "$seconds" -ge 1 ] || seconds=1
    until=$((SECONDS + seconds + stopping))
    timeout --kill-after=2 "$seconds" "$@" > "$file" 2>&1 < /dev/null &
    running=$!
    while kill -0 "$running" 2> /dev/null && [ "$SECONDS" -le "$until" ]; do
        read -r -t 0.1 -u "$idle" _
    done
    if ! kill -0 "$running" 2> /dev/null; then
        wait "$running"
        code=$?
    fi
    # `timeout` kills itself along with the others. A process that leaves a hanging kernel takes longer; one inside a
    # hanging driver cannot be killed at all, and nothing may wait for it.
    if runs "$running"; then
        kill -KILL -- "-$running" 2> /dev/null
        until=$((SECONDS + 10))
        [ "$until" -le $((end + 1)) ] || until=$((end + 1))
        emptied "$running" "$until" || code=99
    fi
    running=
    return "$code"
}

# Looks for a GPU that responds: `absent` is the program's reason if no GPU does, else empty.
ask() { # SECONDS
    if bounded "$1" "$out/list.txt" bin/ellwand list null; then
        absent=$(sed -n 's/^  cuda  *unavailable: //p' "$out/list.txt" | tail -n 1)
    else
        absent="the program does not start here or hangs: $(tail -n 1 "$out/list.txt")"
    fi
}

# Shrinks a part's output: removes duplicate facts, cuts the middle of long texts, packs records above 1 MB.
lighten() {
    local file
    rm -f "$out/$1/run.json"
    if [ "$(wc -c < "$out/$1.txt")" -gt 200000 ]; then
        { head -c 90000 "$out/$1.txt"; printf '\n[...]\n'; tail -c 90000 "$out/$1.txt"; } > "$out/$1.cut" && mv "$out/$1.cut" "$out/$1.txt"
    fi
    for file in "$out/$1/record.jsonl" "$out/$1.jsonl"; do
        if [ -f "$file" ] && [ "$(wc -c < "$file")" -gt 1000000 ]; then
            gzip -f "$file" && [ "$(wc -c < "$file.gz")" -gt 1000000 ] && split -b 1000000 "$file.gz" "$file.gz." && rm "$file.gz"
        fi
    done
}

# Why a part failed or measured nothing: the first row or message about it, else its last line.
why() { # PART
    local said
    # A test's message is in the line after its location.
    said=$(grep -aA 1 -m 1 'panicked at' "$out/$1.txt" | tail -n 1)
    # A test that lost the device because of another is not the reason.
    [ -n "$said" ] || said=$(grep -aE '^! .* (failed|wrong|unsupported): |^error: |^  [a-z0-9-]+ +(failed|wrong)  ' "$out/$1.txt" |
        grep -avm 1 'no longer answers this process')
    [ -n "$said" ] || said=$(tail -n 1 "$out/$1.txt")
    printf '%s' "$said" | tr '\t' ' ' | cut -c 1-300
}

# part NAME SECONDS COMMAND..: runs COMMAND with its output in NAME.txt, at most for the time left to its group.
# A part that is already ok in FOLDER is skipped, so that another call continues an interrupted one.
part() {
    local name=$1 seconds=$2 began=$SECONDS left code took
    shift 2
    if grep -q "^$name"$'\tok\t' "$parts"; then
        outcome=ok
        return
    fi
    if [ -n "$absent" ]; then
        record "$name" unsupported 0 "$absent"
        return
    fi
    if ! command -v "$1" > /dev/null; then
        record "$name" unsupported 0 "$1 is not installed"
        return
    fi
    left=$((deadline - stopping - SECONDS))
    if [ "$left" -lt 5 ]; then
        record "$name" timeout 0 "no time was left; run its group alone for more: run.sh FOLDER $group"
        return
    fi
    [ "$seconds" -lt "$left" ] || seconds=$left
    bounded "$seconds" "$out/$name.txt" "$@"
    code=$?
    took=$((SECONDS - began))
    # Killed, but not by this script.
    [ "$code" -ne 137 ] || [ "$took" -ge "$seconds" ] || code=killed
    case $code in
        0) record "$name" ok "$took" "" ;;
        99) record "$name" timeout "$took" "could not be stopped and may still run during later parts; see $name.txt" ;;
        124 | 137) record "$name" timeout "$took" "stopped after $seconds s; see $name.txt" ;;
        6) record "$name" unsupported "$took" "nothing was measured, see $name.txt: $(why "$name")" ;;
        killed) record "$name" failed "$took" "killed from outside, for example for lack of memory; see $name.txt" ;;
        *) record "$name" failed "$took" "exit code $code, see $name.txt: $(why "$name")" ;;
    esac
    lighten "$name"
    # A part that hangs may have lost the device: check now, so that later parts need not find out.
    if [[ $code == @(99|124|137) ]] && [ $((end - stopping - SECONDS)) -ge 5 ]; then
        ask 15
        [ -z "$absent" ] || ask 15
        [ -z "$absent" ] || absent="since the part $name: $absent"
    fi
    pack
}

# measured NAME SECONDS WORKLOAD IMPLEMENTATIONS OPTION..: a sweep in one process, against the first implementation.
measured() {
    local name=$1 seconds=$2 workload=$3 rows=$4
    shift 4
    part "$name" "$seconds" bin/ellwand run "$workload" -i "$rows" --baseline "${rows%%,*}" --effort quick --in-process --no-plot \
        --overwrite $ceilings -o "$out/$name" "$@"
    # A kernel that fails loses the device for its whole process: measure the implementations that did not fail again,
    # each in a separate process.
    if [ "$outcome" = failed ] && grep -qs 'no longer answers this process' "$out/$name.txt"; then
        part "$name-apart" "$seconds" bin/ellwand run "$workload" -i "$rows" --baseline "${rows%%,*}" --effort quick --blocks 1 --no-plot \
            --time-limit 20 --overwrite $ceilings -o "$out/$name-apart" "$@"
    fi
}

# tests NAME SECONDS FILTER..: runs tests of kernels. A kernel that fails loses the device for all tests of its process,
# and one that hangs hides which test it was: in both cases up to eight tests that did not pass run again alone.
tests() {
    local name=$1 seconds=$2 test number=0
    shift 2
    rm -f "$out/$name.txt"
    part "$name" "$seconds" "${kernel_tests[@]}" "$@"
    [ "$outcome" = failed ] || [ "$outcome" = timeout ] || return
    # Not if there was no time for any test, or if nothing can run any more.
    [ -f "$out/$name.txt" ] && [ -z "$absent" ] || return
    bounded 10 "$out/$name.list" "${kernel_tests[@]}" --list "$@"
    while read -r test; do
        grep -aqF "test $test ... ok" "$out/$name.txt" && continue
        [ "$number" -lt 8 ] && [ $((deadline - SECONDS)) -ge 15 ] || break
        number=$((number + 1))
        part "$name-$number-${test##*::}" 10 "${kernel_tests[@]}" --exact "$test"
    done < <(sed -n 's/: test$//p' "$out/$name.list")
    rm -f "$out/$name.list"
    outcome=failed
}

# Tests of the calibration's kernels, whose names do not say cuda.
calibration=(an_empty_kernel streams_touch chains_are transfers_give)

verify() {
    export ELLWAND_REQUIRE=cuda
    # Kernels for Hopper run separately: here they run for the first time, and one that hangs must not affect the
    # others.
    tests conformance 80 cuda "${calibration[@]}" --skip cuda_bf16
    tests conformance-bf16 30 cuda_bf16
    [ "$outcome" = ok ] || bf16=cuda
    tests conformance-products 20 tiles_of_products
    # cuBLAS's products also run separately.
    tests conformance-cublas 30 cublas
    # Kernels for Hopper are separate: their products read memory in a way that memcheck may wrongly report
    # (NVIDIA/compute-sanitizer-samples#19).
    part sanitizer-memory 60 "${watch[@]}" memcheck "${kernel_tests[@]}" tests::cuda "${calibration[@]}" --skip cuda_bf16
    part sanitizer-memory-bf16 60 "${watch[@]}" memcheck "${kernel_tests[@]}" cuda_bf16::tests tests::cuda_bf16
    unset ELLWAND_REQUIRE
    # One part per group, so that a hang affects only its group.
    for workloads in calibration lattice kde transformer; do
        part "check-$workloads" 20 bin/ellwand check "$workloads" --device cuda
    done
    part check-layers 60 bin/ellwand check layers --device cuda
}

# The sanitizer follows each access to shared memory: 60 s were enough for 31 of 35 tests on an H200, and a process stopped
# here may keep running. So nothing is measured after it.
races() {
    export ELLWAND_REQUIRE=cuda
    part sanitizer-races 300 "${watch[@]}" racecheck "${kernel_tests[@]}" tests::cuda "${calibration[@]}" --skip cuda_bf16
    unset ELLWAND_REQUIRE
}

measure() {
    # The limits of the machine and the card come first, since all results are compared with them; if that fails, later
    # parts do not try again.
    part machine 100 bin/ellwand machine --effort quick
    [ "$outcome" = ok ] || ceilings=--no-ceilings
    measured copy 20 copy cuda,cuda-loop --bytes 134217728,536870912
    # Rate of bf16 products without data movement: four tiles for each of 132 multiprocessors, for some milliseconds.
    measured products 20 products cuda,cuda-hopper --tiles 528 --steps 16384
    # And with all data movement: with B as in PyTorch's product, and transposed.
    measured matmul-bf16 40 matmul "cublas,$bf16" --precision bf16 --m 4096 --n 4096 --k 4096 --transposed off,on
    # The bf16 core with heads of 128, where most of the work is: positions, values, heads, seconds. Judging the last
    # one runs on the CPU for most of that time.
    for shape in "4096 2048 16 60" "8192 1024 8 60" "16384 512 4 110"; do
        read -r positions values heads seconds <<< "$shape"
        measured "attention-bf16-$positions" "$seconds" attention-core "$bf16" --precision bf16 --sequence "$positions" \
            --dimension "$values" --heads "$heads" --mask none,causal
    done
    # Arrays of 134 MB, as in the peers.
    for workload in layer-norm gelu swish softmax mse-loss cross-entropy-loss residual-layer-norm swiglu bias-gelu; do
        form=""
        [ "$workload" != gelu ] || form=exact
        measured "$workload" 20 "$workload" cuda --batch 64 --sequence 512 --dimension 1024 ${form:+--form "$form"}
    done
    # An empty kernel, and cases in which launches dominate: one by one, and as a graph.
    measured launches 15 null cuda
    for workload in attention transformer-layer kde-fit; do
        measured "$workload-launches" 10 "$workload" cuda,cuda-graph --size tiny
    done
    measured kde-predict 50 kde-predict parallel,cuda,cuda-graph --size realistic
    measured transfer 30 transfer memory,cuda --bytes 65536,4194304,268435456 --direction host-to-device,device-to-host \
        --memory pinned,pageable
    # The size from which the GPU wins, with and without transfers.
    for workload in lattice-encode lattice-decode lattice-quantize; do
        measured "$workload" 40 "$workload" parallel,cuda,cuda-transfers --size nvidia
    done
    measured lattice-dot 30 lattice-dot i8,cuda --size large
    # The other kernels against all CPU threads, at realistic sizes.
    measured attention 30 attention parallel,cuda,cuda-graph --size realistic
    measured transformer-layer 30 transformer-layer parallel,cuda,cuda-graph --size realistic
    for workload in kde-fit kde-predict-local; do
        measured "$workload" 30 "$workload" parallel,cuda,cuda-graph --size realistic
    done
    for workload in matmul attention-scores attention-weighted-sum; do
        measured "$workload" 25 "$workload" parallel,cuda,cublas --size realistic
    done
    for workload in attention-softmax attention-core; do
        measured "$workload" 25 "$workload" parallel,cuda --size realistic
    done
    # Does the diagnosis name the known bottleneck?
    part diagnosis 30 "$unpacked/diagnosis" cuda
    # A timeline of the device, from its activity records.
    part spans 15 bin/ellwand run transformer-layer -i cuda,cuda-graph --size tiny --spans --no-plot --overwrite -o "$out/spans"
    # An array of 8 MB, which fits in the L2 cache, read from there and from memory.
    for caches in warm cold; do
        measured "gelu-$caches" 10 gelu cuda --form exact --batch 4 --sequence 512 --dimension 1024 --caches "$caches"
    done
}

# A kernel against itself in fresh processes: every verdict except `same` and `undecided` is a false positive. The kernel
# takes 25 us or more: the gap between launches differs by 0.2 us between processes. With little time there are few comparisons.
itself() {
    local first=$((2000 + 25 * $1)) count=25
    local left=$((deadline - stopping - SECONDS))
    if [ "$left" -le 200 ]; then
        count=$((left / 15))
        [ "$count" -ge 1 ] || count=1
    fi
    part "aa-$1" 560 bin/ellwand compare gelu:cuda gelu:cuda --form exact --batch 16 --dimension 256 --blocks 8 --fail-on slower \
        --sequence "$(seq -s , "$first" $((first + count - 1)))" --overwrite -o "$out/aa-$1"
}

# Often missing from PATH.
sanitizer=compute-sanitizer
if ! command -v "$sanitizer" > /dev/null; then
    for file in "${CUDA_HOME:-/usr/local/cuda}"/bin/compute-sanitizer /usr/local/cuda*/bin/compute-sanitizer; do
        [ -x "$file" ] && sanitizer=$file && break
    done
fi

watch=("$sanitizer" --target-processes all --error-exitcode 9 --tool)

outcome="" ceilings="" bf16=cuda,cuda-hopper
ask 40
group=card deadline=$end
part card 20 nvidia-smi

done_of=0
for group in "${groups[@]}"; do
    done_of=$((done_of + $(share "$group")))
    deadline=$((started + limit * done_of / asked))
    case $group in
        verify) verify ;;
        measure) measure ;;
        races) races ;;
        peers)
            left=$((deadline - SECONDS))
            [ "$left" -le 240 ] || left=240
            grep -q $'^peers\tok\t' "$parts" || rm -f "$out/peers.jsonl"
            part peers "$left" python3 peers.py "$out/peers.jsonl" --seconds $((left - 15))
            ;;
        aa-*) itself "${group#aa-}" ;;
    esac
done

rm -rf "$out/cache"
pack
echo "all parts ended after $((SECONDS - started)) s; results in $out"
