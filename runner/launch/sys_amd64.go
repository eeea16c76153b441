package launch

const sysMemfdCreate = 319
