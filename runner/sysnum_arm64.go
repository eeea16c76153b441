package main

const (
	sysFstatat   = 79
	sysRenameat2 = 276
	sysOpenat2   = 437
	sysSeccomp   = 277
)
