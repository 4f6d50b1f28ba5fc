package prose

// vectors is true, as every arm64 processor has the instructions in fold_arm64.s.
const vectors = true
