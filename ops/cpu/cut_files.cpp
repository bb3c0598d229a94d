// A read behind the end of a mapped file that was cut gives zeros from now on, and is counted: the kernel would
// end the process with SIGBUS.  Who mapped the file finds out by its size that what was read is worth nothing.
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

namespace {

const uintptr_t page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
std::atomic<uint64_t> num_pages{0};
struct sigaction earlier;

// Whether the page of an address is zeros now.  Calls nothing that a signal handler may not call.
bool put_zeros(void* address) {
    void* page = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(address) & ~(page_bytes - 1));
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    return mmap(page, page_bytes, PROT_READ | PROT_WRITE, flags, -1, 0) == page;
}

void on_bus_error(int number, siginfo_t* info, void*) {
    const int error = errno;
    if (info->si_code == BUS_ADRERR && put_zeros(info->si_addr)) {
        ++num_pages;
    } else {
        sigaction(number, &earlier, nullptr);  // the instruction runs again, and meets what was there before
        if (info->si_code <= 0) raise(number);  // sent by a process: it would not come again
    }
    errno = error;
}

}  // namespace

// Let this process survive such reads; once is enough.  0, or the number of an error.
extern "C" int braid_survive_cut_files() {
    static const int error = [] {
        struct sigaction action = {};
        action.sa_sigaction = on_bus_error;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        sigemptyset(&action.sa_mask);
        return sigaction(SIGBUS, &action, &earlier) == 0 ? 0 : errno;
    }();
    return error;
}

// Pages that were replaced by zeros in this process so far.
extern "C" uint64_t braid_cut_pages() { return num_pages; }
