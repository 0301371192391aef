// Speed of generated kernels: compile time, launch overhead, bandwidth against a plain loop, a compute-bound chain, row kernels.
// Build, after the pure library in Release: g++ -O3 -march=native -std=c++20 -I. benchmarks/kernels/kernels.cpp libdyno_pure.a and
// LLVM 19, fmt, z, zstd (static LLVM: llvm-config --link-static --libs x86codegen scalaropts target core). Asserts nothing.
#include "compiler/codegen/compiled_code.h"
#include "compiler/fusion/schedule.h"
#include "compiler/graph/text.h"
#include "compiler/runtime/executable.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>
#include <thread>
#include <vector>

using namespace dyno;

static double now(clockid_t clock) {
    timespec t;
    clock_gettime(clock, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Median seconds of one call: of this thread's own time, so that other work on the machine counts less; wall time where
/// several threads take part.
static double median(int turns, const std::function<void()>& f, bool wall = false) {
    std::vector<double> t;
    for (int k = 0; k < turns; k++) {
        const double start = now(wall ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID);
        f();
        t.push_back(now(wall ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID) - start);
    }
    std::sort(t.begin(), t.end());
    return t[t.size() / 2];
}

struct Kernel {
    fusion::Schedule schedule;
    std::shared_ptr<runtime::Executable> run[2];
    double compile_ms[2];
};

static Kernel make(const std::string& text) {
    auto g = graph::parse(text);
    if (!g) std::printf("%s\n", g.reason().c_str()), std::exit(1);
    Kernel k{fusion::schedule(*g), {}, {}};
    if (k.schedule.nests.size() != 1) std::printf("(%zu nests)\n", k.schedule.nests.size());
    for (int level : {0, 2}) {
        codegen::CompiledCode code;
        k.compile_ms[level / 2] = 1e3 * median(7, [&] { code = codegen::compile(k.schedule.nests[0], codegen::host_target(), level); });
        k.run[level / 2] = *runtime::Executable::load(code);
    }
    return k;
}

static float* memory(size_t floats) {
    auto* p = static_cast<float*>(std::aligned_alloc(4096, (floats * 4 + 4095) / 4096 * 4096));
    for (size_t k = 0; k < floats; k++) p[k] = static_cast<float>(k % 1000) * 0.001f + 0.1f;
    return p;
}

__attribute__((noinline)) static void plain(const float* a, const float* b, float* c, size_t from, size_t to) {
    for (size_t k = from; k < to; k++) {
        const float s = a[k] + b[k];
        c[k] = (s > 0 ? s : 0) * 2;
    }
}

static void relu_chain(int64_t n) {
    const std::string N = std::to_string(n);
    const std::string type = "f32[" + N + "]";
    Kernel k = make("%0: " + type + " = input {strides=[1]}\n%1: " + type + " = input {strides=[1]}\n%2: " + type +
                    " = add %0 %1\n%3: " + type + " = relu %2\n%4: f32[] = constant {number=2}\n%5: " + type + " = expand %4\n%6: " + type +
                    " = mul %3 %5\noutput %6 {strides=[1]}\n");
    const auto size = static_cast<size_t>(n);
    float *a = memory(size), *b = memory(size), *c = memory(size);
    void* buffers[] = {a, b, c};
    const int turns = n > 1000000 ? 9 : 400;
    std::printf("relu(a+b)*2 f32 n=%-9lld compile ms %.2f / %.2f;", static_cast<long long>(n), k.compile_ms[0], k.compile_ms[1]);
    for (int threads : {1, 2}) {
        const double hand = median(
            turns,
            [&] {
                if (threads == 1 || n < 1000000) return plain(a, b, c, 0, size);
                std::thread half([&] { plain(a, b, c, size / 2, size); });
                plain(a, b, c, 0, size / 2);
                half.join();
            },
            threads > 1);
        double mine[2];
        for (int level : {0, 1}) mine[level] = median(turns, [&] { k.run[level]->launch(buffers, nullptr, threads); }, threads > 1);
        std::printf(" %d thr: plain %.1f us, level 0 %.1f, level 2 %.1f us (%.0f %%, %.1f GB/s);", threads, hand * 1e6, mine[0] * 1e6,
                    mine[1] * 1e6, 100 * hand / mine[1], 12e-9 * static_cast<double>(n) / mine[1]);
    }
    std::printf("\n");
    std::free(a), std::free(b), std::free(c);
}

static void launch_overhead() {
    Kernel k = make("%0: f32[8] = input {strides=[1]}\n%1: f32[8] = neg %0\noutput %1 {strides=[1]}\n");
    float *a = memory(8), *c = memory(8);
    void* buffers[] = {a, c};
    const double t = median(50, [&] {
        for (int j = 0; j < 1000; j++) k.run[1]->launch(buffers, nullptr, 1);
    });
    std::printf("launch of 8 elements: %.1f ns\n", t * 1e6);
}

/// Any graph text with inputs and one output of n elements in all.
static void any(const char* name, const std::string& text, double elements, double bytes) {
    Kernel k = make(text);
    std::vector<float*> memories;
    std::vector<void*> buffers;
    for (uint32_t b : std::get<fusion::KernelStep>(k.schedule.steps[0]).buffers) {
        const auto size = static_cast<size_t>(k.schedule.buffers[b].bytes);
        memories.push_back(memory(size / 4 + 64));
        if (k.schedule.buffers[b].dtype == DType::f64) {
            auto* d = reinterpret_cast<double*>(memories.back());
            for (size_t j = 0; j < size / 8; j++) d[j] = 0.5 + static_cast<double>(j % 997) * 0.003;
        }
        buffers.push_back(memories.back());
    }
    const int turns = elements > 2e6 ? 9 : 60;
    std::printf("%-22s compile ms %.2f / %.2f;", name, k.compile_ms[0], k.compile_ms[1]);
    for (int level : {0, 1}) {
        const double t = median(turns, [&] { k.run[level]->launch(buffers.data(), nullptr, 1); });
        std::printf(" level %d: %.1f us, %.3f ns/element, %.1f GB/s;", level * 2, t * 1e6, t * 1e9 / elements, bytes * 1e-9 / t);
    }
    std::printf("\n");
    for (float* m : memories) std::free(m);
}

static std::string replace_all(std::string text, const std::string& what, const std::string& with) {
    for (size_t at; (at = text.find(what)) != std::string::npos;) text.replace(at, what.size(), with);
    return text;
}

int main() {
    codegen::warm_up();
    std::printf("%s, %d-bit vectors\n", codegen::host_target().cpu.c_str(), codegen::host_target().vector_bits);
    launch_overhead();
    relu_chain(65536);
    relu_chain(16 << 20);
    // Black-Scholes: spot, strike, time; rate 0.02, volatility 0.3.
    any("Black-Scholes f64",
        replace_all(R"(
        %0: T = input {strides=[1]}
        %1: T = input {strides=[1]}
        %2: T = input {strides=[1]}
        %3: f64[] = constant {number=0.3}
        %4: T = expand %3
        %5: f64[] = constant {number=0.065}
        %6: T = expand %5
        %7: T = div %0 %1
        %8: T = log %7
        %9: T = mul %6 %2
        %10: T = add %8 %9
        %11: T = sqrt %2
        %12: T = mul %4 %11
        %13: T = div %10 %12
        %14: T = sub %13 %12
        %15: f64[] = constant {number=0.7071067811865476}
        %16: T = expand %15
        %17: T = mul %13 %16
        %18: T = erf %17
        %19: T = mul %14 %16
        %20: T = erf %19
        %21: f64[] = constant {number=0.5}
        %22: T = expand %21
        %23: T = mul %18 %22
        %24: T = add %23 %22
        %25: T = mul %20 %22
        %26: T = add %25 %22
        %27: f64[] = constant {number=-0.02}
        %28: T = expand %27
        %29: T = mul %28 %2
        %30: T = exp %29
        %31: T = mul %0 %24
        %32: T = mul %1 %30
        %33: T = mul %32 %26
        %34: T = sub %31 %33
        output %34 {strides=[1]}
    )",
                    "T ", "f64[1000000] "),
        1e6, 32e6);
    for (const char* op : {"exp", "log", "tanh", "erf", "sin", "sigmoid"})
        for (const char* t : {"f32", "f64"}) {
            const std::string type = std::string(t) + "[16384]";
            any((std::string(op) + " " + t + " 16K").c_str(),
                "%0: " + type + " = input {strides=[1]}\n%1: " + type + " = " + op + " %0\noutput %1 {strides=[1]}\n", 16384,
                16384.0 * (t[1] == '3' ? 8 : 16));
        }
    for (int64_t n : {64, 1024, 32768}) {
        const int64_t m = (4 << 20) / n;
        const std::string full = "f32[" + std::to_string(m) + "," + std::to_string(n) + "]", row = "f32[" + std::to_string(m) + ",1]",
                          strides = "{strides=[" + std::to_string(n) + ",1]}";
        any(("softmax 4M, rows " + std::to_string(n)).c_str(),
            "%0: " + full + " = input " + strides + "\n%1: " + row + " = amax %0 {ints=[1]}\n%2: " + full + " = expand %1\n%3: " + full +
                " = sub %0 %2\n%4: " + full + " = exp %3\n%5: " + row + " = sum %4 {ints=[1]}\n%6: " + full + " = expand %5\n%7: " + full +
                " = div %4 %6\noutput %7 " + strides + "\n",
            4 << 20, 8.0 * (4 << 20));
        any(("row sum 4M, rows " + std::to_string(n)).c_str(),
            "%0: " + full + " = input " + strides + "\n%1: " + row + " = sum %0 {ints=[1]}\noutput %1 {strides=[1,1]}\n", 4 << 20,
            4.0 * (4 << 20));
        const std::string column = "f32[1," + std::to_string(n) + "]";
        any(("column sum 4M, " + std::to_string(n) + " columns").c_str(),
            "%0: " + full + " = input " + strides + "\n%1: " + column + " = sum %0 {ints=[0]}\noutput %1 {strides=[" + std::to_string(n) +
                ",1]}\n",
            4 << 20, 4.0 * (4 << 20));
    }
    any("sum of 16M", "%0: f32[16777216] = input {strides=[1]}\n%1: f32[1] = sum %0 {ints=[0]}\noutput %1 {strides=[1]}\n", 16 << 20,
        64.0 * (1 << 20));
    any("sum of 64K", "%0: f32[65536] = input {strides=[1]}\n%1: f32[1] = sum %0 {ints=[0]}\noutput %1 {strides=[1]}\n", 65536,
        65536 * 4.0);
    any("sum of 64K f64", "%0: f64[65536] = input {strides=[1]}\n%1: f64[1] = sum %0 {ints=[0]}\noutput %1 {strides=[1]}\n", 65536,
        65536 * 8.0);
    return 0;
}
