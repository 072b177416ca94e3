/* C streams in many uses. The output must not depend on the server of the files. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wchar.h>

static char text[300000];

static void position(const char *what, FILE *f) {
    printf("%s: at %ld, descriptor at %ld, eof %d, error %d\n", what, ftell(f),
           (long)lseek(fileno(f), 0, SEEK_CUR), !!feof(f), !!ferror(f));
}

static void lines(void) {
    FILE *f = fopen("lines", "w");
    for (int i = 0; i < 60000; i++) fprintf(f, "line %d of many\n", i);
    struct stat s;
    fflush(f);
    position("written", f);
    fstat(fileno(f), &s);
    printf("length %ld, closed %d\n", (long)s.st_size, fclose(f));

    f = fopen("lines", "r");
    char *line = NULL;
    size_t room = 0;
    long sum = 0, nr = 0, number;
    while (getline(&line, &room, f) > 0) {
        if (sscanf(line, "line %ld", &number) == 1) sum += number;
        nr++;
    }
    position("read", f);
    printf("%ld lines, sum %ld\n", nr, sum);
    rewind(f);
    int c = getc(f);
    ungetc('L', f);
    printf("%c, %s", c, fgets(text, 100, f));
    fseek(f, -17, SEEK_END);
    printf("last: %s", fgets(text, 100, f));
    fpos_t place;
    fseek(f, 12345, SEEK_SET);
    fgetpos(f, &place);
    size_t nr_read = fread(text, 1, 200000, f);
    fsetpos(f, &place);
    printf("%zu read, then '%c' and '%c'\n", nr_read, text[0], fgetc_unlocked(f));
    printf("writing to it: %d, ", fputc('x', f));
    printf("error %d\n", !!ferror(f));
    clearerr(f);
    free(line);
    /* Read-ahead data is given back. */
    fseek(f, 0, SEEK_SET);
    getc(f);
    fflush(f);
    position("flushed", f);
    printf("closed %d, again as a number: %d\n", fclose(f), fopen("none", "r") == NULL ? errno : 0);
}

static void both_ways(void) {
    FILE *f = fopen("both", "w+x");
    printf("exclusive twice: %d\n", fopen("both", "wx") == NULL ? errno : 0);
    fwrite("0123456789", 1, 10, f);
    fseek(f, 4, SEEK_SET);
    fputs("four", f);
    fseek(f, 2, SEEK_SET);
    printf("%s\n", fgets(text, 100, f));
    position("both", f);
    fclose(f);
    f = fopen("both", "a+");
    printf("first of a+: %c\n", getc(f));
    fprintf(f, "end");
    position("appended", f);
    int fd = open("both", O_RDWR);
    fflush(f);
    printf("another descriptor: %zd\n", pread(fd, text, 100, 0));
    fclose(f);
    f = fdopen(fd, "r+");
    printf("same descriptor: %d\n", fileno(f) == fd);
    setvbuf(f, NULL, _IONBF, 0);
    fprintf(f, "unbuffered %d", 5);
    printf("%zd bytes\n", pread(fd, text, 100, 0));
    fclose(f);
    fd = open("both", O_RDONLY);
    printf("wrong mode: %d\n", fdopen(fd, "w") == NULL ? errno : 0);
    close(fd);
}

static void again(void) {
    FILE *f = fopen("first", "w");
    fputs("in the first", f);
    FILE *same = freopen("second", "w", f);
    printf("reopened: %d\n", same == f);
    fputs("in the second", f);
    f = freopen("first", "r+", f);
    printf("%s|", fgets(text, 100, f));
    fseek(f, 0, SEEK_SET);
    fputs("IN", f);
    f = freopen(NULL, "r", f);
    printf("%s|%d\n", fgets(text, 100, f), fputc('x', f));
    fclose(f);
    f = fopen("first", "a");
    position("append", f);
    fputs(", and more", f);
    position("append", f);
    printf("failed reopening: %d\n", freopen("none/none", "w", f) == NULL ? errno : 0);
    FILE *t = tmpfile();
    fprintf(t, "temporary %d", 7);
    rewind(t);
    printf("%s\n", fgets(text, 100, t));
    fclose(t);
}

static void wide(void) {
    FILE *f = fopen("wide", "w");
    printf("orientation %d", fwide(f, 0));
    fwprintf(f, L"%ls %d %.2f\n", L"wide", 42, 2.5);
    fputws(L"second\n", f);
    printf(", then %d, closed %d\n", fwide(f, 0), fclose(f));
    f = fopen("wide", "r");
    wchar_t line[100];
    printf("%ls", fgetws(line, 100, f));
    int nr = fwscanf(f, L"%l[a-z]", line);
    printf("%d: %ls\n", nr, line);
    fclose(f);
    f = fopen("wide", "r");
    printf("a byte: %c", getc(f));
    printf(", orientation %d\n", fwide(f, 1));
    fclose(f);
}

int main(void) {
    lines();
    both_ways();
    again();
    wide();
    /* Each process writes its buffer at exit. */
    FILE *f = fopen("family", "a");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        fputs("child\n", f);
        exit(3);
    }
    int status;
    waitpid(child, &status, 0);
    printf("child %d, %s\n", WEXITSTATUS(status), fgets(text, 100, fopen("family", "r")));
    fputs("parent\n", f);
    return 0;
}
