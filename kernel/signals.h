// When an interrupt may reach Python. Output: SIGINT is blocked in the threads of the kernel and open in the main thread only while
// a cell runs, because a signal that arrives in a ZeroMQ call makes cppzmq throw. Threads that a cell starts have it open; what they get
// goes to the main thread, or nowhere while no cell runs. It must not run Python code.
#pragma once

namespace dyno::kernel {

/// Remembers the calling thread as the main one and blocks SIGINT in it; threads made while no cell runs inherit the block.
void take_over_signals();

/// Opens SIGINT for the calling (main) thread after dropping one that came too early. Nests.
void open_interrupts();

/// Closes what open_interrupts() opened; the outermost call blocks SIGINT again.
void close_interrupts();

/// True between open_interrupts() and close_interrupts(). Any thread.
bool interrupts_are_open();

/// Sends SIGINT to the main thread if a cell runs, and asks the compiler's compute phases to stop. Any thread, no GIL.
void interrupt_cell();

} // namespace dyno::kernel
