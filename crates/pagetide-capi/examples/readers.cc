// A pool of threads that read pages of one file in place, through one budget.
//
//   c++ -std=c++17 readers.cc $(pkg-config --cflags --libs pagetide) -pthread -o readers
//   ./readers /var/tmp/big.bin
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <iostream>
#include <memory>
#include <mutex>
#include <pagetide.h>
#include <queue>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {

constexpr std::uint64_t nr_pages = 1024;
constexpr std::size_t page_bytes = 4096;

std::int64_t must(std::int64_t result) {
    if (result < 0) throw std::runtime_error(pt_last_error());
    return result;
}

struct Close {
    void operator()(pt_cache *cache) const { pt_cache_close(cache); }
    void operator()(pt_file *file) const { pt_file_close(file); }
};
using Cache = std::unique_ptr<pt_cache, Close>;
using File = std::unique_ptr<pt_file, Close>;

// A page in place, for as long as this lives; it stays where it was made.
class Page {
public:
    Page(const File &file, std::uint64_t index) { must(pt_page_pin(file.get(), index, &page_)); }
    ~Page() { pt_page_unpin(&page_); }
    Page(const Page &) = delete;
    Page &operator=(const Page &) = delete;
    const std::uint8_t *begin() const { return page_.data; }
    const std::uint8_t *end() const { return page_.data + page_.len; }

private:
    pt_page page_;
};

class Pool {
public:
    explicit Pool(unsigned nr_threads) {
        while (nr_threads-- > 0) threads_.emplace_back([this] { work(); });
    }
    ~Pool() {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            is_closed_ = true;
        }
        wake_.notify_all();
        for (std::thread &thread : threads_) thread.join();
    }
    void add(std::function<void()> job) {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            jobs_.push(std::move(job));
        }
        wake_.notify_one();
    }

private:
    void work() {
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            wake_.wait(lock, [this] { return is_closed_ || !jobs_.empty(); });
            if (jobs_.empty()) return;
            std::function<void()> job = std::move(jobs_.front());
            jobs_.pop();
            lock.unlock();
            job();
            lock.lock();
        }
    }
    std::mutex mutex_;
    std::condition_variable wake_;
    std::queue<std::function<void()>> jobs_;
    bool is_closed_ = false;
    std::vector<std::thread> threads_;
};

File open(const Cache &cache, const char *path, std::uint32_t flags) {
    pt_file *file = nullptr;
    must(pt_file_open(cache.get(), path, flags, &file));
    return File(file);
}

int run(const char *path) {
    pt_cache_options options{};
    options.size = sizeof options;
    options.memory_bytes = nr_pages / 4 * page_bytes;
    pt_cache *opened = nullptr;
    must(pt_cache_open(&options, &opened));
    const Cache cache(opened);

    const File file = open(cache, path, PT_READ | PT_WRITE | PT_CREATE | PT_TRUNCATE);
    std::vector<std::uint8_t> bytes(page_bytes);
    for (std::uint64_t index = 0; index < nr_pages; index++) {
        std::memset(bytes.data(), static_cast<int>(index % 251), bytes.size());
        must(pt_file_pwrite(file.get(), bytes.data(), bytes.size(), index * page_bytes));
    }
    must(pt_file_sync(file.get()));

    std::atomic<std::uint64_t> nr_wrong{0}, nr_read{0};
    {
        Pool pool(4);
        for (std::uint64_t job = 0; job < 16; job++) {
            pool.add([&, job] {
                for (std::uint64_t nth = 0; nth < nr_pages; nth += 4) {
                    const std::uint64_t index = (nth * 7 + job * 31) % nr_pages;
                    const Page page(file, index);
                    for (const std::uint8_t byte : page) nr_wrong += byte != index % 251;
                    nr_read++;
                }
            });
        }
    }
    std::cout << nr_read << " pages read by 4 threads, " << nr_wrong << " bytes wrong\n";
    return nr_wrong == 0 && nr_read == 16 * nr_pages / 4 ? 0 : 1;
}

}  // namespace

int main(int argc, char **argv) {
    if (argc != 2) {
        std::cerr << "usage: readers FILE (it is overwritten)\n";
        return 2;
    }
    try {
        return run(argv[1]);
    } catch (const std::exception &error) {
        std::cerr << "readers: " << error.what() << "\n";
        return 1;
    }
}
