/* An NVIDIA driver without a GPU: what it calls device memory is the host's, copies are made at once,
   and a launch looks at its grid and does nothing. It refuses what a real driver refuses: calls before
   cuInit or after a fork, without a current context, with handles that do not exist, with memory that
   is not there or not of the kind that is asked for. Calls that are not here succeed and do nothing.
   What programs can be bounded by is counted: see tests/gpu_stub.py.

   Variables of the environment: MINIAPPS_STUB_BYTES, the memory that there is; MINIAPPS_STUB_FORKS, a
   file that gets a line when a process forks that has opened CUDA; MINIAPPS_STUB_COSTS, a file with what
   calls cost (see below), without which they cost nothing; MINIAPPS_STUB_CLOCK, if set: times are those
   of a clock that only these costs move, and the GPU runs one kernel at a time. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
  OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, INVALID_CONTEXT = 201,
  INVALID_HANDLE = 400, NOT_READY = 600, ILLEGAL_ADDRESS = 700, MISALIGNED_ADDRESS = 716
};
enum { KIB = 1024, CONTEXT = 0x1000, FIRST_HANDLE = 0x2000, STEP = 16 };
enum { DEVICE = 1, PINNED, POOLED, OPENED }; /* kinds of memory: pooled: cuMemAllocAsync's */

void *last_launch[3]; /* function, stream, places of parameters */
long launches, marks, waits, copies, synchronizations, queries;
static long last_handle = FIRST_HANDLE;
static __thread void *current; /* context */

/* Whether CUDA is open */

static int is_open, is_lost; /* lost: it was open in the process from which this one was forked */
static int later; /* what went wrong in a kernel: the answer to every call after it */

static int state(void) { return is_open ? later : NOT_INITIALIZED; }
static int state_in_context(void) { return !is_open || later || current ? state() : INVALID_CONTEXT; }

#define IF_OPEN if (state()) return state()
#define IN_CONTEXT if (state_in_context()) return state_in_context()

static void before_fork(void) {
  const char *name = getenv("MINIAPPS_STUB_FORKS");
  if (!is_open || !name) return;
  FILE *file = fopen(name, "a");
  if (!file) return;
  fprintf(file, "process %d forks, and has opened CUDA\n", getpid());
  fclose(file);
}

static void after_fork(void) { is_lost = is_lost || is_open, is_open = 0; }

/* For a test that forks a process for each mistake: this driver, as no real one, goes on in it. */
void take_over(void) { is_open = is_lost, is_lost = 0; }

__attribute__((constructor)) static void watch(void) { pthread_atfork(before_fork, NULL, after_fork); }

int cuInit(unsigned flags) { return is_lost ? NOT_INITIALIZED : (is_open = 1, OK); }
int cuDriverGetVersion(int *version) { *version = 13000; return OK; }
static int nothing(void) { return state(); }

/* Handles: of one kind they are numbered, and each is alive until it is destroyed */

struct handles { long first; char *alive; long count; };
static struct handles streams = {0x1000000}, events = {0x8000000};

static void *made(struct handles *all) {
  all->alive = realloc(all->alive, all->count + 1);
  all->alive[all->count] = 1;
  return (void *)(all->first + STEP * all->count++);
}

static long number(struct handles *all, void *handle) {
  long n = ((long)handle - all->first) / STEP, rest = ((long)handle - all->first) % STEP;
  return !rest && n >= 0 && n < all->count && all->alive[n] ? n : -1;
}

static int destroyed(struct handles *all, void *handle) {
  long n = number(all, handle);
  if (n < 0) return INVALID_HANDLE;
  all->alive[n] = 0;
  return OK;
}

/* What calls cost. A line of the file has the name of a call, the ns that the host spends in it, and the
   ns that its work then takes on the device: at least, and more per byte. The host spins as long, and
   waits for work where it synchronizes. The work of a stream is done in order; streams do not slow each
   other down. */

enum call {
  LAUNCH, CREATE, CREATE_UNTIMED, RECORD, RECORD_UNTIMED, QUERY, ELAPSED, EVENT_WAIT, STREAM_WAIT,
  SYNCHRONIZE, TO_HOST, TO_DEVICE, WITHIN_DEVICE, FILL, ARRAY, PINNED_ARRAY, CALLS
};

static struct cost { char *name; double host, device, byte; } costs[CALLS] = {
  [LAUNCH] = {"cuLaunchKernel"},
  [CREATE] = {"cuEventCreate"},
  [CREATE_UNTIMED] = {"cuEventCreate-untimed"},
  [RECORD] = {"cuEventRecord"},
  [RECORD_UNTIMED] = {"cuEventRecord-untimed"},
  [QUERY] = {"cuEventQuery"},
  [ELAPSED] = {"cuEventElapsedTime"},
  [EVENT_WAIT] = {"cuEventSynchronize"},
  [STREAM_WAIT] = {"cuStreamWaitEvent"},
  [SYNCHRONIZE] = {"cuStreamSynchronize"},
  [TO_HOST] = {"cuMemcpyDtoHAsync"},
  [TO_DEVICE] = {"cuMemcpyHtoDAsync"},
  [WITHIN_DEVICE] = {"cuMemcpyDtoDAsync"},
  [FILL] = {"cuMemsetD8Async"},
  [ARRAY] = {"array"}, /* of CuPy's pool, to allocate and to release it */
  [PINNED_ARRAY] = {"pinned"},
};

long spent_ns, worked_ns, waited_ns; /* by the host in calls, by the device, by the host for the device */
static long *ends, end_of_default; /* of the work of streams, on the host's clock */
static int is_artificial; /* the clock */
static long host_ns, kernels_end; /* what it shows, and when all kernels have ended */

static struct cost *named(char *name) {
  for (int n = 0; n < CALLS; n++)
    if (!strcmp(costs[n].name, name)) return &costs[n];
  fprintf(stderr, "MINIAPPS_STUB_COSTS: no call %s has a cost\n", name);
  exit(1);
}

__attribute__((constructor)) static void read_costs(void) {
  is_artificial = getenv("MINIAPPS_STUB_CLOCK") != NULL;
  char name[64];
  double host, device, byte;
  FILE *file = getenv("MINIAPPS_STUB_COSTS") ? fopen(getenv("MINIAPPS_STUB_COSTS"), "r") : NULL;
  while (file && fscanf(file, "%63s %lf %lf %lf", name, &host, &device, &byte) == 4) {
    struct cost *cost = named(name);
    cost->host = host, cost->device = device, cost->byte = byte;
  }
  if (file) fclose(file);
}

static long later_of(long one, long other) { return one > other ? one : other; }

static long now(void) {
  struct timespec time;
  if (is_artificial) return host_ns;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000 + time.tv_nsec;
}

static void spin_until(long time) {
  if (is_artificial) host_ns = later_of(host_ns, time);
  while (now() < time);
}

static void spend(enum call call) {
  long ns = costs[call].host;
  spent_ns += ns;
  if (ns) spin_until(now() + ns);
}

static long *end_of(void *stream) {
  long n = number(&streams, stream);
  return n < 0 ? &end_of_default : &ends[n];
}

static void work(enum call call, size_t bytes, void *stream) {
  long ns = costs[call].device + costs[call].byte * bytes, *end = end_of(stream);
  spend(call);
  worked_ns += ns;
  if (!ns) return;
  *end = later_of(*end, now());
  if (is_artificial && call == LAUNCH) *end = later_of(*end, kernels_end);
  *end += ns;
  if (call == LAUNCH) kernels_end = *end;
}

static void wait_on_host(long time) {
  waited_ns += later_of(time - now(), 0);
  spin_until(time);
}

/* CuPy's pools hand out memory without a call of the driver. */
void pooled(int pinned) { spend(pinned ? PINNED_ARRAY : ARRAY); }

static int is_stream(void *stream) { return (long)stream <= 2 || number(&streams, stream) >= 0; }

static int make(void **handle) {
  *handle = (void *)(last_handle += STEP);
  return OK;
}

/* Device and context */

static size_t total(void) {
  const char *bytes = getenv("MINIAPPS_STUB_BYTES");
  return bytes ? strtoull(bytes, NULL, 10) : 1ull << 34;
}

int cuDeviceGetCount(int *count) { IF_OPEN; *count = 1; return OK; }
int cuDeviceGet(int *device, int number) { IF_OPEN; *device = number; return OK; }
int cuDeviceGetName(char *name, int size, int device) { IF_OPEN; strncpy(name, "stub", size); return OK; }
int cuDeviceGetUuid(char *uuid, int device) { IF_OPEN; memset(uuid, 1, 16); return OK; }
int cuDeviceTotalMem(size_t *bytes, int device) { IF_OPEN; *bytes = total(); return OK; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { return cuDeviceTotalMem(bytes, device); }

int cuDeviceGetAttribute(int *value, int attribute, int device) {
  IF_OPEN;
  switch (attribute) {
  case 1: case 2: case 3: *value = 1024; break; /* threads of a block, in all and along x and y */
  case 4: *value = 64; break;
  case 5: *value = 2147483647; break; /* blocks along x, y, z */
  case 6: case 7: *value = 65535; break;
  case 8: *value = 48 * KIB; break; /* shared memory */
  case 10: *value = 32; break;      /* a warp */
  case 12: *value = 65536; break;   /* registers */
  case 16: *value = 132; break;     /* multiprocessors */
  case 75: *value = 9; break;       /* compute capability */
  case 76: *value = 0; break;
  default: *value = 1;
  }
  return OK;
}

int cuDevicePrimaryCtxRetain(void **context, int device) { IF_OPEN; *context = (void *)CONTEXT; return OK; }
int cuCtxGetCurrent(void **context) { IF_OPEN; *context = current; return OK; }
int cuCtxSetCurrent(void *context) { IF_OPEN; current = context; return OK; }
int cuCtxPushCurrent(void *context) { IF_OPEN; current = context; return OK; }
int cuCtxPopCurrent(void **context) { IN_CONTEXT; *context = current; current = NULL; return OK; }
int cuCtxGetDevice(int *device) { IN_CONTEXT; *device = 0; return OK; }

/* Memory: what is allocated, in the order of addresses */

/* Memory that other processes can open lies in a file without a name in any folder, which they know
   by a link of the system; such a file is left by no process, however it ends. */
enum { SHAREABLE = 2 * KIB * KIB }; /* bytes: multiples can be opened */
typedef char link_name[48];
static struct range { char *begin; size_t size; int kind, file, opens; link_name link; } *ranges;
static long count;
static size_t used;

static long after(char *address) { /* the number of ranges that begin at or before an address */
  long low = 0, high = count;
  while (low < high) {
    long middle = (low + high) / 2;
    if (ranges[middle].begin <= address) low = middle + 1;
    else high = middle;
  }
  return low;
}

static struct range *around(void *address) {
  long n = after(address) - 1;
  return n >= 0 && (char *)address < ranges[n].begin + ranges[n].size ? &ranges[n] : NULL;
}

static int is_device(void *address, size_t n) { /* whether n bytes there lie in one allocation */
  struct range *found = around(address);
  return !n || (found && found->kind != PINNED && (char *)address + n <= found->begin + found->size);
}

static int is_host(void *address) {
  struct range *found = around(address);
  return !found || found->kind == PINNED;
}

static void note(struct range made) {
  ranges = realloc(ranges, (count + 1) * sizeof *ranges);
  long n = after(made.begin);
  memmove(ranges + n + 1, ranges + n, (count++ - n) * sizeof *ranges);
  ranges[n] = made;
}

static void forget(struct range *found) {
  memmove(found, found + 1, (ranges + count-- - found - 1) * sizeof *ranges);
}

static void *mapped(int file, size_t bytes) {
  return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
}

static void path_of(char *path, int process, int file) { sprintf(path, "/proc/%d/fd/%d", process, file); }

static void read_link(char *link, int process, int file) {
  char path[64];
  path_of(path, process, file);
  ssize_t n = readlink(path, link, sizeof(link_name) - 1);
  link[n < 0 ? 0 : n] = 0;
}

static int allocate(void **memory, size_t bytes, int kind) {
  IN_CONTEXT;
  if (!bytes) return INVALID_VALUE;
  if (kind != PINNED && bytes > total() - used) return OUT_OF_MEMORY;
  struct range new = {NULL, bytes, kind, -1};
  if (kind == DEVICE && bytes % SHAREABLE == 0) {
    static int number;
    link_name name;
    sprintf(name, "stub-%d-%d", getpid(), ++number);
    new.file = memfd_create(name, MFD_CLOEXEC);
    ftruncate(new.file, bytes);
    read_link(new.link, getpid(), new.file);
    new.begin = mapped(new.file, bytes);
  } else new.begin = calloc(1, bytes + 1);
  note(new);
  *memory = new.begin;
  if (kind != PINNED) used += bytes;
  return OK;
}

static int release(void *memory, int kind) {
  IN_CONTEXT;
  struct range *found = around(memory);
  if (!found || found->begin != memory || found->kind != kind) return INVALID_VALUE;
  if (kind != PINNED) used -= found->size;
  if (found->file < 0) free(memory);
  else munmap(memory, found->size), close(found->file);
  forget(found);
  return OK;
}

int cuMemGetInfo(size_t *unused, size_t *all) {
  IN_CONTEXT;
  *all = total();
  *unused = *all - used;
  return OK;
}

int cuMemAlloc(void **memory, size_t bytes) { return allocate(memory, bytes, DEVICE); }
int cuMemFree(void *memory) { return release(memory, DEVICE); }
int cuMemAllocAsync(void **memory, size_t bytes, void *stream) { return allocate(memory, bytes, POOLED); }
int cuMemFreeAsync(void *memory, void *stream) { return release(memory, POOLED); }
int cuMemHostAlloc(void **memory, size_t bytes) { return allocate(memory, bytes, PINNED); }
int cuMemFreeHost(void *memory) { return release(memory, PINNED); }

int cuMemsetD8Async(void *to, int byte, size_t n, void *stream) {
  IN_CONTEXT;
  if (!is_stream(stream)) return INVALID_HANDLE;
  if (!is_device(to, n)) return INVALID_VALUE;
  work(FILL, n, stream);
  memset(to, byte, n);
  return OK;
}

static int copy(enum call call, void *to, void *from, size_t n, int right, void *stream) {
  IN_CONTEXT;
  if (!is_stream(stream)) return INVALID_HANDLE;
  if (!right) return INVALID_VALUE;
  work(call, n, stream);
  memcpy(to, from, n);
  return OK;
}

static int to_device(void *to, void *from, size_t n, void *stream) {
  return copy(TO_DEVICE, to, from, n, is_device(to, n) && is_host(from), stream);
}

static int to_host(void *to, void *from, size_t n, void *stream) {
  return copy(TO_HOST, to, from, n, is_host(to) && is_device(from, n), stream);
}

static int within_device(void *to, void *from, size_t n, void *stream) {
  return copy(WITHIN_DEVICE, to, from, n, is_device(to, n) && is_device(from, n), stream);
}

static int done(int answer) { return wait_on_host(end_of_default), answer; }

int cuMemcpyHtoD(void *to, void *from, size_t n) { return done(to_device(to, from, n, NULL)); }
int cuMemcpyDtoH(void *to, void *from, size_t n) { return done(to_host(to, from, n, NULL)); }
int cuMemcpyDtoD(void *to, void *from, size_t n) { return done(within_device(to, from, n, NULL)); }
int cuMemcpyHtoDAsync(void *to, void *from, size_t n, void *stream) {
  copies++;
  return to_device(to, from, n, stream);
}
int cuMemcpyDtoHAsync(void *to, void *from, size_t n, void *stream) {
  copies++;
  return to_host(to, from, n, stream);
}
int cuMemcpyDtoDAsync(void *to, void *from, size_t n, void *stream) {
  copies++;
  return within_device(to, from, n, stream);
}

/* Memory that other processes open. A handle leads to one allocation, and once that is freed nowhere.
   A real driver gives handles of smaller allocations, too, and with them the memory beside. */

struct handle { int process, file; size_t size; link_name link; };

int cuIpcGetMemHandle(struct handle *handle, void *memory) {
  IN_CONTEXT;
  struct range *found = around(memory);
  if (!found || found->begin != memory || found->kind != DEVICE || found->file < 0) return INVALID_VALUE;
  *handle = (struct handle){getpid(), found->file, found->size};
  strcpy(handle->link, found->link);
  return OK;
}

int cuIpcOpenMemHandle(void **memory, struct handle handle, unsigned flags) {
  IN_CONTEXT;
  if (handle.process == getpid()) return INVALID_CONTEXT;
  struct range new = {NULL, handle.size, OPENED, -1, 1};
  read_link(new.link, handle.process, handle.file);
  if (!*new.link || strcmp(new.link, handle.link)) return INVALID_VALUE;
  for (long n = 0; n < count; n++)
    if (ranges[n].kind == OPENED && !strcmp(ranges[n].link, new.link))
      return ranges[n].opens++, *memory = ranges[n].begin, OK;
  char path[64];
  path_of(path, handle.process, handle.file);
  int file = open(path, O_RDWR);
  if (file < 0) return INVALID_VALUE;
  *memory = new.begin = mapped(file, new.size);
  close(file);
  note(new);
  return OK;
}

int cuIpcCloseMemHandle(void *memory) {
  IN_CONTEXT;
  struct range *found = around(memory);
  if (!found || found->begin != memory || found->kind != OPENED) return INVALID_VALUE;
  if (--found->opens) return OK;
  munmap(memory, found->size);
  forget(found);
  return OK;
}

/* What a kernel does that is running: a wrong access is the answer to all later calls. */
void accessed(void *address, size_t bytes, size_t each) {
  if (later) return;
  if (!is_device(address, bytes)) later = ILLEGAL_ADDRESS;
  else if ((uintptr_t)address % each) later = MISALIGNED_ADDRESS;
}

int cuPointerGetAttribute(void *value, int attribute, void *pointer) {
  IF_OPEN;
  if (attribute == 2 || attribute == 9) *(int *)value = attribute == 2 ? 2 : 0; /* kind, device */
  else *(void **)value = attribute == 1 ? (void *)CONTEXT : pointer;
  return OK;
}

/* Streams and events */

enum { UNTIMED = 2 }; /* CU_EVENT_DISABLE_TIMING */
static struct moment { int is_timed; long ns; } *moments; /* of events; below 0: not recorded */

int cuStreamCreate(void **stream, unsigned flags) {
  IN_CONTEXT;
  *stream = made(&streams);
  ends = realloc(ends, streams.count * sizeof *ends);
  ends[streams.count - 1] = 0;
  return OK;
}

int cuStreamDestroy(void *stream) { IN_CONTEXT; return destroyed(&streams, stream); }
int cuStreamDestroy_v2(void *stream) { return cuStreamDestroy(stream); }

int cuStreamSynchronize(void *stream) {
  IN_CONTEXT;
  synchronizations++;
  if (!is_stream(stream)) return INVALID_HANDLE;
  spend(SYNCHRONIZE);
  wait_on_host(*end_of(stream));
  return OK;
}

int cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
  IN_CONTEXT;
  long n = number(&events, event);
  waits++;
  if (n < 0 || !is_stream(stream)) return INVALID_HANDLE;
  spend(STREAM_WAIT);
  *end_of(stream) = later_of(*end_of(stream), moments[n].ns);
  return OK;
}

int cuEventCreate(void **event, unsigned flags) {
  IN_CONTEXT;
  *event = made(&events);
  moments = realloc(moments, events.count * sizeof *moments);
  moments[events.count - 1] = (struct moment){!(flags & UNTIMED), -1};
  spend(flags & UNTIMED ? CREATE_UNTIMED : CREATE);
  return OK;
}

int cuEventDestroy(void *event) { IN_CONTEXT; return destroyed(&events, event); }
int cuEventDestroy_v2(void *event) { return cuEventDestroy(event); }

int cuEventRecord(void *event, void *stream) {
  IN_CONTEXT;
  long n = number(&events, event);
  if (n < 0 || !is_stream(stream)) return INVALID_HANDLE;
  marks++;
  spend(moments[n].is_timed ? RECORD : RECORD_UNTIMED);
  moments[n].ns = later_of(now(), *end_of(stream));
  return OK;
}

int cuEventQuery(void *event) {
  IN_CONTEXT;
  long n = number(&events, event);
  queries++;
  if (n < 0) return INVALID_HANDLE;
  spend(QUERY);
  return moments[n].ns > now() ? NOT_READY : OK;
}

int cuEventSynchronize(void *event) {
  IN_CONTEXT;
  long n = number(&events, event);
  synchronizations++;
  if (n < 0) return INVALID_HANDLE;
  spend(EVENT_WAIT);
  wait_on_host(moments[n].ns);
  return OK;
}

int cuEventElapsedTime(float *ms, void *begin, void *end) {
  IN_CONTEXT;
  long first = number(&events, begin), last = number(&events, end);
  if (first < 0 || last < 0) return INVALID_HANDLE;
  struct moment one = moments[first], other = moments[last];
  if (!one.is_timed || !other.is_timed || one.ns < 0 || other.ns < 0) return INVALID_HANDLE;
  spend(ELAPSED);
  if (later_of(one.ns, other.ns) > now()) return NOT_READY;
  *ms = (other.ns - one.ns) * 1e-6;
  return OK;
}

/* Kernels */

int cuModuleLoadDataEx(void **module, void *image) { IN_CONTEXT; return make(module); }
int cuModuleLoadData(void **module, void *image) { IN_CONTEXT; return make(module); }
int cuLibraryLoadData(void **library, void *code) { IF_OPEN; return make(library); }
int cuModuleGetFunction(void **function, void *module, char *name) { IN_CONTEXT; return make(function); }
int cuLibraryGetKernel(void **kernel, void *library, char *name) { IF_OPEN; return make(kernel); }
int cuKernelGetFunction(void **function, void *kernel) { IN_CONTEXT; *function = kernel; return OK; }
int cuLibraryGetModule(void **module, void *library) { IN_CONTEXT; *module = library; return OK; }

int cuFuncGetAttribute(int *value, int attribute, void *function) {
  IF_OPEN;
  *value = attribute ? 16 : 1024; /* 0: threads of a block */
  return OK;
}

int cuKernelGetAttribute(int *value, int attribute, void *kernel, int device) {
  return cuFuncGetAttribute(value, attribute, kernel);
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned x, unsigned y,
                   unsigned z, unsigned shared, void *stream, void *parameters, void *extra) {
  IN_CONTEXT;
  if (!function || !is_stream(stream)) return INVALID_HANDLE;
  launches++;
  last_launch[0] = function, last_launch[1] = stream, last_launch[2] = parameters;
  int grid = gx && gy && gz && gx <= 2147483647 && gy <= 65535 && gz <= 65535;
  int block = x && y && z && x <= 1024 && y <= 1024 && z <= 64 && (uint64_t)x * y * z <= 1024;
  if (!grid || !block || shared > 48 * KIB) return INVALID_VALUE;
  work(LAUNCH, 0, stream);
  return OK;
}

int cuLaunchKernelEx(unsigned *how, void *function) {
  return cuLaunchKernel(function, how[0], how[1], how[2], how[3], how[4], how[5], 0, NULL, NULL, NULL);
}

/* Errors, and functions by name */

static const struct { int error; char *name, *text; } answers[] = {
  {OK, "CUDA_SUCCESS", "no error"},
  {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
  {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
  {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
  {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
  {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
  {NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
  {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
  {MISALIGNED_ADDRESS, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
};

static int answer(int error, char **text, int is_name) {
  for (size_t n = 0; n < sizeof answers / sizeof *answers; n++)
    if (answers[n].error == error) return *text = is_name ? answers[n].name : answers[n].text, OK;
  return *text = NULL, INVALID_VALUE;
}

int cuGetErrorName(int error, char **text) { return answer(error, text, 1); }
int cuGetErrorString(int error, char **text) { return answer(error, text, 0); }

int cuGetProcAddress_v2(const char *name, void **address, int version, uint64_t flags, int *status) {
  Dl_info own;
  dladdr((void *)nothing, &own);
  void *library = dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  *address = dlsym(library, name);
  if (!*address) *address = (void *)nothing;
  if (status) *status = 0;
  return OK;
}
