#include "textflag.h"

// func sieveAVX2(data *byte, blocks int, groups *uint16, before uint32, out *uint64) (n int)
TEXT ·sieveAVX2(SB), NOSPLIT, $0-48
	MOVQ         data+0(FP), SI
	MOVQ         blocks+8(FP), CX
	MOVQ         groups+16(FP), DX
	MOVL         before+24(FP), AX
	MOVQ         out+32(FP), DI
	VMOVD        AX, X10
	VPBROADCASTD X10, Y10
	MOVL         $0x1fdfdf1f, AX
	VMOVD        AX, X15
	VPBROADCASTD X15, Y15
	MOVL         $0x9E3779B1, AX
	VMOVD        AX, X14
	VPBROADCASTD X14, Y14
	MOVL         $0xff, AX
	VMOVD        AX, X13
	VPBROADCASTD X13, Y13
	VPXOR        Y12, Y12, Y12
	XORQ         BX, BX
	XORQ         R8, R8

block:
	// Y3: the groups of places 0, 4, 8 …; Y5: of places 2, 6, 10 …
	VMOVDQU    (SI), Y0
	VMOVDQU    2(SI), Y1
	VPAND      Y15, Y0, Y0
	VPAND      Y15, Y1, Y1
	VPMULLD    Y14, Y0, Y0
	VPMULLD    Y14, Y1, Y1
	VPSRLD     $16, Y0, Y0
	VPSRLD     $16, Y1, Y1
	VPCMPEQD   Y2, Y2, Y2
	VPCMPEQD   Y4, Y4, Y4
	VPGATHERDD Y2, (DX)(Y0*2), Y3
	VPGATHERDD Y4, (DX)(Y1*2), Y5

	// Y7: of places -2, 2, 6 …
	VPERM2I128 $0x21, Y5, Y10, Y6
	VPALIGNR   $12, Y6, Y5, Y7
	VMOVDQA    Y5, Y10

	// The first run of a pattern at a place, the second two bytes after.
	VPSRLD    $8, Y3, Y8
	VPSRLD    $8, Y5, Y9
	VPAND     Y7, Y8, Y8
	VPAND     Y3, Y9, Y9
	VPAND     Y13, Y8, Y8
	VPAND     Y13, Y9, Y9
	VPCMPEQD  Y12, Y8, Y8
	VPCMPEQD  Y12, Y9, Y9
	VMOVMSKPS Y8, AX
	VMOVMSKPS Y9, R9
	SHLL      $8, R9
	ORL       R9, AX
	XORL      $0xffff, AX
	MOVQ      BX, R10
	SHLQ      $16, R10
	ORQ       AX, R10
	MOVQ      R10, (DI)(R8*8)
	CMPL      AX, $1             // an entry without a place is written over
	SBBQ      $-1, R8
	ADDQ      $32, SI
	ADDQ      $32, BX
	DECQ      CX
	JNZ       block
	MOVQ      R8, n+40(FP)
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
