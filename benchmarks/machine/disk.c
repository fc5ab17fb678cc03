/* Makes every flush of a server take DELAY_US microseconds longer, as on a disk that is not a cache. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <time.h>

static int delayed(const char *name, int file) {
    struct timespec rest = {DELAY_US / 1000000, (DELAY_US % 1000000) * 1000L};
    while (nanosleep(&rest, &rest) != 0 && errno == EINTR) {
    }
    int (*flush)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    return flush(file);
}

int fsync(int file) { return delayed("fsync", file); }
int fdatasync(int file) { return delayed("fdatasync", file); }
