// Sizes that all share who compute or launch recurrent layers on CUDA: the kernels (ops/cuda/recurrent.cu, in
// front of which this file is put), the operators that launch them (state_operators.hpp), and ops/cuda/recurrent.py,
// which reads the lines `#define NAME number`.

#ifndef BRAID_STATE_SIZES
#define BRAID_STATE_SIZES

#define STATE_ROWS 4  // of a head's state, in the registers of a warp; its lanes share the numbers of a row
#define STATE_WARPS 8  // of a block
#define STATE_NARROW 128  // the most numbers in a row of a state, for kernels of either width
#define STATE_WIDEST 256
#define WRITTEN_ROWS 5  // where the rows that a sequence writes begin in its record

#endif
