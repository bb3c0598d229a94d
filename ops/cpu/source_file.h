// A file of weights that has to stay as it was when a model was made of it.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

namespace braid {

class SourceFile {
public:
    // Of `size` bytes, changed last at `time`, in ns, which begins with the text `magic`; throws std::runtime_error,
    // as all functions here.
    SourceFile(const std::string& path, int64_t size, int64_t time, const std::string& magic = "")
        : m_path(path), m_size(size), m_time(time), m_file{open(path.c_str(), O_RDONLY | O_CLOEXEC)} {
        if (m_file.number < 0) fail(std::strerror(errno));
        std::string first(magic.size(), 0);
        read(0, first.size(), &first[0]);
        if (first != magic) fail("is no " + magic + " file");
        check();
    }

    void check() const {
        struct stat now;
        if (fstat(m_file.number, &now)) fail(std::strerror(errno));
        const int64_t time = int64_t(now.st_mtim.tv_sec) * 1000000000 + now.st_mtim.tv_nsec;
        if (now.st_size != m_size || time != m_time) fail("has changed since it was converted; load it again");
    }

    void read(int64_t offset, size_t bytes, void* into) const {
        for (char* to = static_cast<char*>(into); bytes;) {
            const ssize_t some = pread(m_file.number, to, bytes, offset);
            if (some < 0 && errno == EINTR) continue;
            if (some <= 0) fail(some ? std::strerror(errno) : "is cut short");
            to += some, offset += some, bytes -= some;
        }
    }

    // Bytes of the file in memory, for as long as this exists.
    class Mapping {
    public:
        Mapping(const SourceFile& file, int64_t offset, size_t bytes) {
            if (offset < 0 || int64_t(bytes) > file.m_size - offset) file.fail("is cut short");
            const int64_t page = sysconf(_SC_PAGESIZE), skipped = offset % page;
            m_size = bytes + skipped;
            m_begin = mmap(nullptr, m_size, PROT_READ, MAP_PRIVATE, file.m_file.number, offset - skipped);
            if (m_begin == MAP_FAILED) file.fail(std::strerror(errno));
            madvise(m_begin, m_size, MADV_SEQUENTIAL);
            data = static_cast<const uint8_t*>(m_begin) + skipped;
        }
        ~Mapping() { munmap(m_begin, m_size); }
        Mapping(const Mapping&) = delete;
        Mapping& operator=(const Mapping&) = delete;

        // Gives the pages back; they are read again where they are needed.
        void release() const { madvise(m_begin, m_size, MADV_DONTNEED); }

        const uint8_t* data;

    private:
        void* m_begin;
        size_t m_size;
    };

    [[noreturn]] void fail(const std::string& problem) const { throw std::runtime_error(m_path + " " + problem); }

private:
    struct Descriptor {
        int number;
        ~Descriptor() {
            if (number >= 0) close(number);
        }
    };

    std::string m_path;
    int64_t m_size, m_time;
    Descriptor m_file;
};

}  // namespace braid
