#!/bin/sh
# Builds frame_probe and runs the tests of tests/frame and tests/bytecode on every interpreter that DYNO_PYTHONS names
# (a list separated by spaces or colons; default: python3). BUILD is the folder for the builds, SAMPLE=seconds also runs
# that long through CPython's own tests with every frame evaluated.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${BUILD:-$here/../../build/frame_probe}
failed=0
for python in $(printf '%s' "${DYNO_PYTHONS:-python3}" | tr ':' ' '); do
    version=$("$python" -c 'import sys; print("%d%d" % sys.version_info[:2])') || exit 1
    cmake -S "$here" -B "$build/$version" -G Ninja -DCMAKE_BUILD_TYPE="${BUILD_TYPE:-Release}" -DPython_EXECUTABLE="$python" >"$build-$version.log" 2>&1 &&
        cmake --build "$build/$version" -j2 --target frame_probe >>"$build-$version.log" 2>&1 || { cat "$build-$version.log"; exit 1; }
    FRAME_PROBE="$build/$version" "$python" -X faulthandler "$here/run_plain.py" || failed=1
    if [ "${SAMPLE:-0}" != 0 ]; then
        FRAME_PROBE="$build/$version" "$python" "$here/stdlib_sample.py" --seconds "$SAMPLE" || failed=1
    fi
done
exit $failed
