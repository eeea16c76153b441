package unpack

const sysSyncfs = 267 // package syscall does not name it
