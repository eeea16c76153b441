package sys

// System calls that package syscall does not define.
const (
	sysFstatat     = 79
	sysRenameat2   = 276
	sysOpenat2     = 437
	SysSeccomp     = 277
	sysMemfdCreate = 279
)
