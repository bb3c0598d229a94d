// Which chosen tokens count.  Reference: ops/draft_verification.py.
#define NO_GUESS -1
#define NO_TOKEN -1

// One thread per row: it walks back to the first row of its run, which is a few rows away, as long as guesses
// came true.
extern "C" __global__ void __launch_bounds__(256)
    verify(const i64* tokens, const i64* guesses, i64* verified, i64 count) {
    i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    i64 row = i;
    while (row > 0 && guesses[row - 1] != NO_GUESS && guesses[row - 1] == tokens[row - 1]) row--;
    bool counts = row == 0 || guesses[row - 1] == NO_GUESS;
    verified[i] = counts ? tokens[i] : NO_TOKEN;
}
