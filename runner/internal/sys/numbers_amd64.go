package sys

// System calls that package syscall does not define.
const (
	sysFstatat     = 262
	sysRenameat2   = 316
	sysOpenat2     = 437
	SysSeccomp     = 317
	sysMemfdCreate = 319
)
