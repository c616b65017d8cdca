#ifndef TT_LINKED_LINKED_H
#define TT_LINKED_LINKED_H

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

/* add with the constants of one algorithm: */
TT_ResultTy add_128_warps1xstages3(TT_StreamTy tt_stream, TT_ConstPointer x_ptr, TT_ConstPointer y_ptr, TT_Pointer out_ptr, int32_t n);
void load_add_128_warps1xstages3(void);
void unload_add_128_warps1xstages3(void);
/* With algorithm 0, and with any one below add_get_num_algos(): */
TT_ResultTy add_default(TT_StreamTy tt_stream, TT_ConstPointer x_ptr, TT_ConstPointer y_ptr, TT_Pointer out_ptr, int32_t n);
TT_ResultTy add(TT_StreamTy tt_stream, TT_ConstPointer x_ptr, TT_ConstPointer y_ptr, TT_Pointer out_ptr, int32_t n, int tt_algorithm);
int add_get_num_algos(void);
void load_add(void);
void unload_add(void);

#ifdef __cplusplus
}
#endif
#endif
