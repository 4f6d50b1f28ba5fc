#include "textflag.h"

DATA powers<>+0(SB)/8, $0x8040201008040201
DATA powers<>+8(SB)/8, $0x8040201008040201
GLOBL powers<>(SB), RODATA|NOPTR, $16

// NEAR sets four bytes of dst, every second one from n on, to those of the filter that the
// indices at "at" select.
#define NEAR(at, n, dst) \
	MOVQ    at(SP), AX; \
	MOVWLZX AX, R9; \
	SHRQ    $16, AX; \
	MOVWLZX AX, R10; \
	SHRQ    $16, AX; \
	MOVWLZX AX, R11; \
	SHRQ    $16, AX; \
	VPINSRB $(n+0), (DX)(R9*1), dst, dst; \
	VPINSRB $(n+2), (DX)(R10*1), dst, dst; \
	VPINSRB $(n+4), (DX)(R11*1), dst, dst; \
	VPINSRB $(n+6), (DX)(AX*1), dst, dst

// FAR sets dst to four words of the filter.
#define FAR(at, dst) \
	MOVQ    at(SP), AX; \
	MOVQ    (at+8)(SP), R10; \
	MOVL    AX, R9; \
	SHRQ    $32, AX; \
	MOVL    R10, R11; \
	SHRQ    $32, R10; \
	VMOVD   (R12)(R9*4), dst; \
	VPINSRD $1, (R12)(AX*4), dst, dst; \
	VPINSRD $2, (R12)(R11*4), dst, dst; \
	VPINSRD $3, (R12)(R10*4), dst, dst

// BITS sets the lowest bit of each element of words to that of both bits that hash selects.
#define BITS(hash, words, t) \
	VPSRLD  $13, hash, t; \
	VPAND   Y7, t, t; \
	VPSRLVD t, words, t; \
	VPSRLD  $8, hash, hash; \
	VPAND   Y7, hash, hash; \
	VPSRLVD hash, words, words; \
	VPAND   t, words, words; \
	VPAND   Y6, words, words

// func siftAVX2(m *marks, text *byte, n int, f *filters)
TEXT ·siftAVX2(SB), NOSPLIT, $128-32
	MOVQ         m+0(FP), DI
	MOVQ         text+8(FP), SI
	MOVQ         n+16(FP), CX
	MOVQ         f+24(FP), DX
	LEAQ         65536(DX), R12
	MOVL         $0x9E379E37, AX
	VMOVD        AX, X15
	VPBROADCASTD X15, Y15
	MOVL         $0xFFE0FFE0, AX
	VMOVD        AX, X14
	VPBROADCASTD X14, Y14
	MOVL         $0x001F001F, AX
	VMOVD        AX, X13
	VPBROADCASTD X13, Y13
	MOVL         $0x07070707, AX
	VMOVD        AX, X12
	VPBROADCASTD X12, Y12
	VBROADCASTI128 powers<>(SB), Y11
	VPXOR        Y10, Y10, Y10
	MOVL         $0x9E3779B1, AX
	VMOVD        AX, X9
	VPBROADCASTD X9, Y9
	MOVL         $0x85EBCA77, AX
	VMOVD        AX, X8
	VPBROADCASTD X8, Y8
	MOVL         $31, AX
	VMOVD        AX, X7
	VPBROADCASTD X7, Y7
	MOVL         $1, AX
	VMOVD        AX, X6
	VPBROADCASTD X6, Y6

block:
	// Indices of the bytes for windows at even and at odd positions.
	VPMULLW (SI), Y15, Y0
	VPAND   Y14, Y0, Y0
	VPAND   2(SI), Y13, Y1
	VPOR    Y1, Y0, Y0
	VMOVDQU Y0, 0(SP)
	VPMULLW 1(SI), Y15, Y2
	VPAND   Y14, Y2, Y2
	VPAND   3(SI), Y13, Y3
	VPOR    Y3, Y2, Y2
	VMOVDQU Y2, 32(SP)

	// Hashes of six bytes at positions 0, 4, 8 … and 2, 6, 10 …, and indices of their words.
	VMOVDQU 2(SI), Y1
	VPMULLD (SI), Y9, Y4
	VPMULLD Y1, Y8, Y0
	VPADDD  Y0, Y4, Y4
	VPMULLD Y1, Y9, Y5
	VPMULLD 4(SI), Y8, Y0
	VPADDD  Y0, Y5, Y5
	VPSRLD  $18, Y4, Y0
	VMOVDQU Y0, 64(SP)
	VPSRLD  $18, Y5, Y0
	VMOVDQU Y0, 96(SP)

	VPXOR       X0, X0, X0
	VPXOR       X1, X1, X1
	NEAR(0, 0, X0)
	NEAR(16, 0, X1)
	NEAR(8, 8, X0)
	NEAR(24, 8, X1)
	NEAR(32, 1, X0)
	NEAR(48, 1, X1)
	NEAR(40, 9, X0)
	NEAR(56, 9, X1)
	VINSERTI128 $1, X1, Y0, Y0
	VPAND       3(SI), Y12, Y1
	VPSHUFB     Y1, Y11, Y1
	VPAND       Y1, Y0, Y0
	VPCMPEQB    Y10, Y0, Y0
	VPMOVMSKB   Y0, AX
	NOTL        AX
	MOVL        AX, (DI)

	FAR(64, X0)
	FAR(80, X1)
	VINSERTI128 $1, X1, Y0, Y0
	FAR(96, X2)
	FAR(112, X3)
	VINSERTI128 $1, X3, Y2, Y2
	BITS(Y4, Y0, Y1)
	BITS(Y5, Y2, Y3)
	VPSLLD      $7, Y0, Y0
	VPSLLD      $23, Y2, Y2
	VPOR        Y2, Y0, Y0
	VPMOVMSKB   Y0, AX
	MOVL        AX, 4(DI)

	ADDQ $32, SI
	ADDQ $8, DI
	DECQ CX
	JNZ  block
	VZEROUPPER
	RET
