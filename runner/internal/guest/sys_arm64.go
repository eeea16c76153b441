package guest

// System calls that the standard library has no name for.
const (
	sysFinitModule = 273
	sysSeccomp     = 277
)
