// A CUDA driver without a GPU, for the tests of the loader: device memory is host memory, kernels do nothing.
// The environment says how it misbehaves:
//
//   FAKE_CUDA_INIT=34        what cuInit returns (34 is a stub library, 100 no device)
//   FAKE_CUDA_VERSION=12040  the CUDA version the driver supports
//   FAKE_CUDA_DEVICES=2      number of devices
//   FAKE_CUDA_SM=90          their compute capability
//   FAKE_CUDA_POOLS=0        they have no memory pools
//   FAKE_CUDA_MISSING=cuA,cuB  functions that cuGetProcAddress does not know
//   FAKE_CUDA_FAIL=cuA:700   functions that return an error
//
// fake_cuda_launches, fake_cuda_stream_of_last_launch and fake_cuda_grid_of_last_launch say what was launched, fake_cuda_modules
// how many modules are loaded. Two blocks of any kernel, and one cluster of any size, fit at a time.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { success = 0, invalid_value = 1, out_of_memory = 2, invalid_ptx = 218, not_found = 500 };

static int setting(const char* name, int otherwise) {
  const char* text = getenv(name);
  return text != NULL && *text != '\0' ? atoi(text) : otherwise;
}

// The entry "name" or "name:number" of a list separated by commas; NULL when it is not there.
static const char* entry(const char* variable, const char* name) {
  const char* at = getenv(variable);
  const size_t length = strlen(name);
  while (at != NULL && *at != '\0') {
    const size_t item = strcspn(at, ",");
    if (item >= length && strncmp(at, name, length) == 0 && (item == length || at[length] == ':'))
      return at + length;
    at += item;
    if (*at == ',') ++at;
  }
  return NULL;
}

static int outcome(const char* name) {
  const char* at = entry("FAKE_CUDA_FAIL", name);
  return at != NULL ? atoi(at + 1) : success;
}
#define FAIL_IF_TOLD()                  \
  do {                                  \
    const int told = outcome(__func__); \
    if (told != success) return told;   \
  } while (0)

int cuInit(unsigned flags) {
  (void)flags;
  return setting("FAKE_CUDA_INIT", success);
}
int cuDriverGetVersion(int* version) {
  *version = setting("FAKE_CUDA_VERSION", 12040);
  return success;
}

int cuGetErrorName(int error, const char** name) {
  static const struct {
    int error;
    const char* name;
  } names[] = {{1, "CUDA_ERROR_INVALID_VALUE"},     {2, "CUDA_ERROR_OUT_OF_MEMORY"},
               {218, "CUDA_ERROR_INVALID_PTX"},     {500, "CUDA_ERROR_NOT_FOUND"},
               {700, "CUDA_ERROR_ILLEGAL_ADDRESS"}, {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"}};
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
    if (names[i].error != error) continue;
    *name = names[i].name;
    return success;
  }
  return invalid_value;
}
int cuGetErrorString(int error, const char** text) {
  (void)error;
  *text = "as told";
  return success;
}

int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return success;
}
int cuDeviceGetCount(int* count) {
  *count = setting("FAKE_CUDA_DEVICES", 1);
  return success;
}
int cuDeviceGetName(char* name, int length, int device) {
  snprintf(name, (size_t)length, "Fake GPU %d", device);
  return success;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  (void)device;
  switch (attribute) {
    case 1: *value = 1024; return success;      // threads a block
    case 12: *value = 65536; return success;    // registers a block
    case 16: *value = 10; return success;       // multiprocessors
    case 36: *value = 1000000; return success;  // memory clock, kHz
    case 37: *value = 512; return success;      // memory bus, bits
    case 38: *value = 4 << 20; return success;  // L2
    case 39: *value = 1536; return success;     // threads a multiprocessor
    case 75: *value = setting("FAKE_CUDA_SM", 90) / 10; return success;
    case 76: *value = setting("FAKE_CUDA_SM", 90) % 10; return success;
    case 81: *value = 100 << 10; return success;  // shared memory a multiprocessor
    case 82: *value = 65536; return success;      // registers a multiprocessor
    case 97: *value = 99 << 10; return success;   // shared memory a block, opt-in
    case 106: *value = 24; return success;        // blocks a multiprocessor
    case 115: *value = setting("FAKE_CUDA_POOLS", 1); return success;
    case 120: *value = 1; return success;
    default: return invalid_value;
  }
}

// Contexts form a stack; memory and streams may be used only while one is current.
static int current_contexts = 0;
int cuDevicePrimaryCtxRetain(void** context, int device) {
  (void)device;
  *context = &current_contexts;
  return success;
}
int cuDevicePrimaryCtxRelease(int device) {
  (void)device;
  return success;
}
int cuCtxPushCurrent(void* context) {
  (void)context;
  ++current_contexts;
  return success;
}
int cuCtxPopCurrent(void** context) {
  *context = &current_contexts;
  return --current_contexts >= 0 ? success : invalid_value;
}

long fake_cuda_modules = 0;
int cuModuleLoadDataEx(void** module, const void* image, unsigned count, const int* options, void** values) {
  if (strstr(image, ".version") == NULL) {
    for (unsigned i = 0; i < count; ++i) {
      if (options[i] == 5) strcpy(values[i], "ptxas: syntax error");
    }
    return invalid_ptx;
  }
  FAIL_IF_TOLD();
  *module = malloc(1);
  ++fake_cuda_modules;
  return success;
}
int cuModuleUnload(void* module) {
  free(module);
  --fake_cuda_modules;
  return success;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  if (strcmp(name, "missing") == 0) return not_found;
  *function = module;
  return success;
}
int cuFuncSetAttribute(void* function, int attribute, int value) {
  (void)function, (void)attribute, (void)value;
  FAIL_IF_TOLD();
  return success;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* function, int block, size_t shared) {
  (void)function, (void)block, (void)shared;
  *blocks = 2;
  FAIL_IF_TOLD();
  return success;
}
int cuOccupancyMaxActiveClusters(int* clusters, void* function, const void* config) {
  (void)function, (void)config;
  *clusters = 1;
  FAIL_IF_TOLD();
  return success;
}
long fake_cuda_launches = 0;
void* fake_cuda_stream_of_last_launch = NULL;
unsigned fake_cuda_grid_of_last_launch = 0;
int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void* stream, void** arguments, void** extra) {
  (void)function, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared;
  (void)arguments, (void)extra;
  FAIL_IF_TOLD();
  ++fake_cuda_launches;
  fake_cuda_stream_of_last_launch = stream;
  fake_cuda_grid_of_last_launch = gx;
  return success;
}
int cuLaunchCooperativeKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                              unsigned bz, unsigned shared, void* stream, void** arguments) {
  return cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, arguments, NULL);
}

int cuMemAlloc(uint64_t* address, size_t bytes) {
  FAIL_IF_TOLD();
  if (current_contexts <= 0) return invalid_value;
  *address = (uint64_t)(uintptr_t)aligned_alloc(256, (bytes + 255) / 256 * 256);
  return *address != 0 ? success : out_of_memory;
}
int cuMemFree(uint64_t address) {
  free((void*)(uintptr_t)address);
  return success;
}
int cuMemcpyHtoDAsync(uint64_t to, const void* from, size_t bytes, void* stream) {
  (void)stream;
  memcpy((void*)(uintptr_t)to, from, bytes);
  return success;
}
int cuMemcpyDtoHAsync(void* to, uint64_t from, size_t bytes, void* stream) {
  (void)stream;
  memcpy(to, (const void*)(uintptr_t)from, bytes);
  return success;
}
int cuMemsetD8Async(uint64_t to, unsigned char byte, size_t bytes, void* stream) {
  (void)stream;
  memset((void*)(uintptr_t)to, byte, bytes);
  return success;
}

int cuMemPoolCreate(void** pool, const void* props) {
  (void)props;
  *pool = malloc(1);
  return success;
}
int cuMemPoolDestroy(void* pool) {
  free(pool);
  return success;
}
int cuMemPoolSetAttribute(void* pool, int attribute, void* value) {
  (void)pool, (void)attribute, (void)value;
  return success;
}
int cuMemAllocFromPoolAsync(uint64_t* address, size_t bytes, void* pool, void* stream) {
  (void)pool, (void)stream;
  FAIL_IF_TOLD();
  return cuMemAlloc(address, bytes);
}
int cuMemFreeAsync(uint64_t address, void* stream) {
  (void)stream;
  return cuMemFree(address);
}

int cuStreamCreate(void** stream, unsigned flags) {
  (void)flags;
  *stream = malloc(1);
  return success;
}
int cuStreamDestroy(void* stream) {
  free(stream);
  return success;
}
int cuStreamSynchronize(void* stream) {
  (void)stream;
  FAIL_IF_TOLD();
  return success;
}
int cuStreamWaitEvent(void* stream, void* event, unsigned flags) {
  (void)stream, (void)flags;
  return event != NULL ? success : invalid_value;
}
int cuEventCreate(void** event, unsigned flags) {
  (void)flags;
  *event = malloc(1);
  return success;
}
int cuEventDestroy(void* event) {
  free(event);
  return success;
}
int cuEventRecord(void* event, void* stream) {
  (void)event, (void)stream;
  return success;
}
int cuEventElapsedTime(float* milliseconds, void* start, void* stop) {
  (void)start, (void)stop;
  *milliseconds = 0.25f;
  return success;
}

int cuGetProcAddress(const char* name, void** function, int version, uint64_t flags) {
  (void)version, (void)flags;
#define KNOWN(f) \
  { #f, (void*)(uintptr_t)f }
  static const struct {
    const char* name;
    void* function;
  } known[] = {
      KNOWN(cuGetErrorName),
      KNOWN(cuGetErrorString),
      KNOWN(cuDeviceGet),
      KNOWN(cuDeviceGetCount),
      KNOWN(cuDeviceGetName),
      KNOWN(cuDeviceGetAttribute),
      KNOWN(cuDevicePrimaryCtxRetain),
      KNOWN(cuDevicePrimaryCtxRelease),
      KNOWN(cuCtxPushCurrent),
      KNOWN(cuCtxPopCurrent),
      KNOWN(cuModuleLoadDataEx),
      KNOWN(cuModuleUnload),
      KNOWN(cuModuleGetFunction),
      KNOWN(cuFuncSetAttribute),
      KNOWN(cuOccupancyMaxActiveBlocksPerMultiprocessor),
      KNOWN(cuOccupancyMaxActiveClusters),
      KNOWN(cuLaunchKernel),
      KNOWN(cuLaunchCooperativeKernel),
      KNOWN(cuMemAlloc),
      KNOWN(cuMemFree),
      KNOWN(cuMemcpyHtoDAsync),
      KNOWN(cuMemcpyDtoHAsync),
      KNOWN(cuMemsetD8Async),
      KNOWN(cuMemPoolCreate),
      KNOWN(cuMemPoolDestroy),
      KNOWN(cuMemPoolSetAttribute),
      KNOWN(cuMemAllocFromPoolAsync),
      KNOWN(cuMemFreeAsync),
      KNOWN(cuStreamCreate),
      KNOWN(cuStreamDestroy),
      KNOWN(cuStreamSynchronize),
      KNOWN(cuStreamWaitEvent),
      KNOWN(cuEventCreate),
      KNOWN(cuEventDestroy),
      KNOWN(cuEventRecord),
      KNOWN(cuEventElapsedTime),
  };
  for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); ++i) {
    if (strcmp(known[i].name, name) != 0 || entry("FAKE_CUDA_MISSING", name) != NULL) continue;
    *function = known[i].function;
    return success;
  }
  *function = NULL;
  return not_found;
}
