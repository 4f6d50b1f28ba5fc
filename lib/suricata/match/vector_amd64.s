#include "textflag.h"

// FOUR sets four elements of dst, from n on, to the values of four hashes.
#define FOUR(at, n, src, dst) \
	MOVQ    at(R12), AX; \
	MOVWLZX AX, R9; \
	SHRQ    $16, AX; \
	MOVWLZX AX, R10; \
	SHRQ    $16, AX; \
	MOVWLZX AX, R11; \
	SHRQ    $16, AX; \
	VPINSRW $(n+0), (DX)(R9*2), src, dst; \
	VPINSRW $(n+1), (DX)(R10*2), dst, dst; \
	VPINSRW $(n+2), (DX)(R11*2), dst, dst; \
	VPINSRW $(n+3), (DX)(AX*2), dst, dst

// func sieveAVX2(data *byte, blocks int, groups *uint16, mask int, values *uint16, out *uint64) (n int)
TEXT ·sieveAVX2(SB), NOSPLIT, $0-56
	MOVQ         data+0(FP), SI
	MOVQ         blocks+8(FP), CX
	MOVQ         groups+16(FP), DX
	MOVQ         mask+24(FP), AX
	VMOVD        AX, X13
	VPBROADCASTW X13, Y13
	MOVQ         values+32(FP), R12
	MOVQ         out+40(FP), DI
	MOVL         $0x1fdfdf1f, AX
	VMOVD        AX, X15
	VPBROADCASTD X15, Y15
	MOVL         $0x9E3779B1, AX
	VMOVD        AX, X14
	VPBROADCASTD X14, Y14
	VPXOR        Y12, Y12, Y12
	VPINSRW      $7, (R12), X12, X5
	ADDQ         $2, R12

	// The hashes of places 0, 2, 4 … of each block. Loads of values one by one are faster than
	// VPGATHERDD.
	MOVQ CX, R8
	MOVQ R12, R10

hash:
	VMOVDQU  (SI), Y0
	VMOVDQU  2(SI), Y1
	VPAND    Y15, Y0, Y0
	VPAND    Y15, Y1, Y1
	VPMULLD  Y14, Y0, Y0
	VPMULLD  Y14, Y1, Y1
	VPSRLD   $16, Y0, Y0
	VPBLENDW $0xaa, Y1, Y0, Y0
	VPAND    Y13, Y0, Y0
	VMOVDQU  Y0, (R10)
	ADDQ     $32, SI
	ADDQ     $32, R10
	DECQ     R8
	JNZ      hash

	XORQ BX, BX
	XORQ R8, R8

value:
	FOUR(0, 0, X12, X0)
	FOUR(8, 4, X0, X0)
	FOUR(16, 0, X12, X1)
	FOUR(24, 4, X1, X1)
	VMOVDQU  X0, (R12)
	VMOVDQU  X1, 16(R12)
	ADDQ     $32, R12

	// The first run of a pattern at a place, the second two bytes after.
	VPALIGNR  $14, X5, X0, X2
	VPALIGNR  $14, X0, X1, X3
	VMOVDQA   X1, X5
	VPSRLW    $8, X0, X0
	VPSRLW    $8, X1, X1
	VPAND     X2, X0, X0
	VPAND     X3, X1, X1
	VPACKUSWB X1, X0, X0
	VPCMPEQB  X12, X0, X0
	VPMOVMSKB X0, AX
	XORL      $0xffff, AX
	MOVQ      BX, R10
	SHLQ      $32, R10
	ORQ       AX, R10
	MOVQ      R10, (DI)(R8*8)
	CMPL      AX, $1          // an entry without a place is written over
	SBBQ      $-1, R8
	ADDQ      $32, BX
	DECQ      CX
	JNZ       value
	MOVQ      R8, n+48(FP)
	VZEROUPPER
	RET

// func indexTwoAVX2(first, second *byte, blocks int, x, y uint8) int
TEXT ·indexTwoAVX2(SB), NOSPLIT, $0-40
	MOVQ         first+0(FP), SI
	MOVQ         second+8(FP), DI
	MOVQ         blocks+16(FP), CX
	VPBROADCASTB x+24(FP), Y1
	VPBROADCASTB y+25(FP), Y2
	MOVL         $0x20, AX
	VMOVD        AX, X3
	VPBROADCASTB X3, Y3
	XORQ         BX, BX

next:
	VPOR      (SI)(BX*1), Y3, Y4
	VPOR      (DI)(BX*1), Y3, Y5
	VPCMPEQB  Y1, Y4, Y4
	VPCMPEQB  Y2, Y5, Y5
	VPAND     Y4, Y5, Y4
	VPMOVMSKB Y4, AX
	TESTL     AX, AX
	JNZ       found
	ADDQ      $32, BX
	DECQ      CX
	JNZ       next
	MOVQ      BX, ret+32(FP)
	VZEROUPPER
	RET

found:
	BSFL AX, AX
	ADDQ AX, BX
	MOVQ BX, ret+32(FP)
	VZEROUPPER
	RET
