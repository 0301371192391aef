// Large blocks of memory on huge pages, kept when they fall idle: fresh memory costs a page fault every 4 KiB, which is most of the time of
// a large elementwise result. Bounded, given back when the machine runs short. Any thread, no GIL, no Python: torch drops tensors where it
// likes, also after the interpreter is gone, so the cache is never destroyed.
#include "compiler/python/make_tensor.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unordered_map>
#include <vector>

namespace dyno::python {
namespace {

constexpr size_t page = 4096, huge_page = size_t{2} << 20, most_idle = size_t{1} << 30;

size_t rounded(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

/// A number from a one-number file; `otherwise` where there is none ("max").
size_t number_in(const char* path, size_t otherwise) {
    size_t value = otherwise;
    if (FILE* file = std::fopen(path, "r")) {
        if (std::fscanf(file, "%zu", &value) != 1) value = otherwise;
        std::fclose(file);
    }
    return value;
}

size_t group_limit() { return number_in("/sys/fs/cgroup/memory.max", number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes", SIZE_MAX)); }
size_t group_use() { return number_in("/sys/fs/cgroup/memory.current", number_in("/sys/fs/cgroup/memory/memory.usage_in_bytes", 0)); }

size_t machine_memory() {
    struct sysinfo info;
    return sysinfo(&info) == 0 ? info.totalram * info.mem_unit : most_idle;
}

/// What the system says could still be used without swapping.
size_t available_memory() {
    size_t kib = SIZE_MAX / 1024;
    if (FILE* file = std::fopen("/proc/meminfo", "r")) {
        char line[128];
        while (std::fgets(line, sizeof line, file))
            if (std::sscanf(line, "MemAvailable: %zu", &kib) == 1) break;
        std::fclose(file);
    }
    const size_t limit = group_limit(), used = group_use();
    return std::min(kib * 1024, limit == SIZE_MAX ? SIZE_MAX : limit > used ? limit - used : 0);
}

struct Idle {
    void* block;
    size_t bytes;
};

class BlockCache {
  public:
    BlockCache()
        : limit_(std::min(most_idle, std::min(machine_memory(), group_limit()) / 8)), memory_(std::min(machine_memory(), group_limit())) {}

    void* take(size_t wanted) {
        const size_t bytes = rounded(wanted, page);
        const std::lock_guard<std::mutex> hold(lock_);
        if (void* block = take_idle(bytes)) return block;
        idle_.reserve(sizes_.size() + 1); // so that giving back needs no memory
        void* block = map(bytes);
        if (!block && release_all()) block = map(bytes);
        if (block) sizes_[block] = bytes;
        return block;
    }

    void give(void* block) noexcept {
        const std::lock_guard<std::mutex> hold(lock_);
        const size_t bytes = sizes_.find(block)->second;
        if (short_of_memory()) release_all();
        if (bytes > limit_ || short_) return unmap(block, bytes);
        while (idle_bytes_ + bytes > limit_) drop_oldest();
        idle_.push_back({block, bytes});
        idle_bytes_ += bytes;
    }

    size_t size(void* block) {
        const std::lock_guard<std::mutex> hold(lock_);
        const auto found = sizes_.find(block);
        return found == sizes_.end() ? 0 : found->second;
    }

    size_t idle_bytes() {
        const std::lock_guard<std::mutex> hold(lock_);
        return idle_bytes_;
    }

    size_t release() {
        const std::lock_guard<std::mutex> hold(lock_);
        return release_all();
    }

    void set_limit(size_t bytes) {
        const std::lock_guard<std::mutex> hold(lock_);
        limit_ = bytes;
        while (idle_bytes_ > limit_) drop_oldest();
    }

    std::mutex& lock() { return lock_; }

  private:
    /// The smallest idle block that fits with at most an eighth to spare; the last used of equals, which is warmest.
    void* take_idle(size_t bytes) {
        auto best = idle_.end();
        for (auto it = idle_.begin(); it != idle_.end(); ++it)
            if (it->bytes >= bytes && it->bytes <= bytes + bytes / 8 && (best == idle_.end() || it->bytes <= best->bytes)) best = it;
        if (best == idle_.end()) return nullptr;
        void* block = best->block;
        idle_bytes_ -= best->bytes;
        idle_.erase(best);
        return block;
    }

    void* map(size_t bytes) {
        const size_t spare = bytes >= huge_page ? huge_page : 0; // below a huge page there is nothing to align
        void* raw = mmap(nullptr, bytes + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (raw == MAP_FAILED) return nullptr;
        char* begin = static_cast<char*>(raw);
        if (!spare) return begin;
        char* block = reinterpret_cast<char*>(rounded(reinterpret_cast<size_t>(begin), huge_page));
        if (block > begin) munmap(begin, static_cast<size_t>(block - begin));
        char *end = begin + bytes + spare, *used = block + bytes;
        if (end > used) munmap(used, static_cast<size_t>(end - used));
        madvise(block, bytes, MADV_HUGEPAGE);
        return block;
    }

    void unmap(void* block, size_t bytes) noexcept {
        sizes_.erase(block);
        munmap(block, bytes);
    }

    void drop_oldest() noexcept {
        const Idle oldest = idle_.front();
        idle_.erase(idle_.begin());
        idle_bytes_ -= oldest.bytes;
        unmap(oldest.block, oldest.bytes);
    }

    size_t release_all() noexcept {
        const size_t bytes = idle_bytes_;
        while (!idle_.empty()) drop_oldest();
        return bytes;
    }

    /// Less than a sixteenth of the memory left. Asked of the system ten times a second at most.
    bool short_of_memory() noexcept {
        const auto now = std::chrono::steady_clock::now();
        if (now - asked_ < std::chrono::milliseconds(100)) return short_;
        asked_ = now;
        return short_ = available_memory() < memory_ / 16;
    }

    std::mutex lock_;
    std::vector<Idle> idle_; // oldest first
    std::unordered_map<void*, size_t> sizes_;
    size_t idle_bytes_ = 0, limit_, memory_;
    std::chrono::steady_clock::time_point asked_{};
    bool short_ = false;
};

BlockCache& cache() {
    static BlockCache& one = *[] {
        auto made = new BlockCache; // never destroyed
        // A fork while another thread holds the lock must not leave the child with a lock nobody opens.
        pthread_atfork([] { cache().lock().lock(); }, [] { cache().lock().unlock(); }, [] { cache().lock().unlock(); });
        return made;
    }();
    return one;
}

} // namespace

void* take_block(size_t bytes) { return cache().take(bytes); }
void give_block(void* block) noexcept { cache().give(block); }
size_t block_size(void* block) { return cache().size(block); }
size_t block_cache_bytes() { return cache().idle_bytes(); }
size_t block_cache_release() { return cache().release(); }
void block_cache_limit(size_t bytes) { cache().set_limit(bytes); }

} // namespace dyno::python
