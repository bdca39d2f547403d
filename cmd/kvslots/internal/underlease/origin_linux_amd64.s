#include "textflag.h"

// DI is the signal, SI its siginfo.
TEXT ·relay(SB),NOSPLIT|NOFRAME,$0
	MOVL	8(SI), AX
	LEAQ	·codes(SB), CX
	MOVL	AX, (CX)(DI*4)
	MOVQ	·next(SB), AX
	JMP	AX

DATA	·relayPC(SB)/8, $·relay(SB)
GLOBL	·relayPC(SB), NOPTR, $8
