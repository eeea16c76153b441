package guest

// System calls that the standard library has no name for.
const (
	sysFinitModule = 313
	sysSeccomp     = 317
)
