package mount

const sysSetns = 308
