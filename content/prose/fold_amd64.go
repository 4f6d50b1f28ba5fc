package prose

import "golang.org/x/sys/cpu"

// vectors reports whether this processor has the instructions in fold_amd64.s.
var vectors = cpu.X86.HasSSSE3 && cpu.X86.HasPOPCNT
