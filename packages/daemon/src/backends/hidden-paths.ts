// SECURITY: host-wide knobs and host details that a namespace does not hide.
export const MASKED_PROC = [
  ...['acpi', 'asound', 'cmdline', 'diskstats', 'dynamic_debug', 'interrupts', 'kallsyms', 'kcore', 'key-users', 'keys', 'kmsg'],
  ...['kpagecgroup', 'kpagecount', 'kpageflags', 'latency_stats', 'modules', 'pagetypeinfo', 'partitions', 'sched_debug', 'scsi'],
  ...['slabinfo', 'sysrq-trigger', 'timer_list', 'timer_stats', 'vmallocinfo'],
].map(name => `/proc/${name}`)

export const READONLY_PROC = ['/proc/bus', '/proc/fs', '/proc/irq', '/proc/pressure', '/proc/sys']
