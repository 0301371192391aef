// The two pools behind run_parallel(). Global state: there is one set of cores, so one pool for the process.
#include "compiler/runtime/threads.h"
#include "compiler/support/signals_blocked.h"
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <mutex>
#include <pthread.h>
#include <string>
#include <thread>
#include <vector>

namespace dyno::runtime {

namespace {

// --- torch's OpenMP

struct OpenMp {
    void (*parallel)(void (*)(void*), void*, unsigned, unsigned) = nullptr;
    int (*thread)() = nullptr;
    int (*threads)() = nullptr;
};

struct Search {
    unsigned long long loaded = 0; // libraries ever loaded: unchanged means nothing new to find
    bool torch = false;
    std::string library;
};

int visit(dl_phdr_info* info, size_t, void* data) {
    auto& search = *static_cast<Search*>(data);
    search.loaded = info->dlpi_adds;
    if (!info->dlpi_name) return 0;
    if (std::strstr(info->dlpi_name, "libtorch_cpu.so")) search.torch = true;
    if (std::strstr(info->dlpi_name, "libgomp") && (search.library.empty() || std::strstr(info->dlpi_name, "torch")))
        search.library = info->dlpi_name;
    return 0;
}
int visit_first(dl_phdr_info* info, size_t, void* data) {
    *static_cast<unsigned long long*>(data) = info->dlpi_adds;
    return 1;
}

OpenMp find_open_mp(unsigned long long& loaded) {
    Search search;
    dl_iterate_phdr(visit, &search);
    loaded = search.loaded;
    OpenMp found;
    if (!search.torch || search.library.empty()) return found;
    void* library = dlopen(search.library.c_str(), RTLD_NOLOAD | RTLD_LAZY); // what torch loaded, never a second one
    if (!library) return found;
    found.parallel = reinterpret_cast<decltype(found.parallel)>(dlsym(library, "GOMP_parallel"));
    found.thread = reinterpret_cast<decltype(found.thread)>(dlsym(library, "omp_get_thread_num"));
    found.threads = reinterpret_cast<decltype(found.threads)>(dlsym(library, "omp_get_num_threads"));
    if (!found.parallel || !found.thread || !found.threads) found = {};
    return found;
}

/// Torch's pool, or null. Looked for again only when libraries have been loaded since.
const OpenMp* open_mp() {
    static std::mutex mutex;
    static OpenMp found;
    static std::atomic<bool> ready{false};
    static unsigned long long searched = 0;
    if (ready.load(std::memory_order_acquire)) return &found;
    unsigned long long loaded = 0;
    dl_iterate_phdr(visit_first, &loaded);
    const std::lock_guard lock(mutex);
    if (ready) return &found;
    if (loaded == searched) return nullptr;
    found = find_open_mp(searched);
    if (!found.parallel) return nullptr;
    ready.store(true, std::memory_order_release);
    return &found;
}

// --- our own pool

struct Job {
    void (*body)(void*, int, int);
    void* data;
    int n;
};

class Pool {
  public:
    void run(const Job& job) {
        const std::lock_guard one_at_a_time(use_);
        grow(job.n - 1);
        {
            const std::lock_guard lock(mutex_);
            job_ = job;
            left_ = job.n - 1;
            generation_++;
        }
        start_.notify_all();
        job.body(job.data, 0, job.n);
        std::unique_lock lock(mutex_);
        done_.wait(lock, [&] { return left_ == 0; });
    }

  private:
    void grow(int wanted) {
        if (workers_ >= wanted) return;
        const SignalsBlocked inherited;
        for (int k = workers_; k < wanted; k++) {
            std::thread([this, k, seen = generation_]() mutable { work(k + 1, seen); }).detach();
            workers_ = k + 1;
        }
    }
    void work(int k, unsigned long long seen) {
        for (;;) {
            Job job;
            {
                std::unique_lock lock(mutex_);
                start_.wait(lock, [&] { return generation_ != seen; });
                seen = generation_;
                job = job_;
            }
            if (k >= job.n) continue;
            job.body(job.data, k, job.n);
            const std::lock_guard lock(mutex_);
            if (--left_ == 0) done_.notify_one();
        }
    }
    std::mutex use_, mutex_;
    std::condition_variable start_, done_;
    Job job_{};
    int left_ = 0, workers_ = 0;
    unsigned long long generation_ = 0;
};

std::atomic<bool> forked{false};

Pool& pool() {
    // Never destroyed: its detached threads may wait in it while the process ends.
    static Pool* const the_pool = [] {
        pthread_atfork(nullptr, nullptr, [] { forked = true; });
        return new Pool;
    }();
    return *the_pool;
}

} // namespace

bool uses_torch_pool() noexcept { return open_mp() != nullptr; }

void run_parallel(int threads, void (*body)(void*, int, int), void* data) noexcept {
    if (threads <= 1 || forked) return body(data, 0, 1);
    if (const OpenMp* omp = open_mp()) {
        struct Call {
            const OpenMp* omp;
            Job job;
        } call{omp, {body, data, threads}};
        omp->parallel(
            [](void* p) {
                auto* c = static_cast<Call*>(p);
                c->job.body(c->job.data, c->omp->thread(), c->omp->threads()); // the team may be smaller than asked for
            },
            &call, static_cast<unsigned>(threads), 0);
        return;
    }
    pool().run({body, data, threads});
}

} // namespace dyno::runtime
