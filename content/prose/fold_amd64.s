#include "textflag.h"

DATA blank16<>+0(SB)/8, $0x2020202020202020
DATA blank16<>+8(SB)/8, $0x2020202020202020
GLOBL blank16<>(SB), RODATA|NOPTR, $16

DATA firstLetter16<>+0(SB)/8, $0x6161616161616161
DATA firstLetter16<>+8(SB)/8, $0x6161616161616161
GLOBL firstLetter16<>(SB), RODATA|NOPTR, $16

DATA letters16<>+0(SB)/8, $0x1919191919191919
DATA letters16<>+8(SB)/8, $0x1919191919191919
GLOBL letters16<>(SB), RODATA|NOPTR, $16

DATA firstDigit16<>+0(SB)/8, $0x3030303030303030
DATA firstDigit16<>+8(SB)/8, $0x3030303030303030
GLOBL firstDigit16<>(SB), RODATA|NOPTR, $16

DATA digits16<>+0(SB)/8, $0x0909090909090909
DATA digits16<>+8(SB)/8, $0x0909090909090909
GLOBL digits16<>(SB), RODATA|NOPTR, $16

// SQUEEZE writes the bytes of X3 that R11 has bits for, eight at a time.
#define SQUEEZE \
	MOVBLZX R11, BX; \
	MOVQ    (R8)(BX*8), X4; \
	MOVO    X3, X5; \
	PSHUFB  X4, X5; \
	MOVQ    X5, (DI); \
	POPCNTL BX, BX; \
	ADDQ    BX, DI; \
	SHRL    $8, R11; \
	MOVBLZX R11, BX; \
	MOVQ    (R8)(BX*8), X4; \
	PSRLO   $8, X3; \
	PSHUFB  X4, X3; \
	MOVQ    X3, (DI); \
	POPCNTL BX, BX; \
	ADDQ    BX, DI

// func foldSixteen(dst, src *byte, n int, stops *[4][16]byte, squeeze *[256]uint64, last byte) (used, made int)
TEXT ·foldSixteen(SB), NOSPLIT, $0-64
	MOVQ    dst+0(FP), DI
	MOVQ    src+8(FP), SI
	MOVQ    n+16(FP), CX
	MOVQ    stops+24(FP), DX
	MOVQ    squeeze+32(FP), R8
	MOVBLZX last+40(FP), AX
	XORL    R9, R9              // whether the last byte was a blank
	CMPL    AX, $0x20
	SETEQ   R9
	MOVOU   0(DX), X8
	MOVOU   16(DX), X9
	MOVOU   32(DX), X10
	MOVOU   48(DX), X11
	MOVOU   blank16<>(SB), X12
	MOVOU   firstLetter16<>(SB), X13
	MOVOU   letters16<>(SB), X14
	MOVOU   firstDigit16<>(SB), X6
	MOVOU   digits16<>(SB), X7

block:
	CMPQ CX, $16
	JLT  done

	// AX: stops and bytes that are not ASCII
	MOVOU    (SI), X0
	PMOVMSKB X0, BX
	MOVO     X0, X1
	PCMPEQB  X8, X1
	MOVO     X0, X2
	PCMPEQB  X9, X2
	POR      X2, X1
	MOVO     X0, X2
	PCMPEQB  X10, X2
	POR      X2, X1
	MOVO     X0, X2
	PCMPEQB  X11, X2
	POR      X2, X1
	PMOVMSKB X1, AX
	ORL      BX, AX

	// X5: letters and digits
	MOVO    X0, X3
	POR     X12, X3
	MOVO    X3, X4
	PSUBB   X13, X4
	MOVO    X4, X5
	PMINUB  X14, X5
	PCMPEQB X4, X5
	PSUBB   X6, X0
	MOVO    X0, X4
	PMINUB  X7, X4
	PCMPEQB X0, X4
	POR     X4, X5

	// R10: blanks; R11: bytes that are kept; X3: the result
	PMOVMSKB X5, R10
	XORL     $0xFFFF, R10
	LEAL     (R9)(R10*2), R11
	ANDL     R10, R11
	NOTL     R11
	PAND     X5, X3
	PANDN    X12, X5
	POR      X5, X3
	TESTL    AX, AX
	JNZ      stop
	MOVL     R10, R9
	SHRL     $15, R9

	SQUEEZE
	ADDQ    $16, SI
	SUBQ    $16, CX
	JMP     block

stop:
	BSFL    AX, CX
	ADDQ    CX, SI
	MOVL    $1, AX
	SHLL    CX, AX
	DECL    AX
	ANDL    AX, R11
	SQUEEZE

done:
	SUBQ src+8(FP), SI
	MOVQ SI, used+48(FP)
	SUBQ dst+0(FP), DI
	MOVQ DI, made+56(FP)
	RET
