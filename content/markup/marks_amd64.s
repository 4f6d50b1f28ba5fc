#include "textflag.h"

DATA lowHalves<>+0(SB)/8, $0x0F0F0F0F0F0F0F0F
DATA lowHalves<>+8(SB)/8, $0x0F0F0F0F0F0F0F0F
GLOBL lowHalves<>(SB), RODATA|NOPTR, $16

// OTHERS puts a bit into to for each of the sixteen bytes at SI that is no mark. Of bytes that are
// not ASCII, the first shuffle makes zero.
#define OTHERS(at, to) \
	MOVOU    at(SI), X0; \
	MOVO     X8, X1; \
	PSHUFB   X0, X1; \
	PSRLW    $4, X0; \
	PAND     X10, X0; \
	MOVO     X9, X2; \
	PSHUFB   X0, X2; \
	PAND     X2, X1; \
	PCMPEQB  X11, X1; \
	PMOVMSKB X1, to

// func findMarks(found *uint64, p *byte, n int, of *nibbles)
TEXT ·findMarks(SB), NOSPLIT, $0-32
	MOVQ  found+0(FP), DI
	MOVQ  p+8(FP), SI
	MOVQ  n+16(FP), CX
	MOVQ  of+24(FP), DX
	MOVOU 0(DX), X8
	MOVOU 16(DX), X9
	MOVOU lowHalves<>(SB), X10
	PXOR  X11, X11

word:
	OTHERS(0, AX)
	OTHERS(16, BX)
	OTHERS(32, DX)
	OTHERS(48, R8)
	SHLL $16, BX
	ORL  BX, AX
	SHLL $16, R8
	ORL  R8, DX
	SHLQ $32, DX
	ORQ  DX, AX
	NOTQ AX
	MOVQ AX, (DI)
	ADDQ $64, SI
	ADDQ $8, DI
	DECQ CX
	JNZ  word
	RET
