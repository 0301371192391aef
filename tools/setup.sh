#!/bin/bash
# Sets up everything a make target needs, from a bare Debian 12: system packages, .venv, Python packages, the build,
# the link from .venv to the build tree and the kernelspec. Every step is skipped when its stamp says it is done, so
# the second run takes a few seconds. A step that fails ends with one sentence that names what is missing.
# Usage: tools/setup.sh [product|conformance|tests]     Environment: PYTHON, VENV, BUILD, BUILD_TYPE, JOBS
# It must not change anything outside the tree but Debian's packages.
set -euo pipefail
cd "$(dirname "$0")/.."

goal="${1:-product}"
python="${PYTHON:-python3}"
venv="$(realpath -m "${VENV:-.venv}")"
build="$(realpath -m "${BUILD:-build/release}")"
jobs="${JOBS:-$(nproc)}"
stamps="$venv/.dyno-setup"
logs="$build/setup-logs"
mkdir -p "$logs"

fail() { printf 'setup: %s\n' "$1" >&2; exit 1; }

# run TITLE LOG COMMAND...: runs the command into the log and shows that it is alive; returns its status.
run() {
    local title="$1" log="$logs/$2.log" start=$SECONDS shown=0 status=0
    shift 2
    printf '%s ...\n' "$title"
    "$@" >"$log" 2>&1 </dev/null &
    local pid=$!
    trap 'kill $pid 2>/dev/null; exit 130' INT TERM
    while kill -0 "$pid" 2>/dev/null; do
        sleep 0.2
        if ((SECONDS - start >= shown + 10)); then
            shown=$((SECONDS - start))
            printf '  %3d s  %s\n' "$shown" "$(grep -v ^WARNING "$log" | tail -n 1 | tr -d "\r" | cut -c1-110)"
        fi
    done
    wait "$pid" || status=$?
    trap - INT TERM
    ((status)) || printf '  done in %d s\n' $((SECONDS - start))
    return "$status"
}

listed() { sed 's/#.*//' "$@" | awk 'NF { print $1 }'; }

system_packages() {
    local lists=(packaging/debian/build-packages.txt) extra=() missing=() name as=()
    [[ "$goal" == tests ]] && lists+=(packaging/debian/test-packages.txt)
    [[ "$goal" == conformance ]] && extra=(libpython3.11-testsuite)
    command -v dpkg-query >/dev/null || fail "Debian's package tools are missing; install the packages of packaging/debian by hand and set DYNO_SKIP_APT=1."
    local present
    present=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' | sed -n 's/^installed //p')
    for name in $(listed "${lists[@]}") "${extra[@]}"; do
        grep -qxF "$name" <<<"$present" || missing+=("$name")
    done
    ((${#missing[@]})) || return 0
    if ((EUID)); then
        command -v sudo >/dev/null || fail "these Debian packages are missing, and installing them needs root or sudo: ${missing[*]}."
        as=(sudo)
    fi
    run "Debian packages: ${missing[*]}" apt-update "${as[@]}" apt-get update -q || fail "apt-get update failed (see $logs/apt-update.log)."
    run "  installing" apt-install "${as[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${missing[@]}" ||
        fail "these Debian packages could not be installed: ${missing[*]} (see $logs/apt-install.log)."
}

check_python() {
    command -v "$python" >/dev/null || fail "no Python: $python is missing (set PYTHON to a CPython 3.11, 3.12 or 3.13)."
    identity=$("$python" -c 'import sys; print(sys.implementation.name, sys.version.split()[0], sys.base_prefix)') ||
        fail "$python does not run."
    case "$identity" in
        "cpython 3.11."* | "cpython 3.12."* | "cpython 3.13."*) ;;
        *) fail "$python is $identity, and dyno needs CPython 3.11, 3.12 or 3.13 (set PYTHON)." ;;
    esac
    "$python" -c 'import sysconfig, os, sys; sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' ||
        fail "Python.h of $python is missing; install its development headers."
}

virtual_environment() {
    if [[ -x "$venv/bin/python" && "$(cat "$stamps/python" 2>/dev/null)" == "$identity" ]]; then return 0; fi
    if [[ -e "$venv" && ! -d "$stamps" ]]; then fail "$venv was not made by this script; move it away or set VENV."; fi
    rm -rf "$venv"
    run "Virtual environment of $identity" venv "$python" -m venv "$venv" || fail "$python has no working venv module (see $logs/venv.log)."
    mkdir -p "$stamps"
    printf '%s' "$identity" >"$stamps/python"
}

python_packages() {
    local wanted
    wanted=$(sha256sum <tools/requirements.txt)
    [[ "$(cat "$stamps/packages" 2>/dev/null)" == "$wanted" ]] && return 0
    run "Python packages of tools/requirements.txt" pip "$venv/bin/python" -m pip install --disable-pip-version-check --no-compile --progress-bar off -r tools/requirements.txt ||
        fail "a Python package is missing: $(grep -m1 -E '^ERROR' "$logs/pip.log" || echo "see $logs/pip.log")"
    printf '%s' "$wanted" >"$stamps/packages"
}

build_tree() {
    local targets=(product) settings had with_tests=OFF
    had=$(cat "$build/.dyno-configured" 2>/dev/null || true)
    # A tree once configured with its tests stays so: tour and test may alternate without configuring anew.
    [[ "$goal" == tests || "$had" == *tests=ON ]] && with_tests=ON
    [[ "$goal" == tests ]] && targets=(all product)
    settings="$venv ${BUILD_TYPE:-Release} $identity tests=$with_tests"
    if [[ ! -f "$build/build.ninja" || "$had" != "$settings" ]]; then
        run "Configuring $build" configure cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE="${BUILD_TYPE:-Release}" \
            -DPython_EXECUTABLE="$venv/bin/python" -DDYNO_TESTS="$with_tests" ||
            fail "CMake could not configure the build: $(grep -m1 -A3 'CMake Error' "$logs/configure.log" | tr '\n' ' ' | cut -c1-200) (see $logs/configure.log)."
        printf '%s' "$settings" >"$build/.dyno-configured"
    fi
    run "Building" build ninja -C "$build" -j "$jobs" "${targets[@]}" ||
        fail "the build failed: $(grep -m1 -E 'error|FAILED' "$logs/build.log" | cut -c1-200) (see $logs/build.log)."
}

link_package() {
    local site
    site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
    [[ "$(cat "$site/dyno_build_tree.pth" 2>/dev/null)" == "$build/python" ]] || printf '%s\n' "$build/python" >"$site/dyno_build_tree.pth"
}

kernelspec() {
    local program="$build/bin/xdyno" spec="$venv/share/jupyter/kernels/xdyno/kernel.json"
    [[ -x "$program" ]] || fail "the kernel's program $program is missing from the build."
    [[ -f "$spec" && "$spec" -nt "$program" ]] && return 0
    run "Kernelspec under $venv" kernelspec "$program" --python "$venv/bin/python" --install --prefix "$venv" ||
        fail "xdyno --install failed: $(tail -n 1 "$logs/kernelspec.log")"
    touch "$spec" 2>/dev/null || fail "xdyno --install did not write $spec."
}

[[ -n "${DYNO_SKIP_APT:-}" ]] || system_packages
check_python
virtual_environment
python_packages
build_tree
link_package
kernelspec
