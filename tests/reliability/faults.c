/* Counts the calls that write below one folder, and lets one of them fail: see
   test_fault_injection.py. Preloaded, so that it sees those of Python, Rust and C++ alike; processes
   started from this one share the count. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* Written and read by the test through a file; `root` is empty while nothing is counted. */
static struct { int at, fault, count; char hit[500], root[500]; } *state;

__attribute__((constructor)) static void attach(void) {
  const char *name = getenv("EVENPRUNE_FAULT_STATE");
  int fd = name ? open(name, O_RDWR | O_CLOEXEC) : -1;
  if (fd < 0) return;
  void *place = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (place != MAP_FAILED) state = place;
}

/* Count one call; return the error that it ends with, 0 for none. A full disk stays full for all that
   need space. A negative fault is a signal that reaches this process here; -1 is returned for a
   kill within a write (`path` is NULL). */
static int fails(const char *call, int folder, const char *path, int needs_space) {
  char link[40], base[500] = "", full[1100];
  if (!state || !state->root[0]) return 0;
  int kept = errno;
  if (!path || path[0] != '/') {
    snprintf(link, sizeof link, folder == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", folder);
    ssize_t size = readlink(link, base, sizeof base - 1);
    base[size > 0 ? size : 0] = 0;
  }
  snprintf(full, sizeof full, "%s%s%s", base, path && base[0] ? "/" : "", path ? path : "");
  errno = kept;
  if (strncmp(full, state->root, strlen(state->root)) != 0) return 0;
  int n = __sync_add_and_fetch(&state->count, 1);
  if (!state->at || n < state->at) return 0;
  if (n == state->at) snprintf(state->hit, sizeof state->hit, "%s %s", call, full + strlen(state->root));
  if (state->fault == ENOSPC) return needs_space ? ENOSPC : 0;
  if (n > state->at || state->fault > 0) return n > state->at ? 0 : state->fault;
  if (!path && state->fault == -SIGKILL) return -1;
  kill(getpid(), -state->fault);
  return 0;
}

#define REAL(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))
#define GUARD(result, ...) \
  { int error = fails(__func__, __VA_ARGS__); if (error > 0) { errno = error; return result; } }

#define OPEN(name, folder, before, ...) \
  int name(before const char *path, int flags, ...) { \
    va_list more; va_start(more, flags); int mode = va_arg(more, int); va_end(more); \
    if (flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)) \
      GUARD(-1, folder, path, (flags & O_CREAT) != 0) \
    return REAL(name)(__VA_ARGS__, flags, mode); }
#define COMMA ,
OPEN(open, AT_FDCWD, , path)
OPEN(open64, AT_FDCWD, , path)
OPEN(openat, folder, int folder COMMA, folder, path)
OPEN(openat64, folder, int folder COMMA, folder, path)

/* Of what is written when it fails, half is on the disk. */
#define WRITE(name, half, arguments, ...) \
  ssize_t name arguments { \
    int error = fails(#name, fd, NULL, 1); \
    if (error) { half; if (error < 0) kill(getpid(), SIGKILL); errno = error; return -1; } \
    return REAL(name)(__VA_ARGS__); }
WRITE(write, REAL(write)(fd, data, size / 2), (int fd, const void *data, size_t size), fd, data, size)
WRITE(pwrite, REAL(pwrite)(fd, data, size / 2, at),
  (int fd, const void *data, size_t size, off_t at), fd, data, size, at)
WRITE(pwrite64, REAL(pwrite64)(fd, data, size / 2, at),
  (int fd, const void *data, size_t size, off64_t at), fd, data, size, at)
WRITE(writev, , (int fd, const struct iovec *parts, int count), fd, parts, count)
WRITE(sendfile, , (int fd, int from, off_t *at, size_t size), fd, from, at, size)
WRITE(sendfile64, , (int fd, int from, off64_t *at, size_t size), fd, from, at, size)
WRITE(copy_file_range, ,
  (int from, off64_t *there, int fd, off64_t *here, size_t size, unsigned flags),
  from, there, fd, here, size, flags)

#define PATHS(name, folder, path, space, arguments, ...) \
  int name arguments { GUARD(-1, folder, path, space) return REAL(name)(__VA_ARGS__); }
PATHS(mkdir, AT_FDCWD, path, 1, (const char *path, mode_t mode), path, mode)
PATHS(mkdirat, fd, path, 1, (int fd, const char *path, mode_t mode), fd, path, mode)
PATHS(rmdir, AT_FDCWD, path, 0, (const char *path), path)
PATHS(unlink, AT_FDCWD, path, 0, (const char *path), path)
PATHS(unlinkat, fd, path, 0, (int fd, const char *path, int flags), fd, path, flags)
PATHS(rename, AT_FDCWD, to, 1, (const char *from, const char *to), from, to)
PATHS(renameat, fd, to, 1, (int old, const char *from, int fd, const char *to), old, from, fd, to)
PATHS(link, AT_FDCWD, to, 1, (const char *from, const char *to), from, to)
PATHS(linkat, fd, to, 1, (int old, const char *from, int fd, const char *to, int flags),
  old, from, fd, to, flags)
PATHS(symlink, AT_FDCWD, to, 1, (const char *from, const char *to), from, to)
PATHS(symlinkat, fd, to, 1, (const char *from, int fd, const char *to), from, fd, to)
PATHS(truncate64, AT_FDCWD, path, 1, (const char *path, off64_t size), path, size)
PATHS(ftruncate64, fd, "", 1, (int fd, off64_t size), fd, size)
PATHS(fsync, fd, "", 1, (int fd), fd)
PATHS(fdatasync, fd, "", 1, (int fd), fd)
