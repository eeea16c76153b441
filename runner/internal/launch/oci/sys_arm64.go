package oci

const sysMemfdCreate = 279
