package main

const (
	sysFstatat   = 262
	sysRenameat2 = 316
	sysOpenat2   = 437
	sysSeccomp   = 317
)
