// Threads touch a mapping while its file goes to the kernel: each load sees the file's byte,
// without a signal. Ends with "ok".
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, NR_PAGES = 64, NR_THREADS = 4, NR_TURNS = 400 };

static pthread_barrier_t barrier;
static volatile unsigned char *map;

static void expect(int is_so, const char *what) {
    if (is_so) return;
    printf("%s\n", what);
    exit(1);
}

static void *touch(void *argument) {
    long own = (long)argument;
    for (int turn = 0; turn < NR_TURNS; turn++) {
        pthread_barrier_wait(&barrier);
        for (int page = own; page < NR_PAGES; page += NR_THREADS)
            expect(map[(long)page * PAGE] == (unsigned char)(page + 1), "a page");
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

// A new file per round, because a file that went to the kernel stays there for a time.
static int new_file(void) {
    static unsigned char bytes[NR_PAGES * PAGE];
    for (int page = 0; page < NR_PAGES; page++) bytes[page * PAGE] = page + 1;
    int fd = open("handed.data", O_RDWR | O_CREAT | O_EXCL, 0600);
    expect(write(fd, bytes, sizeof bytes) == sizeof bytes, "write");
    close(fd);
    fd = open("handed.data", O_RDONLY);
    expect(unlink("handed.data") == 0, "unlink");
    return fd;
}

int main(void) {
    pthread_t threads[NR_THREADS];
    pthread_barrier_init(&barrier, NULL, NR_THREADS + 1);
    for (long own = 0; own < NR_THREADS; own++)
        expect(pthread_create(&threads[own], NULL, touch, (void *)own) == 0, "pthread_create");
    for (int turn = 0; turn < NR_TURNS; turn++) {
        int fd = new_file();
        map = mmap(NULL, NR_PAGES * PAGE, PROT_READ, MAP_SHARED, fd, 0);
        expect(map != MAP_FAILED, "mmap");
        expect(map[0] == 1 && poll(&(struct pollfd){fd}, 1, 0) == 0, "poll");
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
        munmap((void *)map, NR_PAGES * PAGE);
        close(fd);
    }
    for (int own = 0; own < NR_THREADS; own++) pthread_join(threads[own], NULL);
    puts("ok");
    return 0;
}
