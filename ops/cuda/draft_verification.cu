// Decides which chosen tokens count.  Reference: ops/draft_verification.py.
#define NO_DRAFT_TOKEN -1
#define NO_TOKEN -1

// One thread per row: it steps back over accepted draft tokens, to the first row of its run if all were accepted.
extern "C" __global__ void __launch_bounds__(256)
    verify(const i64* tokens, const i64* draft_tokens, i64* verified, i64 count) {
    i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    i64 row = i;
    while (row > 0 && draft_tokens[row - 1] != NO_DRAFT_TOKEN && draft_tokens[row - 1] == tokens[row - 1]) row--;
    bool counts = row == 0 || draft_tokens[row - 1] == NO_DRAFT_TOKEN;
    verified[i] = counts ? tokens[i] : NO_TOKEN;
}
