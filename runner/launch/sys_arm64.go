package launch

const sysMemfdCreate = 279
