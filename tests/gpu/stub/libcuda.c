/* An NVIDIA driver without a GPU: what it calls device memory is the host's, copies are made at once,
   and a launch looks at its grid and does nothing. Calls that are not here succeed and do nothing.
   What programs can be bounded by is counted: see tests/gpu_stub.py. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OK = 0, INVALID_VALUE = 1 };
enum { KIB = 1024, CONTEXT = 0x1000, FIRST_HANDLE = 0x2000 };

void *last_launch[3]; /* function, stream, places of parameters */
long launches, marks, waits, copies, synchronizations;
static long last_handle = FIRST_HANDLE;
static void *current;

static int nothing(void) { return OK; }

static int make(void **handle) {
  *handle = (void *)(last_handle += 16);
  return OK;
}

/* Device and context */

int cuInit(unsigned flags) { return OK; }
int cuDriverGetVersion(int *version) { *version = 13000; return OK; }
int cuDeviceGetCount(int *count) { *count = 1; return OK; }
int cuDeviceGet(int *device, int number) { *device = number; return OK; }
int cuDeviceGetName(char *name, int size, int device) { strncpy(name, "stub", size); return OK; }
int cuDeviceGetUuid(char *uuid, int device) { memset(uuid, 1, 16); return OK; }
int cuDeviceTotalMem(size_t *bytes, int device) { *bytes = 1ull << 34; return OK; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { return cuDeviceTotalMem(bytes, device); }

int cuDeviceGetAttribute(int *value, int attribute, int device) {
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

int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)CONTEXT; return OK; }
int cuCtxGetCurrent(void **context) { *context = current; return OK; }
int cuCtxSetCurrent(void *context) { current = context; return OK; }
int cuCtxPushCurrent(void *context) { current = context; return OK; }
int cuCtxPopCurrent(void **context) { *context = current; current = NULL; return OK; }
int cuCtxGetDevice(int *device) { *device = 0; return OK; }

/* Memory, streams and events */

int cuMemGetInfo(size_t *unused, size_t *all) { *unused = *all = 1ull << 34; return OK; }
int cuMemAlloc(void **memory, size_t bytes) { *memory = calloc(1, bytes + 1); return OK; }
int cuMemFree(void *memory) { free(memory); return OK; }
int cuMemHostAlloc(void **memory, size_t bytes) { return cuMemAlloc(memory, bytes); }
int cuMemFreeHost(void *memory) { return cuMemFree(memory); }
int cuMemsetD8Async(void *to, int byte, size_t n) { memset(to, byte, n); return OK; }

static int copy(void *to, void *from, size_t n) {
  copies++;
  memcpy(to, from, n);
  return OK;
}

int cuMemcpyHtoD(void *to, void *from, size_t n) { memcpy(to, from, n); return OK; }
int cuMemcpyDtoH(void *to, void *from, size_t n) { memcpy(to, from, n); return OK; }
int cuMemcpyDtoD(void *to, void *from, size_t n) { memcpy(to, from, n); return OK; }
int cuMemcpyHtoDAsync(void *to, void *from, size_t n) { return copy(to, from, n); }
int cuMemcpyDtoHAsync(void *to, void *from, size_t n) { return copy(to, from, n); }
int cuMemcpyDtoDAsync(void *to, void *from, size_t n) { return copy(to, from, n); }

int cuPointerGetAttribute(void *value, int attribute, void *pointer) {
  if (attribute == 2 || attribute == 9) *(int *)value = attribute == 2 ? 2 : 0; /* kind, device */
  else *(void **)value = attribute == 1 ? (void *)CONTEXT : pointer;
  return OK;
}

int cuStreamCreate(void **stream, unsigned flags) { return make(stream); }
int cuStreamSynchronize(void *stream) { synchronizations++; return OK; }
int cuStreamWaitEvent(void *stream, void *event, unsigned flags) { waits++; return OK; }
int cuEventSynchronize(void *event) { synchronizations++; return OK; }
int cuEventCreate(void **event, unsigned flags) { *event = calloc(1, sizeof(double)); return OK; }
int cuEventDestroy(void *event) { free(event); return OK; }

int cuEventRecord(double *event, void *stream) {
  struct timespec now;
  marks++;
  clock_gettime(CLOCK_MONOTONIC, &now);
  *event = now.tv_sec * 1e3 + now.tv_nsec * 1e-6;
  return OK;
}

int cuEventElapsedTime(float *ms, double *begin, double *end) { *ms = *end - *begin; return OK; }

/* Kernels */

int cuModuleLoadDataEx(void **module, void *image) { return make(module); }
int cuModuleLoadData(void **module, void *image) { return make(module); }
int cuLibraryLoadData(void **library, void *code) { return make(library); }
int cuModuleGetFunction(void **function, void *module, char *name) { return make(function); }
int cuLibraryGetKernel(void **kernel, void *library, char *name) { return make(kernel); }
int cuKernelGetFunction(void **function, void *kernel) { *function = kernel; return OK; }
int cuLibraryGetModule(void **module, void *library) { *module = library; return OK; }

int cuFuncGetAttribute(int *value, int attribute, void *function) {
  *value = attribute ? 16 : 1024; /* 0: threads of a block */
  return OK;
}

int cuKernelGetAttribute(int *value, int attribute, void *kernel, int device) {
  return cuFuncGetAttribute(value, attribute, kernel);
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned x, unsigned y,
                   unsigned z, unsigned shared, void *stream, void *parameters, void *extra) {
  launches++;
  last_launch[0] = function, last_launch[1] = stream, last_launch[2] = parameters;
  int fits = gx && gy && gz && gy <= 65535 && gz <= 65535 && x && y && z && x * y * z <= 1024;
  return fits ? OK : INVALID_VALUE;
}

int cuLaunchKernelEx(unsigned *how, void *function) {
  return cuLaunchKernel(function, how[0], how[1], how[2], how[3], how[4], how[5], 0, NULL, NULL, NULL);
}

int cuGetErrorName(int error, char **text) { *text = "STUB_ERROR"; return OK; }
int cuGetErrorString(int error, char **text) { *text = "refused by the stub driver"; return OK; }

int cuGetProcAddress_v2(const char *name, void **address, int version, uint64_t flags, int *status) {
  Dl_info own;
  dladdr((void *)nothing, &own);
  void *library = dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  *address = dlsym(library, name);
  if (!*address) *address = (void *)nothing;
  if (status) *status = 0;
  return OK;
}
