package mount

const sysSetns = 268
