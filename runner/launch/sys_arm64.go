package launch

const (
	sysMemfdCreate = 279
	sysSetns       = 268
)
