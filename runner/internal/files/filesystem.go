package files

import (
	"strings"
	"syscall"
)

// kernelFilesystems are the filesystems whose files the kernel generates. The files have no length, and reading or
// writing them has effects.
var kernelFilesystems = map[int64]bool{
	0x9fa0:     true, // proc
	0x62656572: true, // sysfs
	0x27e0eb:   true, // cgroup
	0x63677270: true, // cgroup2
	0x64626720: true, // debugfs
	0x74726163: true, // tracefs
	0x73636673: true, // securityfs
	0x62656570: true, // configfs
	0xcafe4a11: true, // bpf
}

// IsKernelFilesystem tells whether a descriptor is on one of them. If the kernel does not tell, it assumes so.
func IsKernelFilesystem(fd int) bool {
	disk := &syscall.Statfs_t{}
	return syscall.Fstatfs(fd, disk) != nil || kernelFilesystems[int64(disk.Type)]
}

// isInMemory tells whether a path is on a /tmp in memory, whose size is a share of the session's memory.
func isInMemory(path string) bool {
	const tmpfsMagic = 0x01021994
	disk := &syscall.Statfs_t{}
	return strings.HasPrefix(path+"/", "/tmp/") && syscall.Statfs("/tmp", disk) == nil && int64(disk.Type) == tmpfsMagic
}
