module sandglass/runner

go 1.19
