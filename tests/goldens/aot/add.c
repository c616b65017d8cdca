#include "add.7419c65c_0d1d2d.h"

#include <stddef.h>
#include <stdlib.h>

extern int64_t add_7419c65c_0d1d2d_programs_from_to(const void *tt_launch, int64_t tt_begin, int64_t tt_end, void *tt_scratch);

enum { tt_scratch_bytes = 512 };

typedef union {
  const void *pointer;
  int64_t integer;
  float single;
  double real;
} tt_slot;

typedef struct {
  int32_t grid[3];
  int32_t unused;
  const void *listener;
  tt_slot slots[4];
} tt_record;

typedef struct {
  tt_record record;
  int64_t programs, parts;
  unsigned char *scratch;
} tt_launch;

static TT_ResultTy tt_fill(tt_record *tt_to, int64_t *tt_programs, TT_ConstPointer x_ptr, TT_ConstPointer y_ptr, TT_Pointer out_ptr, int32_t n) {
  const tt_record tt_nothing = {{0, 0, 0}, 0, NULL, {{NULL}}};
  const int64_t BLOCK = 128;
  const int64_t tt_x = (int64_t)(n / BLOCK + 1), tt_y = (int64_t)(1), tt_z = (int64_t)(1);
  const int64_t tt_most = INT32_MAX, tt_side = 65535;
#if defined(__x86_64__) && defined(__GNUC__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("sse4.2"))
    return TT_ERROR_NOT_SUPPORTED;
#endif
  if ((uintptr_t)x_ptr % 16 != 0)
    return TT_ERROR_INVALID_VALUE;
  if ((uintptr_t)y_ptr % 16 != 0)
    return TT_ERROR_INVALID_VALUE;
  if ((uintptr_t)out_ptr % 16 != 0)
    return TT_ERROR_INVALID_VALUE;
  if (tt_x < 0 || tt_x > tt_most || tt_y < 0 || tt_y > tt_side || tt_z < 0 || tt_z > tt_side)
    return TT_ERROR_INVALID_VALUE;
  *tt_programs = tt_x * tt_y;
  if (tt_z != 0 && *tt_programs > INT64_MAX / 2 / tt_z)
    return TT_ERROR_INVALID_VALUE;
  *tt_programs *= tt_z;
  *tt_to = tt_nothing;
  tt_to->grid[0] = (int32_t)tt_x;
  tt_to->grid[1] = (int32_t)tt_y;
  tt_to->grid[2] = (int32_t)tt_z;
  tt_to->slots[0].pointer = x_ptr;
  tt_to->slots[1].pointer = y_ptr;
  tt_to->slots[2].pointer = out_ptr;
  tt_to->slots[3].integer = n;
  return TT_SUCCESS;
}

static void tt_part(void *tt_all, int64_t tt_i) {
  const tt_launch *tt_this = (const tt_launch *)tt_all;
  const int64_t tt_each = tt_this->programs / tt_this->parts, tt_more = tt_this->programs % tt_this->parts;
  const int64_t tt_begin = tt_each * tt_i + (tt_i < tt_more ? tt_i : tt_more);
  const int64_t tt_end = tt_begin + tt_each + (tt_i < tt_more ? 1 : 0);
  add_7419c65c_0d1d2d_programs_from_to(&tt_this->record, tt_begin, tt_end, tt_this->scratch + tt_i * tt_scratch_bytes);
}

TT_ResultTy add_7419c65c_0d1d2d(TT_StreamTy tt_stream, TT_ConstPointer x_ptr, TT_ConstPointer y_ptr, TT_Pointer out_ptr, int32_t n) {
  tt_launch tt_this;
  void *tt_memory;
  int64_t tt_i;
  const TT_ResultTy tt_status = tt_fill(&tt_this.record, &tt_this.programs, x_ptr, y_ptr, out_ptr, n);
  if (tt_status != TT_SUCCESS || tt_this.programs == 0)
    return tt_status;
  tt_this.parts = tt_stream == NULL || tt_stream->parts < 1 ? 1 : tt_stream->parts;
  if (tt_this.parts > tt_this.programs)
    tt_this.parts = tt_this.programs;
  tt_memory = malloc((size_t)(tt_scratch_bytes * tt_this.parts + 64));
  if (tt_memory == NULL)
    return TT_ERROR_OUT_OF_MEMORY;
  tt_this.scratch = (unsigned char *)tt_memory + (64 - (uintptr_t)tt_memory % 64);
  if (tt_stream != NULL && tt_stream->run != NULL)
    tt_stream->run(tt_stream->pool, tt_this.parts, tt_part, &tt_this);
  else
    for (tt_i = 0; tt_i < tt_this.parts; ++tt_i)
      tt_part(&tt_this, tt_i);
  free(tt_memory);
  return TT_SUCCESS;
}

TT_ResultTy add_7419c65c_0d1d2d_range(int64_t tt_begin, int64_t tt_end, void *tt_scratch, TT_ConstPointer x_ptr, TT_ConstPointer y_ptr, TT_Pointer out_ptr, int32_t n) {
  tt_record tt_this;
  int64_t tt_programs;
  const TT_ResultTy tt_status = tt_fill(&tt_this, &tt_programs, x_ptr, y_ptr, out_ptr, n);
  if (tt_status != TT_SUCCESS)
    return tt_status;
  if (tt_begin < 0 || tt_end > tt_programs || (tt_scratch_bytes > 0 && (uintptr_t)tt_scratch % 64 != 0))
    return TT_ERROR_INVALID_VALUE;
  if (tt_begin < tt_end)
    add_7419c65c_0d1d2d_programs_from_to(&tt_this, tt_begin, tt_end, tt_scratch);
  return TT_SUCCESS;
}

int64_t add_7419c65c_0d1d2d_programs(TT_ConstPointer x_ptr, TT_ConstPointer y_ptr, TT_Pointer out_ptr, int32_t n) {
  tt_record tt_this;
  int64_t tt_programs;
  return tt_fill(&tt_this, &tt_programs, x_ptr, y_ptr, out_ptr, n) == TT_SUCCESS ? tt_programs : -1;
}

int64_t add_7419c65c_0d1d2d_scratch_bytes(void) { return tt_scratch_bytes; }
void load_add_7419c65c_0d1d2d(void) {}
void unload_add_7419c65c_0d1d2d(void) {}
