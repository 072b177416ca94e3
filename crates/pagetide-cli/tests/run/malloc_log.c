/* A malloc that logs every sixteenth allocation from the start. */
#include <fcntl.h>
#include <stddef.h>
#include <unistd.h>

void *__libc_malloc(size_t bytes);

void *malloc(size_t bytes) {
    static int log = -1;
    static unsigned nr;
    if (__atomic_fetch_add(&nr, 1, __ATOMIC_RELAXED) % 16 == 0) {
        if (log < 0) log = open("malloc.log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (write(log, "malloc\n", 7) != 7) _exit(77);
    }
    return __libc_malloc(bytes);
}
