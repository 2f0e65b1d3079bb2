#!/bin/sh
# Everything there is to know of the GPUs of a machine, printed: what there is, whether the kernels are right, how fast
# they are. Needs Rust, a C compiler and the driver of the GPU.
#
#   tests/gpu.sh [--tiny] [--device DEVICE]... [--model DIRECTORY | --make SCRIPT]
#
# --device   measured: cuda, vulkan, metal or a name from `gptoss devices`; without it all that there are
# --model    the checkpoint to measure with
# --make     a Python script that writes one where it is told to: `SCRIPT DIRECTORY`
# --tiny     measures the built-in model at small depths: to see that all of this works, on lavapipe too
set -eu
cd "$(dirname "$0")/.."

tiny=false devices='' model='' make=''
usage() { sed -n '5,10s/^# *//p' "$0"; exit 2; }
while [ $# -gt 0 ]; do
    case $1 in
        --tiny) tiny=true ;;
        --device | --model | --make)
            [ $# -gt 1 ] || usage
            case $1 in
                --device) devices="$devices $2" ;;
                --model) model=$2 ;;
                --make) make=$2 ;;
            esac
            shift
            ;;
        *) usage ;;
    esac
    shift
done

title() { printf '\n===== %s\n' "$1"; }
failed=0
try() {
    printf '$ %s\n' "$*"
    "$@" || { echo "FAILED with $?: $*"; failed=1; }
}

title 'the machine'
uname -srm
if command -v nvidia-smi >/dev/null; then
    nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.memory --format=csv || true
fi

title 'building'
cargo build --release --locked
program=${CARGO_TARGET_DIR:-target}/release/gptoss

title 'the devices'
"$program" devices
if [ -z "$devices" ]; then
    devices=$("$program" devices | awk '$1 ~ /^(cuda|vulkan|metal):/ && / yes / { print $1 }')
fi
[ -n "$devices" ] || { echo 'there is nothing to measure'; exit 1; }

title 'the kernels against their twins and against the reference'
try cargo test --release --locked --lib -- cube:: devices::
try cargo test --release --locked --test golden -- --nocapture cube::

if $tiny; then
    model=tiny lengths='--prompt 64 --gen 8 --depth 0,200 --repetitions 1'
else
    lengths='--prompt 512,2048 --gen 128 --depth 0,8192,32768 --repetitions 3'
    if [ -z "$model" ] && [ -n "$make" ] && [ -f "$make" ]; then
        model=${TMPDIR:-/tmp}/gptoss-synthetic-20b
        title 'writing a checkpoint'
        [ -f "$model/config.json" ] || try python3 "$make" "$model"
    fi
fi

for device in $devices; do
    title "$device: an answer"
    try "$program" run --model tiny --device "$device" --temperature 0 'What is the capital of France?'
    if [ -z "$model" ]; then
        echo 'no checkpoint to measure with: give --model or --make'
        continue
    fi
    for dense in bf16 q8; do
        title "$device: speed, --dense $dense"
        # shellcheck disable=SC2086 # words
        try "$program" bench --model "$model" --device "$device" --dense "$dense" $lengths
    done
done
title "$([ $failed = 0 ] && echo 'all went well' || echo 'something FAILED, see above')"
exit $failed
