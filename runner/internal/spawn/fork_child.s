// Lets fork_child.go declare functions of the runtime without a body.
