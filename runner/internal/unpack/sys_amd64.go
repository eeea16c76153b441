package unpack

const sysSyncfs = 306 // package syscall does not name it
