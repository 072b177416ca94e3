// Random reads of mappings larger than memory see the file's bytes. The program's own stores and
// mappings in place stay.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 1024 };

static unsigned seed = 1;

static unsigned any_page(void) {
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % PAGES;
}

static void expect(int is_so, const char *what) {
    if (!is_so) {
        printf("%s\n", what);
        exit(1);
    }
}

static char *map(int fd, int protection, int sharing) {
    char *at = mmap(NULL, PAGES * PAGE, protection, sharing, fd, 0);
    expect(at != MAP_FAILED, "mmap");
    expect(madvise(at, PAGES * PAGE, MADV_RANDOM) == 0, "madvise");
    return at;
}

static unsigned first_word(const char *at, unsigned page) {
    return *(volatile const unsigned *)(at + (size_t)page * PAGE);
}

static void read_by_chance(const char *at, int nr) {
    for (int i = 0; i < nr; i++) {
        unsigned page = any_page();
        expect(first_word(at, page) == page + 1, "a page of the file");
    }
}

// Every eighth page is the program's own, and stays while others come and go.
static void store_and_read(char *at) {
    for (unsigned page = 0; page < PAGES; page += 8)
        *(volatile unsigned *)(at + (size_t)page * PAGE) = ~page;
    for (int i = 0; i < 4 * PAGES; i++) {
        unsigned page = any_page();
        expect(first_word(at, page) == (page % 8 ? page + 1 : ~page), "a page of the program's");
    }
}

int main(void) {
    int fd = open("random.data", O_RDWR | O_CREAT | O_TRUNC, 0600);
    static unsigned words[PAGE / 4];
    for (unsigned page = 0; page < PAGES; page++) {
        words[0] = page + 1;
        expect(write(fd, words, PAGE) == PAGE, "write");
    }
    char *shared = map(fd, PROT_READ, MAP_SHARED);
    read_by_chance(shared, 6 * PAGES);
    pid_t child = fork();
    if (child == 0) {
        read_by_chance(shared, 2 * PAGES);
        _exit(0);
    }
    int status;
    expect(waitpid(child, &status, 0) == child && status == 0, "the child");

    store_and_read(map(fd, PROT_READ | PROT_WRITE, MAP_PRIVATE));
    char *later = map(fd, PROT_READ, MAP_PRIVATE);
    read_by_chance(later, PAGES);
    expect(mprotect(later, PAGES * PAGE, PROT_READ | PROT_WRITE) == 0, "mprotect");
    store_and_read(later);

    // Private memory replaces half of the mapping.
    size_t half = PAGES / 2 * PAGE;
    char *own = mmap(shared, half, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    expect(own == shared, "mmap in place");
    for (unsigned page = 0; page < PAGES / 2; page++)
        *(unsigned *)(own + (size_t)page * PAGE) = ~page;
    expect(madvise(shared + half, half, MADV_SEQUENTIAL) == 0, "madvise");
    for (unsigned page = PAGES / 2; page < PAGES; page++)
        expect(first_word(shared, page) == page + 1, "a page of the other half");
    for (unsigned page = 0; page < PAGES / 2; page++)
        expect(first_word(own, page) == ~page, "memory of the program's");
    printf("ok\n");
    return 0;
}
