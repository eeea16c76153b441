package oci

const sysMemfdCreate = 319
