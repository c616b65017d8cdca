/* The kernel add: *fp32:16, *fp32:16, *fp32:16, i32, BLOCK=128; for haswell, x86_64-unknown-linux-gnu
   Link with add.7419c65c_0d1d2d.kernel.o. */
#ifndef TT_ADD_7419C65C_0D1D2D_H
#define TT_ADD_7419C65C_0D1D2D_H

#ifndef TILEWRIGHT_LAUNCH_H
#define TILEWRIGHT_LAUNCH_H
#include <stdint.h>

typedef int TT_ResultTy;
enum {
  TT_SUCCESS = 0,
  TT_ERROR_INVALID_VALUE = 1, /* an argument, or the grid, is not what the kernel was compiled for */
  TT_ERROR_OUT_OF_MEMORY = 2, /* no scratch memory */
  TT_ERROR_NOT_SUPPORTED = 3  /* this CPU lacks instructions that the kernel uses */
};
typedef void *TT_Pointer;
typedef const void *TT_ConstPointer;

/* How a grid is divided. `run` calls part(launch, i) for each i below `parts`, on any threads, starting them in order,
   and returns when all are done. A null pointer stands for one part on the caller's thread. */
typedef struct {
  int64_t parts;
  void (*run)(void *pool, int64_t parts, void (*part)(void *launch, int64_t i), void *launch);
  void *pool;
} TT_Stream;
typedef const TT_Stream *TT_StreamTy;
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Run all programs of the grid (n / BLOCK + 1, 1, 1). */
TT_ResultTy add_7419c65c_0d1d2d(TT_StreamTy tt_stream, TT_ConstPointer x_ptr, TT_ConstPointer y_ptr, TT_Pointer out_ptr, int32_t n);

/* The same for programs tt_begin to tt_end - 1 of add_7419c65c_0d1d2d_programs(), on this thread, with add_7419c65c_0d1d2d_scratch_bytes()
   bytes of scratch memory at a multiple of 64. */
TT_ResultTy add_7419c65c_0d1d2d_range(int64_t tt_begin, int64_t tt_end, void *tt_scratch, TT_ConstPointer x_ptr, TT_ConstPointer y_ptr, TT_Pointer out_ptr, int32_t n);
int64_t add_7419c65c_0d1d2d_programs(TT_ConstPointer x_ptr, TT_ConstPointer y_ptr, TT_Pointer out_ptr, int32_t n);
int64_t add_7419c65c_0d1d2d_scratch_bytes(void);

/* Nothing to do on a CPU; there for programs that also run on GPUs. */
void load_add_7419c65c_0d1d2d(void);
void unload_add_7419c65c_0d1d2d(void);

#ifdef __cplusplus
}
#endif
#endif
// tilewright-features: 13
// tt-linker: add_7419c65c_0d1d2d:TT_ConstPointer x_ptr, TT_ConstPointer y_ptr, TT_Pointer out_ptr, int32_t n:128_warps1xstages3
// tt-linker-backend: cpu
