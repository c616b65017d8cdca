#include "linked.h"

TT_ResultTy add_7419c65c_0d1d2d(TT_StreamTy tt_stream, TT_ConstPointer x_ptr, TT_ConstPointer y_ptr, TT_Pointer out_ptr, int32_t n);

TT_ResultTy add_b08a1715_(TT_StreamTy tt_stream, TT_ConstPointer x_ptr, TT_ConstPointer y_ptr, TT_Pointer out_ptr, int32_t n);
void load_add_7419c65c_0d1d2d(void);
void unload_add_7419c65c_0d1d2d(void);
void load_add_b08a1715_(void);
void unload_add_b08a1715_(void);

TT_ResultTy add_128_warps1xstages3(TT_StreamTy tt_stream, TT_ConstPointer x_ptr, TT_ConstPointer y_ptr, TT_Pointer out_ptr, int32_t n) {
  TT_ResultTy tt_status = TT_ERROR_INVALID_VALUE;
  if ((uintptr_t)x_ptr % 16 == 0 && (uintptr_t)y_ptr % 16 == 0 && (uintptr_t)out_ptr % 16 == 0) {
    tt_status = add_7419c65c_0d1d2d(tt_stream, x_ptr, y_ptr, out_ptr, n);
    if (tt_status != TT_ERROR_NOT_SUPPORTED)
      return tt_status;
  }
  if (1) {
    tt_status = add_b08a1715_(tt_stream, x_ptr, y_ptr, out_ptr, n);
    if (tt_status != TT_ERROR_NOT_SUPPORTED)
      return tt_status;
  }
  return tt_status;
}
void load_add_128_warps1xstages3(void) {
  load_add_7419c65c_0d1d2d();
  load_add_b08a1715_();
}
void unload_add_128_warps1xstages3(void) {
  unload_add_7419c65c_0d1d2d();
  unload_add_b08a1715_();
}

typedef TT_ResultTy (*tt_add_launch)(TT_StreamTy tt_stream, TT_ConstPointer x_ptr, TT_ConstPointer y_ptr, TT_Pointer out_ptr, int32_t n);
static const tt_add_launch tt_add_algorithms[] = {
  add_128_warps1xstages3,
};

int add_get_num_algos(void) { return 1; }

TT_ResultTy add(TT_StreamTy tt_stream, TT_ConstPointer x_ptr, TT_ConstPointer y_ptr, TT_Pointer out_ptr, int32_t n, int tt_algorithm) {
  if (tt_algorithm < 0 || tt_algorithm >= 1)
    return TT_ERROR_INVALID_VALUE;
  return tt_add_algorithms[tt_algorithm](tt_stream, x_ptr, y_ptr, out_ptr, n);
}

TT_ResultTy add_default(TT_StreamTy tt_stream, TT_ConstPointer x_ptr, TT_ConstPointer y_ptr, TT_Pointer out_ptr, int32_t n) { return add(tt_stream, x_ptr, y_ptr, out_ptr, n, 0); }
void load_add(void) {
  load_add_128_warps1xstages3();
}
void unload_add(void) {
  unload_add_128_warps1xstages3();
}
