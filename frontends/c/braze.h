/* Braze from C and everything that calls C: compile a program from its text, launch it on memory of your own.
 *
 *   braze_device* device;
 *   braze_executable* softmax;
 *   braze_compile_options options = BRAZE_COMPILE_OPTIONS;
 *   if (braze_device_open("cuda:0", &device) != BRAZE_OK) fail(braze_last_error());
 *   if (braze_compile(device, text, &options, &softmax) != BRAZE_OK) fail(braze_last_error());
 *
 *   void* addresses[] = {x, y};                      inputs, then outputs, in the order of the program
 *   void* workspace = allocate(braze_workspace_bytes(softmax));
 *   braze_launch(softmax, addresses, 2, workspace, stream);
 *
 * Status and errors. Functions that can fail return a braze_status; braze_last_error() has the text, which is
 * that of the C++ front end. When one fails its results are not written.
 *
 * Versions. The library's file name carries BRAZE_ABI_VERSION (libbraze.so.1), which changes when something
 * here changes its meaning. Structs begin with their size as the caller knows it, so that fields may be added
 * at their ends.
 *
 * Threads. Every function may be called from several threads at once, also on one object, but for those that
 * free it. A device may be freed before its executables.
 *
 * Tensors are dense and row-major. The simulator is a device whose memory is the host's and whose launches
 * have finished when they return. */
#ifndef BRAZE_H
#define BRAZE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BRAZE_ABI_VERSION 1

#if defined(__GNUC__)
#define BRAZE_API __attribute__((visibility("default")))
#else
#define BRAZE_API
#endif

typedef int32_t braze_status;
#define BRAZE_OK 0
#define BRAZE_ERROR 1          /* the program, the data or the options are wrong */
#define BRAZE_DEVICE_ERROR 2   /* no device, a driver that says no, a launch that failed */
#define BRAZE_INTERNAL_ERROR 3 /* a fault of Braze, or no memory left */

typedef int32_t braze_dtype;
#define BRAZE_F32 0
#define BRAZE_F16 1
#define BRAZE_BF16 2
#define BRAZE_F64 3
#define BRAZE_I32 4
#define BRAZE_I64 5
#define BRAZE_BOOL 6 /* a byte, 0 or 1 */

typedef struct braze_device braze_device;
typedef struct braze_executable braze_executable;

/* BRAZE_ABI_VERSION of the library, and its version as text, "0.1.0". */
BRAZE_API int32_t braze_abi_version(void);
BRAZE_API const char* braze_version(void);

/* Text of the last failure on this thread, "" before the first; valid until the next failure on this thread. */
BRAZE_API const char* braze_last_error(void);

/* ---- devices ---- */

/* By name: "cuda", "cuda:1", "sim", or "best", which is a GPU if there is one and else the simulator. A GPU
 * is used through its primary context, the one that the CUDA runtime, PyTorch and CuPy use. Opening it makes
 * a stream and a memory pool, so keep it. */
BRAZE_API braze_status braze_device_open(const char* name, braze_device** device);
BRAZE_API void braze_device_free(braze_device* device); /* NULL is allowed */

/* Texts are valid as long as the device. */
BRAZE_API const char* braze_device_kind(const braze_device* device); /* "cuda" or "sim" */
BRAZE_API const char* braze_device_name(const braze_device* device); /* "NVIDIA H200" */
BRAZE_API int32_t braze_device_ordinal(const braze_device* device);  /* 1 for "cuda:1"; 0 for the simulator */

/* ---- compiling ---- */

/* A named size of the program, `graph softmax(R = 4096)`, set to another value. */
typedef struct braze_size {
  const char* name;
  int64_t value;
} braze_size;

/* What is 0 or NULL has its default. */
typedef struct braze_compile_options {
  size_t struct_size;
  const char* file; /* name of the text in messages */
  const braze_size* sizes;
  size_t size_count;
  const char* schedule; /* by hand, see docs/schedules.md */
  const char* target;   /* "sm_90": compile for this one instead of the device's, only to be looked at */
  const char* const* disabled_passes;
  size_t disabled_pass_count;
  int32_t fast_math; /* 1: the GPU's approximate instructions, and contraction; see docs/numerics.md */
  /* In bytes, of all addresses given to launches: a power of two to 16, which is the default and the fastest. An
   * address is a multiple of the size of its elements besides. */
  int32_t alignment;
  /* 1: measure candidates of every kernel on the device and take the fastest; see docs/schedules.md. */
  int32_t tune;
} braze_compile_options;

/* A macro of C; in C++, and for other sizes, set the fields. */
#define BRAZE_COMPILE_OPTIONS \
  { sizeof(braze_compile_options), NULL, NULL, 0, NULL, NULL, NULL, 0, 0, 0, 0 }

/* Compiles `text`, a program in the form of .braze files. `options` may be NULL. `device` may be NULL when a
 * target is given: such an executable cannot be launched. */
BRAZE_API braze_status braze_compile(braze_device* device, const char* text,
                                     const braze_compile_options* options, braze_executable** executable);
BRAZE_API void braze_executable_free(braze_executable* executable); /* NULL is allowed; see braze_launch */

/* ---- looking ---- */

typedef struct braze_argument {
  size_t struct_size; /* set by the caller */
  const char* name;
  const int64_t* shape;
  const int64_t* strides; /* in elements */
  int64_t bytes;
  int32_t rank;
  braze_dtype dtype;
} braze_argument;

/* These and the numbers below are 0 of NULL. */
BRAZE_API size_t braze_input_count(const braze_executable* executable);
BRAZE_API size_t braze_output_count(const braze_executable* executable);
/* Of inputs, then outputs, in the order of the program. Pointers are valid as long as the executable. */
BRAZE_API braze_status braze_get_argument(const braze_executable* executable, size_t index,
                                          braze_argument* argument);

/* Each input read once and each output written once; what the kernels read and write; how many kernels. */
BRAZE_API int64_t braze_bytes_min(const braze_executable* executable);
BRAZE_API int64_t braze_bytes_total(const braze_executable* executable);
BRAZE_API int64_t braze_kernel_count(const braze_executable* executable);

/* Texts that the caller frees with braze_text_free: the kernels and the reason for each decision, as text or
 * as JSON (see docs/command-line.md), and a stage of the compiler: "graph", "simplified", "regions",
 * "schedule", "kernel", "llvm" or "ptx". */
BRAZE_API braze_status braze_explain(const braze_executable* executable, int32_t json, char** text);
BRAZE_API braze_status braze_dump(const braze_executable* executable, const char* stage, char** text);
BRAZE_API void braze_text_free(char* text); /* NULL is allowed */

/* ---- launching ---- */

/* Bytes of device memory that the temporaries of a launch take; 0 when there are none, and in the simulator. */
BRAZE_API int64_t braze_workspace_bytes(const braze_executable* executable);

/* Runs the program on `count` addresses of its device, inputs then outputs. They have the alignment that the
 * program was compiled for, and an output overlaps no other argument. `workspace` has braze_workspace_bytes()
 * at a multiple of 256, or is NULL when these are 0. `stream` is a CUstream or cudaStream_t of the device;
 * NULL is CUDA's default stream.
 *
 * On a GPU this queues the kernels and returns: it copies nothing, waits for nothing, allocates nothing and
 * takes no lock, and may be captured in a CUDA graph. Arguments, workspace and executable must exist until
 * the kernels have run, and as long as a graph that holds them. Launches that may run at the same time, on
 * several streams, need a workspace each; on one stream they may share it. */
BRAZE_API braze_status braze_launch(const braze_executable* executable, void* const* addresses, size_t count,
                                    void* workspace, void* stream);

#ifdef __cplusplus
}
#endif
#endif
