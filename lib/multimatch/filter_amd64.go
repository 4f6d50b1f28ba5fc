package multimatch

import "golang.org/x/sys/cpu"

// vectors reports whether this processor has the instructions in filter_amd64.s.
var vectors = cpu.X86.HasAVX2

// siftAVX2 marks the candidates in n blocks of text, and reads ahead bytes after the last.
//
//go:noescape
func siftAVX2(m *marks, text *byte, n int, f *filters)
