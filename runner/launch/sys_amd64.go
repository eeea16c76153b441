package launch

const (
	sysMemfdCreate = 319
	sysSetns       = 308
)
