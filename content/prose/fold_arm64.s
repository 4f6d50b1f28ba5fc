#include "textflag.h"

DATA weights<>+0(SB)/8, $0x8040201008040201
DATA weights<>+8(SB)/8, $0x8040201008040201
GLOBL weights<>(SB), RODATA|NOPTR, $16

// func foldSixteen(dst, src *byte, n int, stops *[4][16]byte, squeeze *[256]uint64, last byte) (used, made int)
TEXT ·foldSixteen(SB), NOSPLIT, $0-64
	MOVD  dst+0(FP), R0
	MOVD  src+8(FP), R1
	MOVD  n+16(FP), R2
	MOVD  stops+24(FP), R3
	MOVD  squeeze+32(FP), R4
	MOVBU last+40(FP), R5
	VLD1  (R3), [V16.B16, V17.B16, V18.B16, V19.B16]
	MOVD  $weights<>(SB), R6
	VLD1  (R6), [V20.B16]
	VMOVI $0x20, V21.B16
	VMOVI $0x61, V22.B16
	VMOVI $25, V23.B16
	VMOVI $0x30, V24.B16
	VMOVI $9, V25.B16
	VMOVI $0x80, V26.B16

	// V27: words, of the bytes before
	VDUP  R5, V27.B16
	VCMEQ V21.B16, V27.B16, V27.B16
	VMOVI $0xFF, V28.B16
	VEOR  V28.B16, V27.B16, V27.B16

block:
	CMP    $16, R2
	BLT    done
	VLD1.P 16(R1), [V0.B16]

	// V1: stops and bytes that are not ASCII
	VCMTST V26.B16, V0.B16, V1.B16
	VCMEQ  V16.B16, V0.B16, V2.B16
	VCMEQ  V17.B16, V0.B16, V3.B16
	VCMEQ  V18.B16, V0.B16, V4.B16
	VCMEQ  V19.B16, V0.B16, V5.B16
	VORR   V2.B16, V1.B16, V1.B16
	VORR   V3.B16, V4.B16, V4.B16
	VORR   V5.B16, V1.B16, V1.B16
	VORR   V4.B16, V1.B16, V1.B16

	// V6: letters and digits
	VORR  V21.B16, V0.B16, V3.B16
	VSUB  V22.B16, V3.B16, V4.B16
	VSUB  V24.B16, V0.B16, V5.B16
	VUMIN V23.B16, V4.B16, V6.B16
	VUMIN V25.B16, V5.B16, V7.B16
	VCMEQ V4.B16, V6.B16, V6.B16
	VCMEQ V5.B16, V7.B16, V7.B16
	VORR  V7.B16, V6.B16, V6.B16

	// V3: the result; V7: bytes that are kept, which are letters, digits or after one
	VBIF V6.B16, V21.B16, V3.B16
	VEXT $15, V6.B16, V27.B16, V7.B16
	VORR V6.B16, V7.B16, V7.B16
	VMOV V6.B16, V27.B16

	// R5: a bit for each kept byte, and above these for each stop
	VAND  V20.B16, V7.B16, V7.B16
	VAND  V20.B16, V1.B16, V1.B16
	VADDP V1.B16, V7.B16, V7.B16
	VADDP V7.B16, V7.B16, V7.B16
	VADDP V7.B16, V7.B16, V7.B16
	VCNT  V7.B8, V8.B8
	VMOV  V7.S[0], R5
	VMOV  V8.S[0], R9
	LSR   $16, R5, R6
	CBNZ  R6, stop

write:
	// Of each half, the bytes that R5 has bits for; R9 has their numbers.
	AND   $0xFF, R5, R7
	UBFX  $8, R5, $8, R8
	FMOVD (R4)(R7<<3), F4
	FMOVD (R4)(R8<<3), F5
	VEXT  $8, V3.B16, V3.B16, V2.B16
	VTBL  V4.B8, [V3.B16], V4.B8
	VTBL  V5.B8, [V2.B16], V5.B8
	AND   $0xFF, R9, R7
	UBFX  $8, R9, $8, R8
	FMOVD F4, (R0)
	ADD   R7, R0
	FMOVD F5, (R0)
	ADD   R8, R0
	SUB   $16, R2
	CBZ   R6, block
	JMP   done

stop:
	RBIT  R6, R6
	CLZ   R6, R6
	SUB   $16, R1
	ADD   R6, R1
	MOVD  $1, R7
	LSL   R6, R7, R7
	SUB   $1, R7, R7
	AND   R7, R5
	VMOV  R5, V7.S[0]
	VCNT  V7.B8, V8.B8
	VMOV  V8.S[0], R9
	MOVD  $1, R6
	JMP   write

done:
	MOVD src+8(FP), R2
	SUB  R2, R1
	MOVD R1, used+48(FP)
	MOVD dst+0(FP), R2
	SUB  R2, R0
	MOVD R0, made+56(FP)
	RET
