#include "textflag.h"

// R0 is the signal, R1 its siginfo.
TEXT ·relay(SB),NOSPLIT|NOFRAME,$0
	MOVW	8(R1), R3
	MOVD	$·codes(SB), R4
	ADD	R0<<2, R4
	MOVW	R3, (R4)
	MOVD	·next(SB), R3
	JMP	(R3)

DATA	·relayPC(SB)/8, $·relay(SB)
GLOBL	·relayPC(SB), NOPTR, $8
