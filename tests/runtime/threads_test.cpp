// The pool of threads: every member once, several callers, the child of a fork.
#include "compiler/runtime/threads.h"
#include <atomic>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace dyno::runtime {
namespace {

struct Count {
    std::atomic<int> calls{0}, sum{0}, team{0};
};
void count(void* data, int k, int n) {
    auto& c = *static_cast<Count*>(data);
    c.calls++;
    c.sum += k;
    c.team = n;
}

TEST(Threads, EachMemberRunsOnce) {
    EXPECT_FALSE(uses_torch_pool()); // this program does not load torch
    for (int threads : {1, 2, 5, 3}) {
        Count c;
        run_parallel(threads, count, &c);
        EXPECT_EQ(c.calls, c.team);
        EXPECT_EQ(c.team, threads);
        EXPECT_EQ(c.sum, threads * (threads - 1) / 2);
    }
}

TEST(Threads, SeveralCallersAtATime) {
    std::vector<std::thread> callers;
    std::atomic<int> wrong{0};
    for (int k = 0; k < 4; k++)
        callers.emplace_back([&] {
            for (int turn = 0; turn < 200; turn++) {
                Count c;
                run_parallel(3, count, &c);
                wrong += c.calls != c.team;
            }
        });
    for (std::thread& t : callers) t.join();
    EXPECT_EQ(wrong, 0);
}

TEST(Threads, ForkedChildRunsAlone) {
    Count before;
    run_parallel(2, count, &before);
    const pid_t child = fork();
    if (child == 0) {
        Count c;
        run_parallel(4, count, &c);
        _exit(c.calls == 1 ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
}

} // namespace
} // namespace dyno::runtime
